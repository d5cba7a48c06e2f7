"""Nodes that are nothing but their links, and peers that are nothing but a socket."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from random import Random

import msgspec
import uvloop

from penstock.core.append_payload import Slice, encode_append
from penstock.core.clock import Clock
from penstock.core.entries import Entry, EntryKind
from penstock.core.memory_budget import MemoryBudget
from penstock.core.types import Index, NodeId, Offset, PartitionId, ShardId, Term
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.exchange import Caller, Serve
from penstock.engine.peers.frames import (
    FORMAT_NEWEST,
    FORMAT_OLDEST,
    HELLO_DECODER,
    REFUSED_DECODER,
    Frame,
    FrameKind,
    FrameReader,
    Hello,
    LinkIdentity,
    decode_payload,
    encode_frame,
)
from penstock.engine.peers.link import LinkSecurity, LinkSettings
from penstock.engine.peers.links import Links
from penstock.engine.replica.network import PeerMessage
from penstock.raft.messages import AppendRequest, Heartbeat
from tests.batches import build_batch

HOST = "127.0.0.1"
CLUSTER = "c1"
QUICK = LinkSettings(
    head_start_ms=20,
    retry_ms_min=2,
    retry_ms_max=20,
    tick_ms=5,
    close_timeout_ms=500,
)

LOOPS = {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}
Run = Callable[[Coroutine[object, object, None]], None]


async def until(condition: Callable[[], object]) -> None:
    """Let the loop turn until something is so."""
    async with asyncio.timeout(60):
        while not condition():  # noqa: ASYNC110  # Conditions are many; events would be too.
            await asyncio.sleep(0)


def heartbeat(source: int, target: int, round_number: int) -> Heartbeat:
    return Heartbeat(
        source=NodeId(source),
        target=NodeId(target),
        term=Term(1),
        session=1,
        commit=Index(0),
        round=round_number,
    )


def append(source: int, target: int, payload: bytes, index: int = 1) -> AppendRequest:
    return AppendRequest(
        source=NodeId(source),
        target=NodeId(target),
        term=Term(1),
        session=1,
        previous_index=Index(index - 1),
        previous_term=Term(1),
        entries=(Entry(Index(index), Term(1), EntryKind.APPEND, payload),),
        commit=Index(0),
    )


def append_batch(source: int, target: int, value: bytes, index: int = 1) -> AppendRequest:
    """The same with an entry that a replica can read."""
    return append(source, target, append_payload(value), index)


def append_payload(value: bytes) -> bytes:
    """One record batch of one partition."""
    batch = build_batch(1, value=value)
    part = Slice(PartitionId(1), len(batch), Offset(0), 1, 1, 0)
    return encode_append(1, [(part, [batch])])


class Node:
    """A node without anything behind its links; what arrives is written down."""

    def __init__(
        self,
        node: int,
        *,
        cluster: str = CLUSTER,
        settings: LinkSettings = QUICK,
        clock: Clock | None = None,
        serve: Serve | None = None,
        keys: tuple[bytes, ...] = (),
        required: bool | None = None,
        is_member: Callable[[LinkIdentity], bool] = lambda _identity: True,
        complain: Callable[[str], None] | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.node = NodeId(node)
        self.received: list[tuple[ShardId, PeerMessage]] = []
        self.notices: list[tuple[NodeId, str, bytes]] = []
        self.changes: list[tuple[NodeId, bool]] = []
        self.lines: list[str] = []
        self.address = ""
        self.links = Links(
            self.identity(cluster),
            on_message=lambda shard, message: self.received.append((shard, message)),
            on_request=serve or self.echo,
            on_notice=self.take_notice,
            on_change=lambda peer, connected: self.changes.append((peer, connected)),
            announce=self.lines.append,
            complain=complain,
            is_member=is_member,
            security=LinkSecurity(
                keys=ClusterKeys(keys), required=bool(keys) if required is None else required
            ),
            memory=memory,
            settings=settings,
            clock=clock,
            random=Random(node),
        )

    def identity(self, cluster: str) -> LinkIdentity:
        return LinkIdentity(cluster, self.node, f"incarnation-{self.node}", "1.0")

    async def echo(self, caller: Caller, method: str, body: bytes) -> bytes:
        return b"%d %s " % (caller.node, method.encode()) + body

    def take_notice(self, source: NodeId, method: str, body: bytes) -> None:
        if method == "typed":
            msgspec.msgpack.decode(body, type=list[int])
        self.notices.append((source, method, body))

    async def start(self, port: int = 0) -> "Node":
        host, bound = await self.links.start(HOST, port)
        self.address = f"{host}:{bound}"
        return self

    def send(self, shard: int, message: PeerMessage) -> None:
        self.links.network(ShardId(shard)).send(message)

    def knows(self, *others: "Node") -> None:
        self.links.set_peers({other.node: other.address for other in (self, *others)})


async def start_pair(
    settings: LinkSettings = QUICK, clock: Clock | None = None, port: int = 0
) -> tuple[Node, Node]:
    """Nodes 1 and 2, linked; node 1 listens on `port`."""
    one = await Node(1, settings=settings, clock=clock).start(port)
    two = await Node(2, settings=settings, clock=clock).start()
    one.knows(two)
    two.knows(one)
    await until(lambda: one.links.connected() and two.links.connected())
    return one, two


async def forever() -> bytes:
    """An answer that never comes."""
    never: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    return await never


def has_received(node: Node, count: int) -> bool:
    return len(node.received) == count


def quiet(*nodes: Node) -> bool:
    """Nothing is on its way between these nodes, which have no links with others."""
    counts = [node.links.statistics() for node in nodes]
    return sum(each.bytes_sent for each in counts) == sum(each.bytes_received for each in counts)


def clock_was_seen(node: Node, clock: Clock) -> bool:
    """The node has looked at the clock since it was moved."""
    return node.links._ticked_ms == clock.monotonic_ms()


async def close_all(*nodes: Node) -> None:
    await asyncio.gather(*(node.links.close() for node in nodes))


class RawPeer:
    """A peer made of a socket alone, which can say and leave out whatever it likes."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self.writer = writer
        self._frames = FrameReader(1 << 20)
        self._pending: list[Frame] = []

    @classmethod
    async def dial(cls, node: Node) -> "RawPeer":
        host, _, port = node.address.rpartition(":")
        return cls(*await asyncio.open_connection(host, int(port), limit=1 << 16))

    async def greet(self, node: int, *, cluster: str = CLUSTER, life: int = 7) -> Hello:
        """Say hello and hear it in return."""
        self.say(hello(node, cluster=cluster, life=life))
        frame = await self.next()
        assert frame is not None
        return decode_payload(HELLO_DECODER, frame)

    def say(self, content: Hello) -> None:
        self.writer.write(encode_frame(FrameKind.HELLO, content))

    def send(self, kind: FrameKind, content: object) -> None:
        """Any frame at all."""
        self.writer.write(encode_frame(kind, content))

    async def next(self) -> Frame | None:
        """The next frame; None at the end."""
        while not self._pending:
            try:
                data = await self._reader.read(1 << 16)
            except ConnectionError:
                data = b""
            if not data:
                return None
            self._pending += read_frames(self._frames, data)
        return self._pending.pop(0)

    async def refusal(self) -> str:
        """Why the node would not talk."""
        frame = await self.next()
        assert frame is not None
        reason = decode_payload(REFUSED_DECODER, frame).reason
        assert await self.next() is None
        return reason

    async def drain_to_end(self) -> None:
        """Read until the node has closed the connection."""
        while await self.next() is not None:
            pass

    async def close(self) -> None:
        self.writer.close()
        with contextlib.suppress(ConnectionError):
            await self.writer.wait_closed()


def hello(
    node: int,
    *,
    target: int = 1,
    cluster: str = CLUSTER,
    life: int = 7,
    attempt: int = 1,
    later: int = 0,
) -> Hello:
    return Hello(
        FORMAT_OLDEST + later,
        FORMAT_NEWEST + later,
        LinkIdentity(cluster, NodeId(node), f"incarnation-{node}", "1.0"),
        NodeId(target),
        life,
        attempt,
    )


def read_frames(reader: FrameReader, data: bytes) -> list[Frame]:
    """Feed bytes through a reader, as the loop would; payloads are copied to outlive it."""
    frames = []
    while data:
        space = reader.space()
        count = min(len(space), len(data))
        space[:count] = data[:count]
        data = data[count:]
        frames += [
            Frame(frame.kind, memoryview(bytes(frame.payload))) for frame in reader.take(count)
        ]
    return frames
