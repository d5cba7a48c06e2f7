"""A connection with the peer port by something that is no node of the cluster."""

import asyncio
import contextlib
from collections.abc import Sequence
from types import TracebackType

import msgspec

from penstock.core.limits import FRAME_BYTES_MAX
from penstock.core.types import NodeId, ShardId
from penstock.engine.peers import frames
from penstock.engine.peers.frames import Frame, FrameKind, FrameReader, Hello, LinkIdentity
from penstock.raft.messages import AnyMessage
from tests.abuse.kafka_wire import Address

ANSWER_SECONDS = 2.0


class PeerStranger:
    """Says who it claims to be, and what it likes. `hello` is the answer, if there was one."""

    def __init__(self, streams: tuple[asyncio.StreamReader, asyncio.StreamWriter]) -> None:
        self.reader, self.writer = streams
        self.hello: Hello | None = None
        self._frames = FrameReader()
        self._frames.accept_up_to(FRAME_BYTES_MAX)

    @classmethod
    async def open(cls, address: Address) -> "PeerStranger":
        """Connect; OSError where nobody listens."""
        return cls(await asyncio.open_connection(*address))

    async def greet(
        self, *, claims: int, target: int, cluster_id: str = "", attempt: int = 1
    ) -> Hello | None:
        """Say hello as a node; the other side's hello, or None if it does not give one."""
        identity = LinkIdentity(cluster_id, NodeId(claims), f"stranger-{claims}", "0.2.0")
        hello = Hello(1, 1, identity, NodeId(target), 1 << 60, attempt)
        self.say(FrameKind.HELLO, hello)
        with contextlib.suppress(TimeoutError, OSError, EOFError, ValueError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while self.hello is None:
                    for frame in await self.receive():
                        if frame.kind is FrameKind.HELLO:
                            self.hello = frames.decode_payload(frames.HELLO_DECODER, frame)
        return self.hello

    async def receive(self) -> list[Frame]:
        """Frames that have come; EOFError when the other side has closed."""
        data = await self.reader.read(1 << 16)
        if not data:
            raise EOFError
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
        """Send a frame."""
        self.writer.write(bytes(frames.encode_frame(kind, content)))

    def tell(self, messages: Sequence[tuple[int, AnyMessage]]) -> None:
        """Send messages of shards."""
        self.say(FrameKind.MESSAGES, [(ShardId(shard), message) for shard, message in messages])

    async def ask(self, method: str, body: object, number: int = 1) -> bytes | None:
        """The body of the answer to a request; None if there was none."""
        encoded = body if isinstance(body, bytes) else msgspec.msgpack.encode(body)
        self.say(FrameKind.REQUEST, frames.Request(number, method, 2_000, encoded))
        with contextlib.suppress(TimeoutError, OSError, EOFError, ValueError):
            async with asyncio.timeout(ANSWER_SECONDS):
                while True:
                    for frame in await self.receive():
                        if frame.kind is FrameKind.ANSWER:
                            answer = frames.decode_payload(frames.ANSWER_DECODER, frame)
                            if answer.id == number:
                                return answer.body
                        if frame.kind is FrameKind.FAILURE:
                            return None
        return None

    def close(self) -> None:
        """Abort it."""
        self.writer.transport.abort()

    async def __aenter__(self) -> "PeerStranger":
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()


async def cluster_id_of(address: Address, target: int = 1) -> str:
    """What a stranger can learn of the cluster's id; empty if nothing."""
    try:
        async with await PeerStranger.open(address) as stranger:
            hello = await stranger.greet(claims=99, target=target)
    except OSError:
        return ""
    return hello.identity.cluster_id if hello is not None else ""
