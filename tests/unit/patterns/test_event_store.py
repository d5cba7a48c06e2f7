"""Event sourcing: of two writers one wins, snapshots spare reading, projections count once."""

import asyncio
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec
import pytest

from penstock.client.client import Client
from penstock.client.database import Cursor
from penstock.core.errors import InvalidRequest
from penstock.patterns.event_projection import EventProjection
from penstock.patterns.event_store import AggregateStore, StoredEvent, VersionConflict
from tests.unit.patterns.runs import on_memory


class Deposited(msgspec.Struct, frozen=True, tag=True):
    amount: int


class Withdrawn(msgspec.Struct, frozen=True, tag=True):
    amount: int


Event = Deposited | Withdrawn


@dataclass(frozen=True)
class Account:
    balance: int = 0
    events: int = 0


def fold(account: Account, event: Event) -> Account:
    change = event.amount if isinstance(event, Deposited) else -event.amount
    return Account(account.balance + change, account.events + 1)


def store_of(client: Client) -> AggregateStore[Event, Account]:
    return AggregateStore(
        client,
        "accounts",
        event=Event,
        state=Account,
        initial=Account,
        fold=fold,
        partitions=2,
    )


@on_memory
async def test_state_is_the_sum_of_events(client: Client) -> None:
    store = store_of(client)
    assert await store.load("anna") == (await store.load("anna"))
    assert (await store.load("anna")).version == 0
    anna = await store.append("anna", [Deposited(50), Withdrawn(20)], expected_version=0)
    assert (anna.version, anna.state.balance) == (2, 30)
    anna = await store.append("anna", [Deposited(1)], expected_version=2)
    assert anna.state == Account(31, 3)
    other = store_of(client)
    assert await other.load("anna") == anna, "another process sees the same"
    assert await other.events("anna") == [Deposited(50), Withdrawn(20), Deposited(1)]
    assert (await other.load("bob")).state == Account()


@on_memory
async def test_an_append_to_an_old_version_is_refused(client: Client) -> None:
    store, other = store_of(client), store_of(client)
    await store.append("anna", [Deposited(50)], expected_version=0)
    with pytest.raises(VersionConflict, match="version 1 and not 0"):
        await other.append("anna", [Deposited(7)], expected_version=0)


@on_memory
async def test_of_many_writers_at_once_one_wins_each_round(client: Client) -> None:
    stores = [store_of(client) for _ in range(5)]
    won = 0
    for version in range(6):
        attempts = [
            store.append("anna", [Deposited(1 + number)], expected_version=version)
            for number, store in enumerate(stores)
        ]
        results = await asyncio.gather(*attempts, return_exceptions=True)
        assert sum(isinstance(one, VersionConflict) for one in results) == 4, results
        won += sum(not isinstance(one, BaseException) for one in results)
    assert won == 6
    states = [await store.load("anna") for store in [*stores, store_of(client)]]
    assert all(state == states[0] for state in states)
    assert states[0].version == 6
    assert len(await stores[0].events("anna")) == 6


@on_memory
async def test_losers_lie_in_the_log_and_do_not_count(client: Client) -> None:
    store = store_of(client)
    await store.append("anna", [Deposited(50)], expected_version=0)
    late = StoredEvent(
        aggregate="anna",
        number=1,
        command="late",
        events=(msgspec.Raw(msgspec.json.encode(Deposited(1_000))),),
    )
    partition = store._partition("anna")
    await store.topic.send(late, key="anna", partition=partition)
    assert (await store.load("anna")).state.balance == 50
    assert await store.events("anna") == [Deposited(50)]


@on_memory
async def test_a_command_that_is_repeated_counts_once(client: Client) -> None:
    for store in (store_of(client), store_of(client)):
        for _ in range(2):
            anna = await store.append(
                "anna", [Deposited(50)], expected_version=0, command_id="deposit 7"
            )
            assert anna.state.balance == 50


@on_memory
async def test_snapshots_spare_the_reading(client: Client) -> None:
    store = store_of(client)
    for number in range(20):
        name = f"a{number % 5}"
        version = (await store.load(name)).version
        await store.append(name, [Deposited(number)], expected_version=version)
    assert await store.take_snapshots() == 5
    assert await store.take_snapshots() == 0, "nothing has changed"
    await store.append("a1", [Deposited(100)], expected_version=4)

    fresh = store_of(client)
    folded: list[Event] = []

    def watched(account: Account, event: Event) -> Account:
        folded.append(event)
        return fold(account, event)

    fresh._fold = watched
    for number in range(5):
        name = f"a{number}"
        assert await fresh.load(name) == await store.load(name)
    assert folded == [Deposited(100)], "the rest was in the snapshots"
    assert await fresh.take_snapshots() == 1


