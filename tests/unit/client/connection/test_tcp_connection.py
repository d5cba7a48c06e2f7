"""One connection: what leaves together, and how requests end that are not answered."""

import asyncio
from collections.abc import Awaitable, Callable, Iterable

import pytest

from penstock.client.connection.channel import Buffer, PreparedRequest
from penstock.client.connection.tcp_connection import JOINED_BYTES_MAX, TcpConnection
from penstock.core.errors import OutcomeUnknown, PenstockError, QueueFull, Unavailable
from penstock.wire import codec
from penstock.wire.failures import describe_error
from penstock.wire.frames import Kind, greet, write_prefix
from penstock.wire.requests import Answer, Append, AskProducer, ProducerInfo, Request
from penstock.wire.stream import Frame, FrameStream
from tests.manual_loop import manual_loop, run_manually
from tests.unit.client.loop_time import count_by_the_loop

SECONDS = 60.0


class Node(asyncio.Transport):
    """The other end, at a distance of nothing: sees each write, and says what it is told to."""

    def __init__(self) -> None:
        super().__init__()
        self.late: list[tuple[Request, Answer]] = []
        self.connection = TcpConnection("node", lambda *told: self.late.append(told))
        self.writes: list[list[Frame]] = []
        self.aborted = False
        self._stream = FrameStream(memoryview(bytearray(1 << 20)), 1 << 30)
        self.connection.connection_made(self)
        self._say(greet())

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """There is no buffer."""

    def write(self, data: Buffer) -> None:
        frames = self._stream.feed(memoryview(data))
        if frames:
            self.writes.append(frames)

    def writelines(self, list_of_data: Iterable[Buffer]) -> None:
        self.write(b"".join(list_of_data))

    def abort(self) -> None:
        self.aborted = True
        self.connection.connection_lost(None)

    def _say(self, data: bytes) -> None:
        self.connection.get_buffer(-1)[: len(data)] = data
        self.connection.buffer_updated(len(data))

    def answer(self, frame: Frame, answer: Answer, payload: bytes = b"") -> None:
        head = codec.encode(answer)
        prefix = write_prefix(Kind.ANSWER, frame.id, len(head), len(payload))
        self._say(prefix + head + payload)

    def refuse(self, frame: Frame, error: PenstockError) -> None:
        head = codec.encode(describe_error(error))
        self._say(write_prefix(Kind.FAILURE, frame.id, len(head), 0) + head)

    def ask(self, seconds: float = SECONDS) -> "asyncio.Task[tuple[Answer, Buffer]]":
        return asyncio.create_task(self.connection.ask(AskProducer(), b"", seconds))

    def begin(self, asked: "Asked", *, at_once: bool = False) -> bool:
        return self.connection.begin(asked.make, asked.ended, at_once=at_once)


class Asked:
    """A request that is made when it leaves."""

    def __init__(self, payload: bytes = b"", seconds: float = SECONDS) -> None:
        self._payload = payload
        self._seconds = seconds
        self.made = False
        self.outcomes: list[Answer | PenstockError] = []
        self.over = asyncio.Event()

    def make(self) -> PreparedRequest | None:
        self.made = True
        deadline = asyncio.get_running_loop().time() + self._seconds
        return Append(b"t" * 16, 0), self._payload, deadline

    def ended(self, outcome: Answer | PenstockError, payload: Buffer) -> None:
        self.outcomes.append(outcome)
        self.over.set()


def play(scene: Callable[[Node], Awaitable[None]]) -> None:
    async def run() -> None:
        await scene(Node())

    with pytest.MonkeyPatch.context() as patched:
        count_by_the_loop(patched)
        run_manually(run())


async def turn() -> None:
    """Let everything happen that happens by itself."""
    for _ in range(3):
        await asyncio.sleep(0)


@pytest.mark.parametrize("payload", [b"", b"x", bytes(JOINED_BYTES_MAX)])
def test_what_is_asked_in_one_turn_leaves_together(payload: bytes) -> None:
    async def scene(node: Node) -> None:
        asked = Asked(payload)
        router = node.ask()
        assert node.begin(asked)
        assert not asked.made, "it is made when it leaves"
        await turn()
        ((first, second),) = node.writes
        assert sorted([len(first.payload), len(second.payload)]) == [0, len(payload)]
        for frame in (first, second):
            node.answer(frame, ProducerInfo(7), b"more")
        assert asked.outcomes == [ProducerInfo(7)]
        assert await router == (ProducerInfo(7), b"more")
        assert node.connection.is_idle

    play(scene)


