"""Exactly-once effect: an id and the effect it stands for are there together or not at all."""

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, get_type_hints

import pytest

from penstock.client.database import Connection, Cursor, ParamStyle, run
from penstock.client.processed_ids import DatabaseProcessed, ProcessedStore, SqliteProcessed
from penstock.client.processed_store import (
    FORGET_EVERY,
    ID_CHARACTERS_MAX,
    Transaction,
    processed_id,
)
from penstock.core.errors import InvalidRequest
from penstock.testing.clock import ManualClock
from tests.unit.client.postgresql import running_postgresql

if TYPE_CHECKING:
    import psycopg

Store = SqliteProcessed | DatabaseProcessed[Connection]


@dataclass(frozen=True)
class Letter:
    id: str
    queue: str = "orders"
    group: str = "queue"
    dedup_id: str | None = None


@dataclass
class Bank:
    """A database with one account, and a store of ids beside it."""

    open_store: Callable[[], "Store"]
    paramstyle: ParamStyle
    balance: Callable[[], int]

    def deposit(self, store: "Store", letter: Letter) -> bool:
        with store.once(letter) as transaction:
            if transaction.is_new:
                run(
                    transaction.cursor,
                    self.paramstyle,
                    "UPDATE account SET balance = balance + {}",
                    {"amount": 10},
                )
            return transaction.is_new


def _make_account(connection: Connection) -> None:
    cursor = connection.cursor()
    cursor.execute("CREATE TABLE account (balance INTEGER)")
    cursor.execute("INSERT INTO account VALUES (0)")
    cursor.close()
    connection.commit()


def _read_balance(connection: Connection) -> int:
    cursor = connection.cursor()
    cursor.execute("SELECT balance FROM account")
    row = cursor.fetchone()
    cursor.close()
    connection.close()
    assert row is not None
    return int(str(row[0]))


def _spoil(transaction: Transaction[Connection]) -> None:
    transaction.cursor.execute("UPDATE account SET balance = 7")
    raise ZeroDivisionError


def _bank_of(kind: str, path: Path) -> Bank:
    file = path / "bank.db"

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(file, check_same_thread=False, timeout=30)

    connection = connect()
    _make_account(connection)
    connection.close()

    def open_store() -> Store:
        if kind == "sqlite":
            return SqliteProcessed(file)
        if kind == "plain insert":
            return DatabaseProcessed(
                connect, paramstyle="named", integrity_error=sqlite3.IntegrityError
            )
        return DatabaseProcessed(connect, paramstyle="qmark")

    style: ParamStyle = "named" if kind == "plain insert" else "qmark"
    return Bank(open_store, style, lambda: _read_balance(connect()))


@pytest.fixture(params=["sqlite", "database", "plain insert"])
def bank(request: pytest.FixtureRequest, tmp_path: Path) -> Bank:
    return _bank_of(request.param, tmp_path)


@pytest.fixture(scope="module")
def postgresql() -> Iterator[str]:
    with running_postgresql() as address:
        yield address


def test_a_message_has_its_effect_once(bank: Bank) -> None:
    with bank.open_store() as store:
        assert bank.deposit(store, Letter("a"))
        assert not bank.deposit(store, Letter("a"))
        assert bank.deposit(store, Letter("b"))
        assert store.is_processed(Letter("a"))
        assert not store.is_processed(Letter("c"))
        assert store.count() == 2
    assert bank.balance() == 20


def test_a_failure_takes_back_the_id_and_the_effect(bank: Bank) -> None:
    with bank.open_store() as store:
        with pytest.raises(ZeroDivisionError):
            store.apply(Letter("a"), _spoil)
        assert bank.balance() == 0
        assert bank.deposit(store, Letter("a"))
    assert bank.balance() == 10


def test_an_id_is_remembered_by_the_next_process(bank: Bank) -> None:
    for _ in range(3):
        with bank.open_store() as store:
            bank.deposit(store, Letter("a"))
    assert bank.balance() == 10


