"""What waits to leave for a node: order, frames and bounds, on a transport that can be stopped."""

import asyncio

import pytest

from penstock.core.entries import SnapshotMark
from penstock.core.limits import (
    FRAME_BYTES_MAX,
    MESSAGES_FRAME_BYTES,
    MIB,
    PEER_OUTGOING_SMALL_BYTES_MAX,
)
from penstock.core.types import Index, NodeId, ShardId
from penstock.engine.peers.frames import (
    MESSAGES_DECODER,
    PING_FRAME,
    Frame,
    FrameKind,
    FrameReader,
    Notice,
    decode_payload,
    encode_frame,
)
from penstock.engine.peers.send_queue import LinkCounters, Outgoing, message_bytes
from penstock.engine.replica.network import PeerMessage, SnapshotPart
from penstock.raft.messages import AppendRequest, Heartbeat
from tests.unit.engine.linked import append, heartbeat, read_frames

BOUND = 8 * MIB
SHARD = ShardId(1)


class StoppableTransport(asyncio.Transport):
    """Takes everything, or one thing and no more."""

    def __init__(self) -> None:
        super().__init__()
        self.written: list[bytes] = []
        self.stopped = False
        self.aborted = False
        self.outgoing: Outgoing | None = None

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self.written.append(bytes(data))
        if self.stopped and self.outgoing is not None:
            self.outgoing.pause()

    def get_write_buffer_size(self) -> int:
        return sum(map(len, self.written)) if self.stopped else 0

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def abort(self) -> None:
        self.aborted = True

    def go_on(self) -> list[Frame]:
        """The other side reads all there is; the frames that were waiting."""
        reader = FrameReader(FRAME_BYTES_MAX)
        self.stopped = False
        assert self.outgoing is not None
        self.outgoing.resume()
        frames = [frame for data in self.written for frame in read_frames(reader, data)]
        self.written.clear()
        return frames


class Setting:
    """An `Outgoing` on such a transport, with a loop that turns when told to."""

    def __init__(self, bytes_max: int = BOUND) -> None:
        self.counters = LinkCounters()
        self.soon: list[object] = []
        self.lines: list[str] = []
        self.outgoing = Outgoing(
            bytes_max=bytes_max,
            counters=self.counters,
            soon=self.soon.append,
            announce=self.lines.append,
        )
        self.transport = StoppableTransport()
        self.transport.outgoing = self.outgoing
        self.outgoing.open(self.transport)

    def stop(self) -> None:
        """The other side reads no more."""
        self.transport.stopped = True
        self.outgoing.pause()

    def send(self, *messages: PeerMessage) -> None:
        for message in messages:
            self.outgoing.send_message(SHARD, message)


def messages_in(frames: list[Frame]) -> list[PeerMessage]:
    return [
        message
        for frame in frames
        if frame.kind is FrameKind.MESSAGES
        for _, message in decode_payload(MESSAGES_DECODER, frame)
    ]


def test_what_is_sent_in_one_turn_leaves_in_one_frame_and_in_order() -> None:
    setting = Setting()
    sent: list[PeerMessage] = [append(1, 2, b"a"), heartbeat(1, 2, 1), append(1, 2, b"b", 2)]
    setting.send(*sent)
    assert setting.transport.written == []
    assert setting.soon == [setting.outgoing.flush]
    (frame,) = setting.transport.go_on()
    assert messages_in([frame]) == sent


def test_what_is_small_overtakes_what_is_large_while_the_line_is_full() -> None:
    setting = Setting()
    setting.stop()
    large = [append(1, 2, bytes(MIB), index) for index in (1, 2, 3)]
    notice = encode_frame(FrameKind.NOTICE, Notice("n", bytes(100)))
    setting.send(large[0], heartbeat(1, 2, 1), large[1])
    assert setting.outgoing.send_frame(notice)
    setting.send(large[2], heartbeat(1, 2, 2))
    setting.outgoing.send_now(PING_FRAME)
    frames = setting.transport.go_on()
    assert frames[0].kind is FrameKind.PING
    assert messages_in(frames) == [heartbeat(1, 2, 1), heartbeat(1, 2, 2), *large]
    assert [frame.kind for frame in frames].index(FrameKind.NOTICE) == 2, "nobody starves"


