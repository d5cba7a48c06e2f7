"""The client's way into an engine of its own process behaves as the one over TCP does."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from penstock.client.connection.channel import Channel
from penstock.client.connection.urls import Memory
from penstock.core.errors import ClientClosed, OutcomeUnknown, Overloaded, UnknownTopic
from penstock.core.limits import NATIVE_REQUESTS_MAX
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.embedded.channel import EmbeddedChannel
from penstock.wire.requests import Append, Appended, AskCluster, Count, ReceiveRequest
from tests.unit.embedded.router import GROUP, Asker


def play(story: Callable[[Asker], Awaitable[None]]) -> None:
    async def run() -> None:
        channel = await EmbeddedChannel.open(Memory(""))
        try:
            await story(Asker(channel))
        finally:
            await channel.close()

    asyncio.run(run())


def test_it_is_a_channel() -> None:
    async def story(queue: Asker) -> None:
        channel: Channel = queue.channel
        channel.learn([])
        await channel.ask(1, AskCluster(), timeout=60)

    play(story)


def test_a_batch_that_cannot_be_written_to_is_copied() -> None:
    async def story(queue: Asker) -> None:
        await queue.create()
        batch = bytes(build_messages([NewMessage(b"one"), NewMessage(b"two")], 1))
        for expected in (0, 2):
            answer, _ = await queue.channel.ask(
                1, Append(queue.topic_id, 0), bytes(batch), timeout=60
            )
            assert isinstance(answer, Appended)
            assert answer.base_offset == expected
        assert (await queue.counts())["ready"] == 4

    play(story)


def test_requests_begin_in_the_order_they_were_asked() -> None:
    async def story(queue: Asker) -> None:
        await queue.create()
        answers = await asyncio.gather(
            *(
                queue.channel.ask(
                    1,
                    Append(queue.topic_id, 0),
                    build_messages([NewMessage(b"%d" % number)], 1),
                    timeout=60,
                )
                for number in range(50)
            )
        )
        offsets = [answer.base_offset for answer, _ in answers if isinstance(answer, Appended)]
        assert offsets == list(range(50))

    play(story)


def test_what_is_refused_is_raised() -> None:
    async def story(queue: Asker) -> None:
        with pytest.raises(UnknownTopic, match="there is no topic nothing"):
            await queue.ask(Count("nothing", GROUP))

    play(story)


def test_no_answer_in_time_is_an_unknown_outcome() -> None:
    async def story(queue: Asker) -> None:
        await queue.create()
        with pytest.raises(OutcomeUnknown, match=r"ReceiveRequest was not answered within 0\.0 s"):
            await queue.ask(ReceiveRequest(queue.topic_id, GROUP, 1, 1, wait_ms=60_000), timeout=0)

    play(story)


def test_closing_ends_what_is_under_way() -> None:
    async def story(queue: Asker) -> None:
        await queue.create()
        waiting = asyncio.create_task(queue.take(wait_ms=60_000))
        await asyncio.sleep(0)
        await queue.channel.close()
        with pytest.raises(OutcomeUnknown, match="closed while ReceiveRequest was under way"):
            await waiting
        with pytest.raises(ClientClosed):
            await queue.counts()

    play(story)


def test_only_so_many_are_under_way() -> None:
    async def story(queue: Asker) -> None:
        await queue.create()
        waiting = [
            asyncio.create_task(queue.take(wait_ms=60_000)) for _ in range(NATIVE_REQUESTS_MAX)
        ]
        await asyncio.sleep(0)
        with pytest.raises(Overloaded, match="1000 requests are under way"):
            await queue.counts()
        for task in waiting:
            task.cancel()
        await asyncio.gather(*waiting, return_exceptions=True)
        assert await queue.counts() == {}

    play(story)
