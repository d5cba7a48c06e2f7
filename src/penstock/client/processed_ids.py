"""Exactly-once effect: the ids of processed messages, kept beside the user's own data.

No broker can make sure that a worker's *effect* happens once: between the effect and the
acknowledgement there is always a moment at which the worker may die, and then the message comes
again. What can be had is that the second time has no effect. For this the id of the message is
written in the same database, in the same transaction, as the effect itself. Either both are there
or neither is:

    with store.once(message) as transaction:
        if transaction.is_new:
            transaction.cursor.execute("UPDATE accounts SET …")
    await message.ack()

Leaving the block commits, an exception rolls back, and only then is the message acknowledged. A
worker that dies before the commit has changed nothing; one that dies after it leaves a message that
is delivered again, found in the table, and skipped.

Which id? A message's own id follows from its topic, partition and offset and is never given twice;
one that was moved to a dead-letter queue and back carries the id it had at first. It is the same at
every delivery, so it is enough for everything that goes wrong *after* the message was stored. It
cannot help where one wish was stored as two messages: a sender that got no answer and sent again,
an outbox that was relayed twice. Only the sender knows that both mean the same, and says so with a
`dedup_id`. If there is one it counts, within the queue, and unlike the broker's own deduplication
it counts across partitions and for as long as ids are kept here. Each group has its own ids: what
one group has done says nothing about another.

Two processes with the same message at the same time: the second one's insert waits for the first
one's transaction, then finds the id (`is_new` is False), or, if the first one failed, is new.

Ids are forgotten after `keep_seconds`, a thousand at a time, while new ones come. That must be
longer than a message may be away before it is delivered again, in a dead-letter queue for example.
A message id is not a secret and not an order of events: do not sort by it.
"""

import contextlib
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import Protocol

from penstock.client.database import Cursor, ParamStyle, run
from penstock.client.processed_store import (
    ConnectionT,
    ConnectionT_co,
    Identified,
    Transaction,
    TransactionalStore,
)
from penstock.core.clock import Clock
from penstock.core.errors import InvalidRequest

KEEP_SECONDS = 14 * 24 * 3600.0
"""Twice the seven days that topics keep messages by default."""
CONNECTIONS_MAX = 4
LOCK_SECONDS_MAX = 60.0
"""The longest wait for another process's transaction in SQLite."""


class ProcessedStore(Protocol[ConnectionT_co]):
    """A store of the ids of processed messages, in a database that has transactions."""

    def once(self, message: Identified) -> AbstractContextManager[Transaction[ConnectionT_co]]:
        """A transaction for this message; `is_new` tells whether there is anything to do."""
        ...

    def once_async(
        self, message: Identified
    ) -> AbstractAsyncContextManager[Transaction[ConnectionT_co]]:
        """Like `once`, for coroutines: waiting and committing do not block the event loop."""
        ...

    def forget_before(self, when: datetime) -> int:
        """Forget ids that were processed before this time; how many there were."""
        ...

    def close(self) -> None:
        """Close the connections. Open transactions must have ended."""
        ...


