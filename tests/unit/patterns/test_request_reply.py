"""Request and reply: the answer that belongs to the question, or none in time."""

import asyncio

import pytest

from penstock.client.client import Client
from penstock.client.message import Message
from penstock.patterns.request_reply import (
    CORRELATION_ID,
    REPLY_TO,
    Requester,
    RequestFailed,
    answer,
    respond,
)
from tests.unit.patterns.runs import on_memory


async def double(request: Message[object]) -> object:
    await asyncio.sleep(0)
    return {"twice": 2 * int(str(request.body))}


@on_memory
async def test_every_question_gets_its_own_answer(client: Client) -> None:
    responding = asyncio.create_task(respond(client, "numbers", double))
    async with Requester(client) as requester:
        questions = [requester.request("numbers", number) for number in range(20)]
        answers = await asyncio.gather(*questions)
        assert answers == [{"twice": 2 * number} for number in range(20)]
        assert requester.statistics().answered == 20
        assert requester.statistics().pending == 0
        name = requester.queue.name
    responding.cancel()
    await asyncio.gather(responding, return_exceptions=True)
    assert name not in {topic.name for topic in await client.topics()}, "it was deleted"


@on_memory
async def test_a_function_that_raises_is_an_answer(client: Client) -> None:
    def refuse(request: Message[object]) -> object:
        raise ValueError("not this one")

    responding = asyncio.create_task(respond(client, "numbers", refuse))
    async with Requester(client) as requester:
        with pytest.raises(RequestFailed, match="ValueError: not this one"):
            await requester.request("numbers", 1)
        async with asyncio.timeout(30):  # The answer is sent before the request is acknowledged.
            while (await client.queue("numbers").stats()).depth:  # noqa: ASYNC110
                await asyncio.sleep(0)
    responding.cancel()
    await asyncio.gather(responding, return_exceptions=True)


@on_memory
async def test_a_late_answer_is_dropped(client: Client) -> None:
    async with Requester(client) as requester:
        asking = asyncio.create_task(requester.request("numbers", 1, timeout=30))
        [request] = await client.receive("numbers", wait=60, create=True)
        asking.cancel()  # Its asker has lost patience.
        await asyncio.gather(asking, return_exceptions=True)
        assert await answer(client, request, double)
        responding = asyncio.create_task(respond(client, "numbers", double))
        assert await requester.request("numbers", 2) == {"twice": 4}
        assert requester.statistics().late == 1
        assert requester.statistics().timed_out == 1
        responding.cancel()
        await asyncio.gather(responding, return_exceptions=True)


@on_memory
async def test_nobody_answers_in_time(client: Client) -> None:
    async with Requester(client) as requester:
        with pytest.raises(TimeoutError):
            await requester.request("numbers", 1, timeout=0.001)
        assert requester.statistics().pending == 0


@on_memory
async def test_what_is_no_request_is_done_without_a_reply(client: Client) -> None:
    await client.send("numbers", 3)
    [message] = await client.receive("numbers")
    assert not await answer(client, message, double)
    assert (await client.queue("numbers").stats()).depth == 0


@on_memory
async def test_questions_left_open_end_with_the_requester(client: Client) -> None:
    async with Requester(client) as requester:
        asking = asyncio.create_task(requester.request("numbers", 1))
        [request] = await client.receive("numbers", wait=60, create=True)
        assert request.headers[REPLY_TO] == requester.queue.name.encode()
        assert request.headers[CORRELATION_ID]
        assert request.deadline is not None, "nobody works on it when its asker has gone"
    with pytest.raises(TimeoutError):
        await asking