@on_memory
async def test_killed_before_the_checkpoint(client: Client) -> None:
    """States may be newer than the checkpoint: their events are read again and do not count."""
    store = store_of(client)
    await store.append("anna", [Deposited(50)], expected_version=0)
    await store.take_snapshots()
    await store.append("anna", [Deposited(1)], expected_version=1)
    sends = store.snapshots.send

    async def killed(*arguments: object, **options: object) -> None:
        raise asyncio.CancelledError

    store.snapshots.send = killed  # type: ignore[method-assign,assignment]
    with pytest.raises(asyncio.CancelledError):
        await store.take_snapshots()
    store.snapshots.send = sends  # type: ignore[method-assign]
    fresh = store_of(client)
    assert (await fresh.load("anna")).state == Account(51, 2)


@on_memory
async def test_nothing_is_no_event(client: Client) -> None:
    with pytest.raises(InvalidRequest, match="events"):
        await store_of(client).append("anna", [], expected_version=0)


class Killed(BaseException):
    """The process is gone."""


class Totals:
    """A view: how much was deposited in all, and how much withdrawn."""

    def __init__(self, client: Client, directory: str) -> None:
        self.client = client
        self.file = Path(directory) / "totals.db"
        self.dies_after = 10**9
        connection = self.connect()
        connection.execute("CREATE TABLE totals (deposited INTEGER, withdrawn INTEGER)")
        connection.execute("INSERT INTO totals VALUES (0, 0)")
        connection.commit()
        connection.close()

    def connect(self) -> sqlite3.Connection:
        return sqlite3.connect(self.file, check_same_thread=False)

    def projection(self) -> EventProjection[Event]:
        return EventProjection(
            self.client,
            "accounts",
            "totals",
            self.connect,
            self.show,
            event=Event,
        )

    def show(self, cursor: Cursor, aggregate: str, event: Event) -> None:
        self.dies_after -= 1
        if self.dies_after == 0:
            raise Killed
        column = "deposited" if isinstance(event, Deposited) else "withdrawn"
        cursor.execute(f"UPDATE totals SET {column} = {column} + ?", (event.amount,))

    def read(self) -> tuple[int, int]:
        connection = self.connect()
        row = connection.execute("SELECT deposited, withdrawn FROM totals").fetchone()
        connection.close()
        return row[0], row[1]


@on_memory
async def test_a_projection_counts_every_event_once(client: Client) -> None:
    store = store_of(client)
    for number in range(10):
        events: list[Event] = [Deposited(10), Withdrawn(1)]
        await store.append(f"a{number}", events, expected_version=0)
    with TemporaryDirectory() as directory:
        totals = Totals(client, directory)
        for dies_after in (1, 5, 15, 20):
            totals.dies_after = dies_after
            async with totals.projection() as dying:
                try:
                    await dying.catch_up()
                except Killed:
                    continue
        totals.dies_after = 10**9
        async with totals.projection() as projection:
            await projection.catch_up()
            assert totals.read() == (100, 10)
            assert await projection.catch_up() == 0
            await store.append("a1", [Deposited(5)], expected_version=2)
            assert await projection.catch_up() == 1
            assert totals.read() == (105, 10)
            assert sum((await projection.positions()).values()) == 11


@on_memory
async def test_a_projection_passes_over_losers(client: Client) -> None:
    stores = [store_of(client) for _ in range(4)]
    await asyncio.gather(
        *(store.append("anna", [Deposited(10)], expected_version=0) for store in stores),
        return_exceptions=True,
    )
    with TemporaryDirectory() as directory:
        totals = Totals(client, directory)
        async with totals.projection() as projection:
            await projection.catch_up()
        assert totals.read() == (10, 0)


@on_memory
async def test_two_projections_of_one_name(client: Client) -> None:
    store = store_of(client)
    for number in range(10):
        await store.append(f"a{number}", [Deposited(10)], expected_version=0)
    with TemporaryDirectory() as directory:
        totals = Totals(client, directory)
        async with totals.projection() as one, totals.projection() as other:
            await one.positions()
            await other.positions()
            await asyncio.gather(one.catch_up(), other.catch_up(), return_exceptions=True)
            await one.catch_up()
        assert totals.read() == (100, 0)