def test_two_at_once_and_one_wins(bank: Bank) -> None:
    """Each thread has a store and hence connections of its own, as processes have."""
    begin = threading.Barrier(4)

    def one() -> int:
        with bank.open_store() as store:
            begin.wait()
            return sum(bank.deposit(store, Letter(str(n))) for n in range(5))

    with bank.open_store() as store:
        bank.deposit(store, Letter("first"))  # The table is there.
    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda _: one(), range(4))) == 5
    assert bank.balance() == 60


def test_coroutines_wait_for_their_turn(bank: Bank) -> None:
    async def one(store: Store, n: int) -> bool:
        async with store.once_async(Letter(str(n % 10))) as transaction:
            await asyncio.sleep(0)
            if transaction.is_new:
                transaction.cursor.execute("UPDATE account SET balance = balance + 10")
            return transaction.is_new

    async def main() -> int:
        with bank.open_store() as store:
            return sum(await asyncio.gather(*(one(store, n) for n in range(40))))

    assert asyncio.run(main()) == 10
    assert bank.balance() == 100


def test_a_coroutine_that_fails_or_is_cancelled_changes_nothing(tmp_path: Path) -> None:
    bank = _bank_of("sqlite", tmp_path)

    async def main() -> None:
        with SqliteProcessed(tmp_path / "bank.db") as store:
            inside = asyncio.Event()

            async def stay() -> None:
                async with store.once_async(Letter("a")) as transaction:
                    transaction.cursor.execute("UPDATE account SET balance = 7")
                    inside.set()
                    await asyncio.get_running_loop().create_future()

            first = asyncio.create_task(stay())
            await inside.wait()
            second = asyncio.create_task(stay())  # It waits for its turn.
            await asyncio.sleep(0)
            second.cancel()
            first.cancel()
            await asyncio.gather(first, second, return_exceptions=True)
            with pytest.raises(ZeroDivisionError):
                async with store.once_async(Letter("a")):
                    raise ZeroDivisionError
            done = lambda t: t.cursor.execute("UPDATE account SET balance = 5")  # noqa: E731
            assert await store.apply_async(Letter("a"), done)
            assert not await store.apply_async(Letter("a"), done)
            assert not store.apply(Letter("a"), done)

    asyncio.run(main())
    assert bank.balance() == 5


def test_cancelled_while_it_begins(tmp_path: Path) -> None:
    """The thread that begins cannot be stopped; what it has begun is ended nevertheless."""

    async def main() -> None:
        file = tmp_path / "ids.db"
        with SqliteProcessed(file) as store:
            store.count()
            blocker = sqlite3.connect(file, isolation_level=None)
            blocker.execute("BEGIN IMMEDIATE")

            async def once() -> None:
                async with store.once_async(Letter("a")):
                    raise AssertionError("it never came in")

            task = asyncio.create_task(once())
            assert store._turn is not None
            while not store._turn.locked():  # noqa: ASYNC110 - a thread takes it
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
            blocker.rollback()
            blocker.close()
            async with store.once_async(Letter("a")) as transaction:
                assert transaction.is_new

    asyncio.run(main())


CRASHES = """
import os, sys
from penstock.client.processed_ids import SqliteProcessed
from tests.unit.client.test_processed_ids import Letter
store = SqliteProcessed(sys.argv[1])
with store.once(Letter("a")) as transaction:
    assert transaction.is_new
    transaction.connection.execute("UPDATE account SET balance = balance + 10")
    if sys.argv[2] == "before": os.kill(os.getpid(), 9)
os.kill(os.getpid(), 9)
"""


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize(("moment", "balance"), [("before", 0), ("after", 10)])
def test_killed_around_the_commit(tmp_path: Path, moment: str, balance: int) -> None:
    bank = _bank_of("sqlite", tmp_path)
    killed = subprocess.run([sys.executable, "-c", CRASHES, str(tmp_path / "bank.db"), moment])
    assert killed.returncode == -9
    assert bank.balance() == balance
    with bank.open_store() as store:
        assert bank.deposit(store, Letter("a")) == (moment == "before")
    assert bank.balance() == 10


WORKS = """
import sys
from penstock.client.processed_ids import SqliteProcessed
from tests.unit.client.test_processed_ids import Letter
add = "UPDATE account SET balance = balance + 10"
with SqliteProcessed(sys.argv[1]) as store:
    news = [store.apply(Letter(str(n)), lambda t: t.connection.execute(add)) for n in range(50)]
print(sum(news))
"""


