"""An outbox: what was committed is sent, what was rolled back is not, and order is kept."""

import asyncio
import sqlite3
from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest

from penstock.client.client import Client
from penstock.core.errors import Unavailable
from penstock.patterns.outbox import Outbox, OutboxRow
from penstock.patterns.outbox_relay import ROWS_AT_ONCE_MAX, OutboxRelay
from penstock.testing.clock import ManualClock
from tests.unit.client.postgresql import running_postgresql
from tests.unit.patterns.runs import on_memory

Connect = Callable[[], sqlite3.Connection]


class Killed(BaseException):
    """The process is gone."""


class Shop:
    """A database with an outbox."""

    def __init__(self, directory: str) -> None:
        self.file = Path(directory) / "shop.db"
        self.outbox = Outbox(clock=ManualClock())
        connection = self.connect()
        self.outbox.create(connection)
        connection.close()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, check_same_thread=False)

    def add(self, destination: str, *bodies: object, key: str | None = None) -> None:
        connection = self.connect()
        for body in bodies:
            self.outbox.add(connection.cursor(), destination, body, key=key)
        connection.commit()
        connection.close()


async def bodies(client: Client, queue: str) -> list[object]:
    received = []
    while messages := await client.receive(queue, 1_000):
        received += [message.body for message in messages]
        for message in messages:
            await message.ack()
    return received


@on_memory
async def test_what_was_committed_is_sent_in_order(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        numbers = list(range(2 * ROWS_AT_ONCE_MAX))
        shop.add("orders", *numbers, key="anna")
        shop.add("mails", "hello")
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            assert await relay.count() == (len(numbers) + 1, 0)
            while await relay.relay():
                pass
            assert await relay.count() == (0, 0)
            assert relay.sent == len(numbers) + 1
        assert await bodies(client, "orders") == numbers
        assert await bodies(client, "mails") == ["hello"]


@on_memory
async def test_what_was_rolled_back_is_not_sent(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        connection = shop.connect()
        shop.outbox.add(connection.cursor(), "orders", 1)
        connection.rollback()
        connection.close()
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            assert await relay.relay() == 0


@on_memory
async def test_what_is_said_of_a_message_arrives_with_it(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        connection = shop.connect()
        row_id = shop.outbox.add(
            connection.cursor(),
            "orders",
            {"order": 7},
            key=b"anna",
            headers={"trace": "abc", "raw": b"\x00\xff"},
            priority=9,
            message_group="g",
            delay=0,
        )
        connection.commit()
        connection.close()
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            assert await relay.relay() == 1
        [message] = await client.receive("orders")
        assert message.body == {"order": 7}
        assert message.key == b"anna"
        assert message.headers["trace"] == b"abc"
        assert message.headers["raw"] == b"\x00\xff"
        assert message.priority == 9
        assert message.message_group == "g"
        assert message.dedup_id == row_id


class ForgetfulOutbox(Outbox):
    """Dies between sending and marking."""

    def mark_sent(self, cursor: object, rows: list[OutboxRow]) -> None:
        raise Killed


@on_memory
async def test_a_relay_that_dies_sends_again_under_the_same_id(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        shop.add("orders", *range(10), key="anna")
        await client.create_queue("orders", deduplication="id")
        async with OutboxRelay(client, ForgetfulOutbox(), shop.connect) as dying:
            with pytest.raises(Killed):
                await dying.relay()
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            assert await relay.relay() == 10
        assert await bodies(client, "orders") == list(range(10))


@on_memory
async def test_a_message_that_can_never_be_sent_is_put_aside(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        shop.add("orders", 1)
        shop.add("orders", b"x" * (20 << 20))
        shop.add("orders", 2)
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            assert await relay.relay() == 3
            assert await relay.count() == (0, 1)
            assert relay.sent == 2
        assert await bodies(client, "orders") == [1, 2]


class Half:
    """A client that does not reach one destination."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.is_down = True

    async def send_many(self, destination: str, messages: list[object]) -> object:
        if self.is_down and destination == "down":
            raise Unavailable("no leader")
        return await self.client.send_many(destination, messages)


@on_memory
async def test_one_destination_out_of_reach_holds_up_no_other(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        shop.add("down", *range(ROWS_AT_ONCE_MAX + 5))
        shop.add("up", 7)
        half = Half(client)
        async with OutboxRelay(half, shop.outbox, shop.connect) as relay:  # type: ignore[arg-type]
            assert await relay.relay() == 1
            assert await relay.relay() == 0
            half.is_down = False
            while await relay.relay():
                pass
        assert await bodies(client, "up") == [7]
        assert await bodies(client, "down") == list(range(ROWS_AT_ONCE_MAX + 5))


@on_memory
async def test_a_relay_that_runs_is_woken(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        async with OutboxRelay(client, shop.outbox, shop.connect) as relay:
            running = asyncio.create_task(relay.run(every=600))
            for number in range(3):
                shop.add("orders", number)
                relay.wake()
                [message] = await client.receive("orders", wait=60, create=True)
                assert message.body == number
                await message.ack()
            running.cancel()
            await asyncio.gather(running, return_exceptions=True)


@on_memory
async def test_sent_rows_are_kept_for_a_while(client: Client) -> None:
    with TemporaryDirectory() as directory:
        shop = Shop(directory)
        clock = ManualClock()
        shop.outbox = Outbox(clock=clock)
        shop.add("orders", 1)
        async with OutboxRelay(client, shop.outbox, shop.connect, clock=clock) as relay:
            await relay.relay()
            assert _rows(shop) == 1
            clock.advance(3_600_001)
            shop.add("orders", 2)
            await relay.relay()
            assert _rows(shop) == 1


def _rows(shop: Shop) -> int:
    connection = shop.connect()
    (count,) = connection.execute("SELECT COUNT(*) FROM penstock_outbox").fetchone()
    connection.close()
    return int(count)


@pytest.mark.slow
def test_postgresql() -> None:
    psycopg = pytest.importorskip("psycopg")
    with running_postgresql() as address:
        outbox = Outbox(dialect="postgresql")
        connection = psycopg.connect(address)
        outbox.create(connection)
        for number in range(10):
            outbox.add(connection.cursor(), "orders", {"n": number}, key="anna", headers={"a": "b"})
        connection.commit()
        connection.close()

        @on_memory
        async def relay(client: Client) -> None:
            connect = lambda: psycopg.connect(address)  # noqa: E731
            async with OutboxRelay(client, outbox, connect) as relay:
                assert await relay.relay() == 10
                assert await relay.count() == (0, 0)
            assert await bodies(client, "orders") == [{"n": number} for number in range(10)]

        relay()
