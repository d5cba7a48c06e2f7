"""The blocking client is what its generator makes of the async one; the rules are shown here."""

import textwrap

import pytest

from tests.house import blocking_client
from tests.house.blocking_client import NoRule, class_text
from tests.house.sources import ROOT, Source

PATHS = blocking_client.paths()


@pytest.mark.parametrize("path", PATHS)
def test_the_blocking_client_is_up_to_date(path: str, rewrite: bool) -> None:
    wanted = blocking_client.module_text(PATHS[path])
    file = ROOT / path
    if rewrite:
        file.write_text(wanted, "utf-8")
    assert file.read_text("utf-8") == wanted, f"{path} is old: {blocking_client.COMMAND}"


SAMPLE = '''
class Queue(Generic[T]):
    """A queue; made by `Client.queue`."""

    def __init__(self, core: Core, name: str) -> None:
        self.name = name
        """What it is called."""
        self._core = core

    # Sending.

    async def send(self, body: T, *, key: str = "") -> Sent:
        """`await queue.send(7)`, also in `async for`."""
        return await self._send(body)

    put = send
    """The same."""

    async def send_many(self, bodies: "Iterable[T] | None", **options: int) -> None: ...
    async def _send(self, body: T) -> Sent: ...

    # Receiving.

    async def receive(self) -> list[Message[T]]: ...
    async def ack(self, messages: Messages[T]) -> int: ...
    def read(self, *partitions: int) -> AsyncIterator[int]: ...
    def consume(self) -> "Consumer[T]": ...
    async def __aiter__(self) -> AsyncIterator[Message[T]]:
        async with self.consume() as messages:
            yield messages

    async def __anext__(self) -> Message[T]: ...
    async def close(self) -> None: ...
'''
TWIN = '''
class BlockingQueue(Twin[Queue[T]], Generic[T]):
    """`Queue` without `await`; made by `BlockingClient.queue`."""

    @property
    def name(self) -> str:
        """What it is called."""
        return self._inner.name

    # Sending.

    def send(self, body: T, *, key: str='') -> Sent:
        """`queue.send(7)`, also in `for`."""
        return self._thread.run(self._inner.send(body, key=key))

    put = send
    """The same."""
    def send_many(self, bodies: 'Iterable[T] | None', **options: int) -> None:
        bodies = listed(bodies)
        self._thread.run(self._inner.send_many(bodies, **options))

    # Receiving.

    def receive(self) -> list[BlockingMessage[T]]:
        found = self._thread.run(self._inner.receive())
        return [BlockingMessage(one, self._thread) for one in found]

    def ack(self, messages: BlockingMessages[T]) -> int:
        return self._thread.run(self._inner.ack(unwrap(messages)))

    def read(self, *partitions: int) -> Iterator[int]:
        found = self._thread.call(lambda: self._inner.read(*partitions))
        return iterate(found, self._thread)

    def consume(self) -> 'BlockingConsumer[T]':
        found = self._thread.call(self._inner.consume)
        return BlockingConsumer(found, self._thread)

    def __iter__(self) -> Iterator[BlockingMessage[T]]:
        with self.consume() as messages:
            yield messages

    def __next__(self) -> BlockingMessage[T]:
        found = next_of(self._inner, self._thread)
        return BlockingMessage(found, self._thread)

    def close(self) -> None:
        if not self._thread.is_closed():
            self._thread.run(self._inner.close())
'''


def twin(text: str) -> str:
    return class_text("Queue", Source("queue.py", text))


def test_each_member_becomes_a_blocking_one() -> None:
    assert twin(SAMPLE).strip().splitlines() == TWIN.strip().splitlines()


@pytest.mark.parametrize(
    "member",
    [
        "async def a(self) -> dict[str, Message[T]]: ...",
        "def a(self) -> AsyncIterator[Message[T]]: ...",
        "def a(self) -> AsyncContextManager[int]: ...",
        "async def a(self, b: dict[str, Message[T]]) -> None: ...",
        "def __init__(self) -> None:\n    self.a = make()",
    ],
)
def test_what_no_rule_covers_is_refused(member: str) -> None:
    with pytest.raises(NoRule):
        twin("class Queue:\n" + textwrap.indent(member, "    "))