def test_what_leaves_at_once_takes_along_what_waits() -> None:
    async def scene(node: Node) -> None:
        waiting, hurried = Asked(), Asked()
        assert node.begin(waiting)
        assert not node.writes
        assert node.begin(hurried, at_once=True)
        ((_, _),) = node.writes
        await turn()
        assert len(node.writes) == 1

    play(scene)


def test_nothing_is_written_if_there_is_nothing_to_ask_any_more() -> None:
    async def scene(node: Node) -> None:
        assert node.connection.begin(lambda: None, Asked().ended, at_once=False)
        await turn()
        assert not node.writes

    play(scene)


def test_a_refusal_is_an_end_too() -> None:
    async def scene(node: Node) -> None:
        asked = Asked()
        node.begin(asked, at_once=True)
        router = node.ask()
        await turn()
        for (frame,) in list(node.writes):
            node.refuse(frame, QueueFull("no"))
        assert [type(one) for one in asked.outcomes] == [QueueFull]
        with pytest.raises(QueueFull):
            await router

    play(scene)


def test_a_node_that_says_nothing_in_time_loses_its_connection() -> None:
    async def scene(node: Node) -> None:
        asked, patient = Asked(seconds=0.001), Asked()
        node.begin(asked)
        node.begin(patient)
        router = node.ask(0.001)
        with pytest.raises(OutcomeUnknown, match="did not answer AskProducer"):
            await router
        assert node.aborted
        assert [type(one) for one in asked.outcomes + patient.outcomes] == [OutcomeUnknown] * 2
        assert not node.begin(Asked())
        with pytest.raises(Unavailable):
            await node.ask()

    play(scene)


def test_what_is_answered_too_late_is_withdrawn_and_told() -> None:
    async def scene(node: Node) -> None:
        answered = node.ask()
        asked = Asked(seconds=0.001)
        node.begin(asked)
        await turn()
        ((first, second),) = node.writes
        manual_loop().advance(0.0005)
        node.connection.buffer_updated(0)  # Something is heard: it does not hang.
        await asked.over.wait()
        await turn()
        ((withdrawal,),) = node.writes[1:]
        late, other = (first, second) if first.id == withdrawal.id else (second, first)
        assert (withdrawal.kind, node.aborted) == (Kind.WITHDRAWAL, False)
        node.answer(late, ProducerInfo(7))
        assert node.late == [(Append(b"t" * 16, 0), ProducerInfo(7))]
        assert [type(one) for one in asked.outcomes] == [OutcomeUnknown]
        node.answer(other, ProducerInfo(8))
        assert (await answered)[0] == ProducerInfo(8)

    play(scene)


def test_whoever_is_cancelled_withdraws() -> None:
    async def scene(node: Node) -> None:
        router = node.ask()
        await turn()
        router.cancel()
        await turn()
        ((request,), (withdrawal,)) = node.writes
        assert (withdrawal.kind, withdrawal.id) == (Kind.WITHDRAWAL, request.id)
        node.answer(request, ProducerInfo(7))
        assert node.late == [(AskProducer(), ProducerInfo(7))]

    play(scene)


@pytest.mark.parametrize("cancelled_first", [True, False])
def test_an_answer_that_comes_as_its_caller_leaves_is_told(cancelled_first: bool) -> None:
    async def scene(node: Node) -> None:
        router = node.ask()
        await turn()
        ((request,),) = node.writes
        if cancelled_first:
            router.cancel()
        node.answer(request, ProducerInfo(7))
        router.cancel()
        with pytest.raises(asyncio.CancelledError):
            await router
        assert node.late == [(AskProducer(), ProducerInfo(7))]

    play(scene)


def test_a_lost_connection_says_what_may_have_happened() -> None:
    async def scene(node: Node) -> None:
        left, waits = Asked(), Asked()
        node.begin(left, at_once=True)
        node.begin(waits)
        node.abort()
        assert [type(one) for one in left.outcomes] == [OutcomeUnknown]
        assert [type(one) for one in waits.outcomes] == [Unavailable]
        await turn()
        assert not waits.made
        assert len(node.writes) == 1

    play(scene)


def test_nothing_is_begun_while_the_node_does_not_read() -> None:
    async def scene(node: Node) -> None:
        node.connection.pause_writing()
        assert not node.begin(Asked())
        router = node.ask()
        await turn()
        assert not node.writes
        node.connection.resume_writing()
        assert node.begin(Asked())
        await turn()
        assert sum(map(len, node.writes)) == 2
        router.cancel()

    play(scene)