@pytest.mark.slow
def test_several_processes_at_once(tmp_path: Path) -> None:
    bank = _bank_of("sqlite", tmp_path)
    command = [sys.executable, "-c", WORKS, str(tmp_path / "bank.db")]
    working = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(3)]
    news = [int(process.communicate(timeout=60)[0]) for process in working]
    assert [process.returncode for process in working] == [0, 0, 0]
    assert sum(news) == 50
    assert bank.balance() == 500


def test_which_id_counts() -> None:
    assert processed_id(Letter("a")) == "a"
    assert processed_id(Letter("a", dedup_id="order 7")) == "orders#order 7"
    long = processed_id(Letter("a", dedup_id="x" * 1_000))
    assert len(long) <= ID_CHARACTERS_MAX
    assert long != processed_id(Letter("a", dedup_id="x" * 1_001))


def test_what_a_sender_sent_twice_has_one_effect(bank: Bank) -> None:
    with bank.open_store() as store:
        assert bank.deposit(store, Letter("a", dedup_id="7"))
        assert not bank.deposit(store, Letter("b", dedup_id="7"))
        assert bank.deposit(store, Letter("b", queue="refunds", dedup_id="7"))


def test_groups_do_not_share_ids(bank: Bank) -> None:
    with bank.open_store() as store:
        assert bank.deposit(store, Letter("a", group="billing"))
        assert bank.deposit(store, Letter("a", group="mailing"))


def test_ids_are_forgotten_when_told(tmp_path: Path) -> None:
    clock = ManualClock()
    with SqliteProcessed(tmp_path / "ids.db", clock=clock) as store:
        store.apply(Letter("a"), lambda _: None)
        clock.advance(60_000)
        store.apply(Letter("b"), lambda _: None)
        assert store.forget_before(datetime.fromtimestamp(clock.wall_ms() / 1000, UTC)) == 1
        assert not store.is_processed(Letter("a"))
        assert store.is_processed(Letter("b"))


@pytest.mark.parametrize("kind", ["sqlite", "database"])
def test_ids_are_forgotten_after_their_time(tmp_path: Path, kind: str) -> None:
    clock = ManualClock()

    def connect() -> sqlite3.Connection:
        return sqlite3.connect(":memory:")

    store: Store = (
        SqliteProcessed(":memory:", keep_seconds=60, clock=clock)
        if kind == "sqlite"
        else DatabaseProcessed(connect, paramstyle="qmark", keep_seconds=60, clock=clock)
    )
    with store:
        for n in range(FORGET_EVERY - 1):
            store.apply(Letter(f"old {n}"), lambda _: None)
        clock.advance(61_000)
        assert store.count() == FORGET_EVERY - 1
        store.apply(Letter("new"), lambda _: None)
        assert store.count() == 1
        assert store.is_processed(Letter("new"))


def test_a_connection_of_the_users_own(tmp_path: Path) -> None:
    mine = sqlite3.connect(tmp_path / "mine.db")
    _make_account(mine)
    store = SqliteProcessed(mine)
    with store.once(Letter("a")) as transaction:
        assert transaction.connection is mine
        mine.execute("UPDATE account SET balance = 3")
    with pytest.raises(ZeroDivisionError):
        store.apply(Letter("b"), _spoil)
    mine.execute("UPDATE account SET balance = balance + 1")  # A transaction of their own begins.
    with pytest.raises(InvalidRequest, match="already"), store.once(Letter("c")):
        pass
    mine.commit()
    store.close()
    assert _read_balance(mine) == 4


def test_a_connection_that_commits_by_itself_is_refused() -> None:
    store = DatabaseProcessed(
        lambda: sqlite3.connect(":memory:", isolation_level=None), paramstyle="qmark"
    )
    with pytest.raises(InvalidRequest, match="autocommit"), store.once(Letter("a")):
        pass


@pytest.mark.parametrize("table", ["", "a b", "a; DROP TABLE b", "1a", "a.b.c"])
def test_a_table_has_a_plain_name(table: str) -> None:
    with pytest.raises(InvalidRequest, match="table"):
        SqliteProcessed(":memory:", table)


