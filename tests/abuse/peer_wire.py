"""A hostile connection with the peer port: of a stranger, or of a process that has the cluster key.

The key alone makes an outsider: it passes the handshake and is no member, because the catalog does
not name its incarnation. A member is what has the incarnation of one as well. Every node tells it
to a holder of the key (`identity_of`), so such a process can take the place of a member until that
member dials again.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Sequence
from types import TracebackType

import msgspec

from penstock.core.errors import InvalidFrame
from penstock.core.limits import FRAME_BYTES_MAX
from penstock.core.types import NodeId, ShardId
from penstock.engine.peers import frames
from penstock.engine.peers.cluster_key import ClusterKeys
from penstock.engine.peers.frames import Frame, FrameKind, FrameReader, Hello, LinkIdentity
from penstock.engine.peers.handshake import Initiator
from penstock.raft.messages import AnyMessage
from tests.abuse.kafka_wire import Address
from tests.cluster_key import KEY

ANSWER_SECONDS = 2.0
ENDED_SECONDS = 10.0
OUTSIDER = NodeId(99)
KEYS = ClusterKeys((KEY,))
_LIFE = 1 << 60


class PeerConnection:
    """Says who it claims to be, and what it likes. `hello` is the answer, if there was one."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams
        self.hello: Hello | None = None
        self._frames = FrameReader()
        self._frames.accept_up_to(FRAME_BYTES_MAX)

    @classmethod
    async def open(cls, address: Address) -> "PeerConnection":
        """Connect; OSError where nobody listens."""
        return cls(await asyncio.open_connection(*address))

    async def greet(
        self, *, claims: int, target: int, cluster_id: str = "", attempt: int = 1
    ) -> Hello | None:
        """Say a bare hello as a node; the other side's hello, or None if it does not give one."""
        self.say(
            FrameKind.HELLO,
            Hello(1, 1, stranger(claims, cluster_id), NodeId(target), _LIFE, attempt),
        )
        with contextlib.suppress(TimeoutError, OSError, EOFError):
            frame = await self._wait_frame(FrameKind.HELLO)
            self.hello = frames.decode_payload(frames.HELLO_DECODER, frame)
        return self.hello

    async def prove(self, identity: LinkIdentity, target: int, *, life: int = _LIFE) -> Hello:
        """Pass the handshake with the cluster key; the other side's hello. ConnectionError if it
        is refused."""
        initiator = Initiator(KEYS, NodeId(target))
        self.say(FrameKind.CHALLENGE, initiator.challenge())
        frame = await self._wait_frame(FrameKind.RESPONSE)
        if not initiator.verify(frames.decode_payload(frames.RESPONSE_DECODER, frame)):
            raise ConnectionError(f"node {target} has another cluster key")
        hello = Hello(1, 1, identity, NodeId(target), life, 1)
        self.say(FrameKind.PROOF, initiator.proof(frames.encode_hello(hello)))
        frame = await self._wait_frame(FrameKind.CONFIRM)
        confirm = frames.decode_payload(frames.PROVEN_HELLO_DECODER, frame)
        initiator.confirmed(confirm)
        self.hello = frames.decode_hello(confirm.hello)
        return self.hello

    async def _wait_frame(self, kind: FrameKind) -> Frame:
        async with asyncio.timeout(ANSWER_SECONDS):
            while True:
                for frame in await self.receive():
                    if frame.kind is kind:
                        return frame
                    if frame.kind is FrameKind.REFUSED:
                        refused = frames.decode_payload(frames.REFUSED_DECODER, frame)
                        raise ConnectionRefusedError(refused.reason)

    async def receive(self) -> list[Frame]:
        """Frames that have come; EOFError when the other side has closed."""
        data = await self.reader.read(1 << 16)
        if not data:
            raise EOFError("the node has closed the connection")
        found: list[Frame] = []
        while data:
            space = self._frames.space()
            count = min(len(space), len(data))
            space[:count] = data[:count]
            found += [
                Frame(one.kind, memoryview(bytes(one.payload))) for one in self._frames.take(count)
            ]
            data = data[count:]
        return found

    def say(self, kind: FrameKind, content: object) -> None:
        """Send a frame; what the other side does not take any more is lost."""
        if not self.writer.transport.is_closing():
            self.writer.write(bytes(frames.encode_frame(kind, content)))

    def tell(self, messages: Sequence[tuple[int, AnyMessage]]) -> None:
        """Send messages of shards."""
        self.say(FrameKind.MESSAGES, [(ShardId(shard), message) for shard, message in messages])

    async def ask(self, method: str, body: object, number: int = 1) -> bytes | None:
        """The body of the answer to a request; None if there was none."""
        encoded = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
        self.say(FrameKind.REQUEST, frames.Request(number, method, 2_000, encoded))
        with contextlib.suppress(TimeoutError, OSError, EOFError, InvalidFrame):
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    for frame in await self.receive():
                        if frame.kind is FrameKind.ANSWER:
                            answer = frames.decode_payload(frames.ANSWER_DECODER, frame)
                            if answer.id == number:
                                return answer.body
                        if frame.kind is FrameKind.FAILURE:
                            failure = frames.decode_payload(frames.FAILURE_DECODER, frame)
                            if failure.id == number:
                                return None
        return None

    async def wait_ended(self, seconds: float = ENDED_SECONDS) -> bool:
        """Read to the end; False if the node still has the connection open after a while."""
        try:
            async with asyncio.timeout(seconds):
                while await self.reader.read(1 << 18):
                    pass
        except TimeoutError:
            return False
        except OSError:
            return True
        return True

    def close(self) -> None:
        """Abort it."""
        self.writer.transport.abort()

    async def __aenter__(self) -> "PeerConnection":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


def stranger(claims: int, cluster_id: str = "") -> LinkIdentity:
    """The identity of a process that is no node."""
    return LinkIdentity(cluster_id, NodeId(claims), f"stranger-{claims}", "0.2.0")


async def identity_of(address: Address, node: int) -> LinkIdentity:
    """What a node says about itself to a process that has the cluster key."""
    async with await PeerConnection.open(address) as connection:
        hello = await connection.prove(stranger(int(OUTSIDER)), node)
    assert hello.identity.cluster_id, f"node {node} belongs to no cluster"
    return hello.identity


@contextlib.asynccontextmanager
async def open_outsider(
    address: Address, target: int, identity: LinkIdentity | None = None
) -> AsyncIterator[PeerConnection]:
    """A connection that has passed the handshake, by default of a node that is no member."""
    async with await PeerConnection.open(address) as connection:
        await connection.prove(identity or stranger(int(OUTSIDER)), target)
        yield connection


@contextlib.asynccontextmanager
async def open_member(
    nodes: dict[int, Address], *, claims: int, target: int
) -> AsyncIterator[PeerConnection]:
    """A connection with one member that another one's incarnation has passed the handshake on. The
    member whose place it takes dials again within a fraction of a second and ends it."""
    identity = await identity_of(nodes[claims], claims)
    # Lives are compared: with the same one it would be a dial of that life, and perhaps an old one.
    async with open_outsider(nodes[target], target, identity) as connection:
        yield connection


async def cluster_id_of(address: Address, target: int = 1) -> str:
    """What a stranger can learn of the cluster's id; empty if nothing."""
    async with await PeerConnection.open(address) as connection:
        hello = await connection.greet(claims=int(OUTSIDER), target=target)
    return hello.identity.cluster_id if hello is not None else ""
