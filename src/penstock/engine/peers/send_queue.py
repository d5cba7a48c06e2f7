"""What waits to leave for one node: gathered, bounded, and in the order that serves best.

Everything sent in one turn of the loop leaves as one frame, so the heartbeats of all shards travel
together and a busy leader makes one system call, not one for each message. A frame of messages is
closed at about `MESSAGES_FRAME_BYTES`, so that a large append does not hold up the decoding of
what came before it.

While the other side takes nothing, messages wait as they are: they share their payloads with the
log's cache, and waiting costs no copy. Small ones (heartbeats, votes, acknowledgements) then go
ahead of appends and snapshot parts: what keeps a leader in office must not queue behind what fills
the line. Raft bears messages that overtake each other. While nothing waits, order is kept.

The bound counts what waits here and in the transport. Beyond it messages are dropped, which Raft
tolerates, and other frames are refused with an error. Small messages have a little
room of their own on top. One thing alone always fits.
"""

import asyncio
from collections import deque
from collections.abc import Callable

import msgspec

from penstock.core.limits import (
    FRAME_BYTES_MAX,
    MESSAGES_FRAME_BYTES,
    PEER_OUTGOING_SMALL_BYTES_MAX,
)
from penstock.core.types import ShardId
from penstock.engine.peers.frames import FRAME_HEADER_BYTES, FrameKind, Parcel, encode_frame
from penstock.engine.replica.network import PeerMessage, SnapshotPart
from penstock.raft.messages import AppendRequest

MESSAGE_OVERHEAD_BYTES = 96
"""What a message takes without entries, at most, give or take."""
ENTRY_OVERHEAD_BYTES = 32

TRANSPORT_BYTES_HIGH = 1024 * 1024
"""Above this the transport asks to wait: what is inside it can no longer be overtaken."""
TRANSPORT_BYTES_LOW = 256 * 1024


class LinkCounters(msgspec.Struct):
    """Counts of all links of a node; they never go down when a link ends."""

    frames_sent: int = 0
    frames_received: int = 0
    bytes_sent: int = 0
    bytes_received: int = 0
    messages_sent: int = 0
    messages_received: int = 0
    messages_dropped: int = 0
    messages_foreign: int = 0
    requests_sent: int = 0
    requests_served: int = 0
    requests_refused: int = 0
    links_made: int = 0
    links_lost: int = 0
    authentications_failed: int = 0
    connections_refused: int = 0


class _Lane:
    """Messages in order, and about how many bytes they will be."""

    __slots__ = ("bytes", "parcels")

    def __init__(self) -> None:
        self.parcels: list[Parcel] = []
        self.bytes = 0

    def take(self, bytes_max: int) -> list[Parcel]:
        """As many as fit, but at least one."""
        parcels = self.parcels
        if self.bytes <= bytes_max:
            self.parcels, self.bytes = [], 0
            return parcels
        size = count = 0
        for _, message in parcels:
            more = message_bytes(message)
            if size + more > bytes_max and count:
                break
            size += more
            count += 1
        self.parcels = parcels[count:]
        self.bytes -= size
        return parcels[:count]