@pytest.mark.parametrize(
    ("style", "spelled"),
    [("qmark", "? ?"), ("numeric", ":1 :2"), ("named", ":a :b"), ("format", "%s %s")],
)
def test_parameters_are_spelled_as_the_driver_wants(style: ParamStyle, spelled: str) -> None:
    said: list[str] = []

    class Recorder:
        rowcount = 0

        def execute(self, sql: str, parameters: object = (), /) -> None:
            said.append(sql)

        def fetchone(self) -> None:
            return None

        def fetchall(self) -> list[tuple[object, ...]]:
            return []

        def close(self) -> None:
            pass

    run(Recorder(), style, "{} {}", {"a": 1, "b": 2})
    assert said == [spelled]


def test_the_stores_are_what_a_consumer_takes(tmp_path: Path) -> None:
    store: ProcessedStore[sqlite3.Connection] = SqliteProcessed(tmp_path / "ids.db")
    with store.once(Letter("a")) as transaction:
        assert transaction.is_new
    store.close()


def test_connections_of_psycopg_3_fit_the_protocol() -> None:
    """For type checkers. psycopg's statements are of a type of their own, which a text is not."""
    assert get_type_hints(Cursor.execute)["sql"] is Any
    if TYPE_CHECKING:
        url = ""
        DatabaseProcessed(lambda: psycopg.connect(url), paramstyle="pyformat")


@pytest.mark.slow
@pytest.mark.parametrize("style", ["format", "pyformat"])
def test_postgresql(postgresql: str, style: ParamStyle) -> None:
    psycopg = pytest.importorskip("psycopg")

    table = f"ids_{style}"
    with psycopg.connect(postgresql) as connection:
        connection.execute("DROP TABLE IF EXISTS account")
        connection.commit()
        _make_account(connection)
    bank = Bank(
        lambda: DatabaseProcessed(
            lambda: psycopg.connect(postgresql), paramstyle=style, table=table
        ),
        style,
        lambda: _read_balance(psycopg.connect(postgresql)),
    )
    begin = threading.Barrier(4)

    def one() -> int:
        with bank.open_store() as store:
            begin.wait()  # All four create the table, too.
            return sum(bank.deposit(store, Letter(str(n))) for n in range(20))

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(lambda _: one(), range(4))) == 20
    assert bank.balance() == 200
    test_a_failure_leaves_nothing_in(bank)
    with bank.open_store() as store:
        assert store.count() == 21
        assert store.forget_before(datetime.now(UTC).replace(year=2100)) == 21


def test_a_failure_leaves_nothing_in(bank: Bank) -> None:
    before = bank.balance()
    with bank.open_store() as store:
        with pytest.raises(ZeroDivisionError):
            store.apply(Letter("failing"), _spoil)
        assert bank.deposit(store, Letter("failing"))
    assert bank.balance() == before + 10


@pytest.mark.slow
def test_postgresql_comes_back(postgresql: str) -> None:
    """Connections that were kept die with their server; the next message does not notice."""
    psycopg = pytest.importorskip("psycopg")
    with DatabaseProcessed(lambda: psycopg.connect(postgresql), table="coming_back") as store:
        assert store.apply(Letter("a"), lambda _: None)
        with psycopg.connect(postgresql) as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE pid <> pg_backend_pid() AND usename = 'penstock'"
            )
        assert not store.apply(Letter("a"), lambda _: None)
        assert store.apply(Letter("b"), lambda _: None)


@pytest.mark.slow
def test_postgresql_lets_the_second_wait_for_the_first(postgresql: str) -> None:
    psycopg = pytest.importorskip("psycopg")

    store = DatabaseProcessed(lambda: psycopg.connect(postgresql), table="waiting")
    with store, ThreadPoolExecutor(1) as thread:
        with store.once(Letter("a")) as transaction:
            assert transaction.is_new
            second = thread.submit(store.apply, Letter("a"), lambda _: None)
            third = store.apply(Letter("b"), lambda _: None)  # Another message does not wait.
            assert third
            assert not second.done()
        assert second.result(timeout=30) is False