class DatabaseProcessed(TransactionalStore[ConnectionT]):
    """Ids in any database with a DB-API 2 driver: PostgreSQL, MySQL, DuckDB and so on.

        DatabaseProcessed(lambda: psycopg.connect("dbname=shop"))            # PostgreSQL
        DatabaseProcessed(pool.getconn, paramstyle=psycopg2.paramstyle)

    `connect` opens a connection that is not in autocommit mode, or takes one from your pool; up to
    `connections_max` are kept. A connection on which anything failed is closed. `INSERT … ON
    CONFLICT DO NOTHING` is what PostgreSQL and SQLite understand; for databases that do not, name
    the driver's `IntegrityError`, and a plain INSERT is used: the id is the first thing that is
    written, so nothing of yours is lost with it when it turns out to be there.
    """

    def __init__(
        self,
        connect: Callable[[], ConnectionT],
        *,
        paramstyle: ParamStyle = "format",
        table: str = "penstock_processed",
        keep_seconds: float = KEEP_SECONDS,
        connections_max: int = CONNECTIONS_MAX,
        integrity_error: type[Exception] | None = None,
        create: bool = True,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            table=table,
            paramstyle=paramstyle,
            keep_seconds=keep_seconds,
            connections_max=connections_max,
            create=create,
            clock=clock,
        )
        self._connect = connect
        self._integrity_error = integrity_error

    def _open(self) -> ConnectionT:
        connection = self._connect()
        commits = getattr(connection, "autocommit", False) is True
        if isinstance(connection, sqlite3.Connection):
            commits = commits or connection.isolation_level is None
        if commits:
            connection.close()
            raise InvalidRequest(
                "the connection commits every statement by itself, so a message and its effect"
                " would not be one transaction; switch autocommit off"
            )
        return connection

    def _start(self, connection: ConnectionT) -> None:
        """Do nothing: DB-API connections begin a transaction with their first statement."""

    def _insert(
        self, connection: ConnectionT, cursor: Cursor, values: Mapping[str, object]
    ) -> bool:
        plain = (
            f"INSERT INTO {self.table} (consumer, id, processed_ms)"  # noqa: S608
            " VALUES ({}, {}, {})"
        )
        if self._integrity_error is None:
            run(cursor, self._style, f"{plain} ON CONFLICT DO NOTHING", values)
            return cursor.rowcount == 1
        try:
            run(cursor, self._style, plain, values)
        except self._integrity_error:
            connection.rollback()
            return False
        return True


class SqliteProcessed(TransactionalStore[sqlite3.Connection]):
    """Ids in an SQLite database: a file, for any number of processes, or an open connection.

    SQLite has one writer at a time, so transactions of one store wait for each other, and for
    those of other processes for up to a minute. A connection of your own must have been opened with
    `check_same_thread=False` if coroutines or several threads use the store.
    """

    def __init__(
        self,
        database: str | Path | sqlite3.Connection,
        table: str = "penstock_processed",
        *,
        keep_seconds: float = KEEP_SECONDS,
        create: bool = True,
        clock: Clock | None = None,
    ) -> None:
        super().__init__(
            table=table,
            paramstyle="qmark",
            keep_seconds=keep_seconds,
            connections_max=1,
            create=create,
            clock=clock,
        )
        self._turn = threading.Lock()
        self._ours: sqlite3.Connection | None = None
        if database == ":memory:":
            database = self._ours = self._connect(":memory:")
        self._database = database
        self._keeps = not isinstance(database, sqlite3.Connection)

    def close(self) -> None:
        """Close the connections and threads that were opened. Transactions must have ended."""
        super().close()
        if self._ours is not None:
            self._ours.close()

    def _open(self) -> sqlite3.Connection:
        if not isinstance(self._database, sqlite3.Connection):
            return self._connect(self._database)
        if self._database.in_transaction and getattr(self._database, "autocommit", -1) == -1:
            raise InvalidRequest("the connection is in a transaction already: end it first")
        return self._database

    def _discard(self, connection: sqlite3.Connection) -> None:
        if connection is self._database:
            connection.rollback()  # It stays open: it is the user's own, or all there is.
        else:
            super()._discard(connection)

    @staticmethod
    def _connect(database: str | Path) -> sqlite3.Connection:
        connection = sqlite3.connect(
            database,
            timeout=LOCK_SECONDS_MAX,
            isolation_level=None,
            check_same_thread=False,
        )
        with contextlib.suppress(sqlite3.OperationalError):  # Another process is about to do it.
            # Readers do not wait for writers, and a commit costs one sync instead of three.
            connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        return connection

    def _start(self, connection: sqlite3.Connection) -> None:
        # IMMEDIATE: a transaction that reads first and then cannot write would fail at once.
        if not connection.in_transaction:
            connection.execute("BEGIN IMMEDIATE")

    def _insert(
        self,
        connection: sqlite3.Connection,  # noqa: ARG002 - others need it
        cursor: Cursor,
        values: Mapping[str, object],
    ) -> bool:
        statement = f"INSERT OR IGNORE INTO {self.table} VALUES ({{}}, {{}}, {{}})"  # noqa: S608
        run(cursor, self._style, statement, values)
        return cursor.rowcount == 1