class Outgoing:
    """The way out of one link. Nothing leaves before `open` and nothing stays after `close`."""

    __slots__ = (
        "_ahead",
        "_announce",
        "_bytes_max",
        "_counters",
        "_frames",
        "_frames_bytes",
        "_lane",
        "_paused",
        "_scheduled",
        "_soon",
        "_transport",
    )

    def __init__(
        self,
        *,
        bytes_max: int,
        counters: LinkCounters,
        soon: Callable[[Callable[[], None]], object],
        announce: Callable[[str], None],
    ) -> None:
        self._bytes_max = bytes_max
        self._counters = counters
        self._soon = soon
        self._announce = announce
        self._transport: asyncio.WriteTransport | None = None
        self._lane = _Lane()
        self._ahead = _Lane()
        self._frames: deque[bytearray] = deque()
        self._frames_bytes = 0
        self._paused = False
        self._scheduled = False

    def open(self, transport: asyncio.WriteTransport) -> None:
        """From now on this is where it goes."""
        transport.set_write_buffer_limits(high=TRANSPORT_BYTES_HIGH, low=TRANSPORT_BYTES_LOW)
        self._transport = transport

    def close(self) -> None:
        """Forget what waits."""
        self._counters.messages_dropped += len(self._lane.parcels) + len(self._ahead.parcels)
        self._transport = None
        self._lane, self._ahead = _Lane(), _Lane()
        self._frames.clear()
        self._frames_bytes = 0

    @property
    def waiting_bytes(self) -> int:
        """What has not reached the operating system."""
        waiting = self._lane.bytes + self._ahead.bytes + self._frames_bytes
        return waiting + (self._transport.get_write_buffer_size() if self._transport else 0)

    def send_message(self, shard: ShardId, message: PeerMessage) -> None:
        """Let a message leave at the end of this turn; it is dropped if too much waits."""
        size = message_bytes(message)
        lane, limit = self._lane, self._bytes_max
        if self._paused:
            if type(message) not in _BULKY:
                lane, limit = self._ahead, limit + PEER_OUTGOING_SMALL_BYTES_MAX
            waiting = self.waiting_bytes
            full = waiting > 0 and waiting + size > limit
        else:
            full = lane.bytes > 0 and lane.bytes + size > limit
        if full or self._transport is None:
            self._counters.messages_dropped += 1
            return
        lane.parcels.append((shard, message))
        lane.bytes += size
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._soon(self.flush)

    def send_frame(self, frame: bytearray) -> bool:
        """Let a frame leave; False if it cannot, because too much waits or the link is gone."""
        if self._transport is None:
            return False
        waiting = self.waiting_bytes
        if waiting > 0 and waiting + len(frame) > self._bytes_max:
            return False
        self._frames.append(frame)
        self._frames_bytes += len(frame)
        if not self._scheduled and not self._paused:
            self._scheduled = True
            self._soon(self.flush)
        return True

    def send_now(self, frame: bytes | bytearray) -> None:
        """Send a small frame ahead of everything: a hello, a ping, a refusal of a request.

        They are few, unless the other side asks and asks and takes no answer: that ends it."""
        if self._transport is None:
            return
        if self.waiting_bytes > self._bytes_max + 2 * PEER_OUTGOING_SMALL_BYTES_MAX:
            self._announce("ends a link whose other side takes nothing of what it asks for")
            self._transport.abort()
            self.close()
            return
        self._write(frame)

    def pause(self) -> None:
        """The transport has enough for now."""
        self._paused = True

    def resume(self) -> None:
        """The transport takes more."""
        self._paused = False
        self.flush()

    def flush(self) -> None:
        """Hand over what waits, until there is nothing or the transport has enough."""
        self._scheduled = False
        while self._transport is not None and not self._paused:
            # In turns, so that neither a stream of appends nor one of requests starves the other.
            lane = self._ahead if self._ahead.parcels else self._lane
            if lane.parcels:
                self._write_messages(lane.take(MESSAGES_FRAME_BYTES))
            elif not self._frames:
                return
            if self._frames:
                frame = self._frames.popleft()
                self._frames_bytes -= len(frame)
                self._write(frame)

    def _write_messages(self, parcels: list[Parcel]) -> None:
        frame = encode_frame(FrameKind.MESSAGES, parcels)
        if len(frame) - FRAME_HEADER_BYTES > FRAME_BYTES_MAX:
            # The receiver would end the link, and the next one, and the next.
            self._counters.messages_dropped += len(parcels)
            self._announce(f"drops a message of {len(frame)} bytes, too large for any frame")
            return
        self._counters.messages_sent += len(parcels)
        self._write(frame)

    def _write(self, frame: bytes | bytearray) -> None:
        assert self._transport is not None, "written to a link that is closed"
        self._counters.frames_sent += 1
        self._counters.bytes_sent += len(frame)
        self._transport.write(frame)


_BULKY = frozenset((AppendRequest, SnapshotPart))


def message_bytes(message: PeerMessage) -> int:
    """About how many bytes a message will be; looking is much cheaper than encoding."""
    if type(message) is AppendRequest:
        size = MESSAGE_OVERHEAD_BYTES
    elif type(message) is SnapshotPart:
        size = MESSAGE_OVERHEAD_BYTES + len(message.state)
    else:
        return MESSAGE_OVERHEAD_BYTES
    for entry in message.entries:
        size += len(entry.payload) + ENTRY_OVERHEAD_BYTES
    return size