def test_beyond_the_bound_messages_are_dropped_and_frames_refused() -> None:
    setting = Setting()
    setting.stop()
    setting.send(*(append(1, 2, bytes(MIB), index) for index in range(1, 20)))
    assert setting.counters.messages_dropped == 12
    assert not setting.outgoing.send_frame(bytearray(MIB))
    waiting = setting.outgoing.waiting_bytes
    assert BOUND - MIB < waiting <= BOUND
    # What keeps the cluster together still finds room, though not without end.
    count = 2 * PEER_OUTGOING_SMALL_BYTES_MAX // message_bytes(heartbeat(1, 2, 0))
    setting.send(*(heartbeat(1, 2, number) for number in range(count)))
    assert setting.counters.messages_dropped > 12
    assert setting.outgoing.waiting_bytes <= BOUND + PEER_OUTGOING_SMALL_BYTES_MAX
    received = messages_in(setting.transport.go_on())
    assert [type(each) for each in received].count(AppendRequest) == 7
    assert [type(each) for each in received].count(Heartbeat) > count // 2
    assert setting.outgoing.waiting_bytes == 0


def test_one_thing_alone_always_fits() -> None:
    setting = Setting(bytes_max=1000)
    setting.send(append(1, 2, bytes(5000)), append(1, 2, bytes(5000), 2))
    assert setting.counters.messages_dropped == 1
    assert len(messages_in(setting.transport.go_on())) == 1
    assert setting.outgoing.send_frame(bytearray(5000))
    assert not setting.outgoing.send_frame(bytearray(5000))


def test_large_messages_are_spread_over_frames() -> None:
    setting = Setting(bytes_max=64 * MIB)
    part = SnapshotPart(
        source=NodeId(1),
        target=NodeId(2),
        mark=SnapshotMark(),
        records_after=Index(0),
        state_position=0,
        records_through=Index(0),
        state=bytes(2 * MIB),
    )
    appends = [append(1, 2, bytes(400_000), index) for index in range(1, 6)]
    sent: list[PeerMessage] = [heartbeat(1, 2, 0), part, *appends]
    setting.send(*sent)
    frames = setting.transport.go_on()
    assert messages_in(frames) == sent
    assert [len(messages_in([frame])) for frame in frames] == [1, 1, 2, 2, 1]
    assert sum(len(f.payload) > MESSAGES_FRAME_BYTES + 1000 for f in frames) == 1


def test_a_message_that_no_frame_can_carry_is_dropped_with_a_line() -> None:
    setting = Setting(bytes_max=FRAME_BYTES_MAX * 2)
    setting.send(append(1, 2, bytes(FRAME_BYTES_MAX)), heartbeat(1, 2, 1))
    assert messages_in(setting.transport.go_on()) == [heartbeat(1, 2, 1)]
    assert setting.counters.messages_dropped == 1
    assert "too large for any frame" in setting.lines[0]


def test_nothing_leaves_after_the_end() -> None:
    setting = Setting()
    setting.send(heartbeat(1, 2, 1))
    setting.outgoing.close()
    setting.outgoing.flush()
    setting.send(heartbeat(1, 2, 2))
    setting.outgoing.send_now(PING_FRAME)
    assert not setting.outgoing.send_frame(bytearray(10))
    assert setting.transport.written == []
    assert setting.counters.messages_dropped == 2


def test_small_frames_that_nobody_takes_end_the_link() -> None:
    setting = Setting(bytes_max=1000)
    setting.stop()
    for _ in range(10_000):
        setting.outgoing.send_now(bytes(1000))
    assert setting.transport.aborted
    assert sum(map(len, setting.transport.written)) < 3 * PEER_OUTGOING_SMALL_BYTES_MAX


@pytest.mark.parametrize(
    "message", [heartbeat(1, 2, 1 << 60), append(1, 2, bytes(1000)), append(1, 2, b"")]
)
def test_the_size_of_a_message_is_guessed_well(message: PeerMessage) -> None:
    frame = encode_frame(FrameKind.MESSAGES, [(SHARD, message)])
    assert len(frame) - 60 <= message_bytes(message) <= len(frame) + 100
