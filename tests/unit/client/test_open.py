"""Opening a client from several tasks at once."""

import asyncio

import pytest

import penstock
from penstock import Client
from penstock.client.connection.channel import Channel
from penstock.core.errors import ClientClosed, Unavailable
from penstock.embedded.connector import connect


def counted(client: Client) -> list[Channel]:
    """The channels that a client opens."""
    channels: list[Channel] = []
    open_channel = client._open_channel

    async def opening() -> Channel:
        await asyncio.sleep(0)  # Time for the other callers.
        channels.append(await open_channel())
        return channels[-1]

    client._open_channel = opening
    return channels


def test_tasks_that_open_at_once_share_one_connection() -> None:
    async def whole() -> None:
        client = connect("memory:")
        channels = counted(client)
        found = await asyncio.gather(*(client.open() for _ in range(50)))
        assert found == [client] * 50
        assert len(channels) == 1
        await client.send("orders", b"one")
        await client.close()

    asyncio.run(whole())


def test_a_caller_that_is_cancelled_does_not_cancel_the_others() -> None:
    async def whole() -> None:
        client = connect("memory:")
        first, second = (asyncio.create_task(client.open()) for _ in range(2))
        await asyncio.sleep(0)
        first.cancel()
        assert await second is client
        assert first.cancelled()
        await client.close()

    asyncio.run(whole())


def test_when_all_callers_are_cancelled_nothing_stays_open() -> None:
    async def whole() -> None:
        client = connect("memory:")
        channels = counted(client)
        only = asyncio.create_task(client.open())
        await asyncio.sleep(0)
        only.cancel()
        with pytest.raises(asyncio.CancelledError):
            await only
        await asyncio.sleep(0)
        assert channels == []
        await client.open()
        assert len(channels) == 1
        await client.close()

    asyncio.run(whole())


def test_closing_ends_an_attempt_to_open() -> None:
    async def whole() -> None:
        client = connect("memory:")
        opening = asyncio.create_task(client.open())
        await asyncio.sleep(0)
        await client.close()
        with pytest.raises(ClientClosed):
            await opening

    asyncio.run(whole())


def test_all_callers_get_the_error_and_the_next_attempt_is_another_one() -> None:
    async def whole() -> None:
        client = penstock.connect("penstock://127.0.0.1:1")
        found = await asyncio.gather(*(client.open() for _ in range(3)), return_exceptions=True)
        assert [type(one) for one in found] == [type(found[0])] * 3
        assert isinstance(found[0], Unavailable)
        with pytest.raises(Unavailable):
            await client.open()
        await client.close()

    asyncio.run(whole())
