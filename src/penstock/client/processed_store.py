"""The common part of stores of processed ids: transactions, connections, threads and the removal of
old ids.

`client.processed_ids` has the theory and the public classes. Two rules hold here. A connection on
which anything failed is closed, never used again. And a transaction that was begun is ended, even
if the coroutine that asked for it was cancelled meanwhile: an open transaction holds a lock.
"""

import asyncio
import logging
import threading
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import asynccontextmanager, contextmanager
from datetime import datetime
from hashlib import blake2b
from typing import Generic, Protocol, Self, TypeVar
from weakref import WeakKeyDictionary

from penstock.client.database import Connection, Cursor, ParamStyle, run, table_name
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest

_log = logging.getLogger(__name__)

FORGET_EVERY = 500
"""The number of new ids after which old ones are removed."""
FORGET_AT_ONCE_MAX = 1_000
"""More than `FORGET_EVERY`, so that a table that grew too large shrinks again."""
ID_CHARACTERS_MAX = 200

ConnectionT = TypeVar("ConnectionT", bound=Connection)
ConnectionT_co = TypeVar("ConnectionT_co", bound=Connection, covariant=True)
Result = TypeVar("Result")


class Identified(Protocol):
    """The part of `Message` that a store needs."""

    @property
    def id(self) -> str: ...
    @property
    def queue(self) -> str: ...
    @property
    def group(self) -> str: ...
    @property
    def dedup_id(self) -> str | None: ...


def processed_id(message: Identified) -> str:
    """Under which id a message is remembered within its group; at most 200 characters."""
    if message.dedup_id is None:
        return message.id
    named = f"{message.queue}#{message.dedup_id}"
    if len(named) <= ID_CHARACTERS_MAX:
        return named
    return f"blake2b:{blake2b(named.encode(), digest_size=32).hexdigest()}"


class Transaction(Generic[ConnectionT_co]):
    """An open transaction in which one message is processed. Use it for your own statements."""

    __slots__ = ("connection", "cursor", "id", "is_new")

    def __init__(
        self, connection: ConnectionT_co, cursor: Cursor, processed_id: str, *, is_new: bool
    ) -> None:
        self.connection = connection
        self.cursor = cursor
        self.id = processed_id
        self.is_new = is_new
        """False: the message has had its effect already; do nothing, and acknowledge it."""


class _LoopThreads:
    """The threads of one event loop: the number of concurrent transactions is that of the threads
    that can end them.

    Without this bound, threads that wait for a lock could leave none for the commit that would
    release it."""

    def __init__(self, width: int) -> None:
        self.turns = asyncio.Semaphore(width)
        self.threads = ThreadPoolExecutor(width, thread_name_prefix="penstock-processed")


class TransactionalStore(ABC, Generic[ConnectionT]):
    """The common part of the stores: ids, connections and transactions."""

    def __init__(
        self,
        *,
        table: str,
        paramstyle: ParamStyle,
        keep_seconds: float,
        connections_max: int,
        create: bool,
        clock: Clock | None,
    ) -> None:
        if keep_seconds <= 0 or connections_max < 1:
            raise InvalidRequest("ids are kept for some time, and at least one connection is used")
        self.table = table_name(table)
        self._style = paramstyle
        self._keep_ms = int(keep_seconds * 1000)
        self._connections_max = connections_max
        self._created = not create
        self._clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._turn: threading.Lock | None = None
        """A lock that is held during a transaction, where only one writer is possible at a time."""
        self._idle: list[ConnectionT] = []
        self._threads_by_loop: WeakKeyDictionary[asyncio.AbstractEventLoop, _LoopThreads] = (
            WeakKeyDictionary()
        )
        self._keeps = True
        """True if connections are kept between transactions."""
        self._new_ids = 0

    # Processing.

    @contextmanager
    def once(self, message: Identified) -> Iterator[Transaction[ConnectionT]]:
        """A transaction for this message. Leaving the block commits; an exception rolls back."""
        transaction = self._begin(message)
        try:
            yield transaction
        except BaseException:
            self._end(transaction, keep=False)
            raise
        self._end(transaction, keep=True)

    @asynccontextmanager
    async def once_async(self, message: Identified) -> AsyncIterator[Transaction[ConnectionT]]:
        """Like `once`, for coroutines: the transaction begins and commits in a thread.

        Your own statements run where you call them. Where they are slow use `apply_async`, which
        runs all of it in a thread."""
        pool = self._loop_threads()
        async with pool.turns:
            begun = pool.threads.submit(self._begin, message)
            try:
                transaction = await asyncio.wrap_future(begun)
            except asyncio.CancelledError:
                begun.add_done_callback(self._abandon)  # Nothing else would ever end it.
                raise
            keep = False
            try:
                yield transaction
                keep = True
            finally:
                ended = pool.threads.submit(self._end, transaction, keep=keep)
                await asyncio.wrap_future(ended)

    def apply(
        self, message: Identified, work: Callable[[Transaction[ConnectionT]], object]
    ) -> bool:
        """Run `work` in the transaction if the message is new; whether it was."""
        with self.once(message) as transaction:
            if transaction.is_new:
                work(transaction)
            return transaction.is_new

    async def apply_async(
        self, message: Identified, work: Callable[[Transaction[ConnectionT]], object]
    ) -> bool:
        """Like `apply`, entirely in a thread."""
        pool = self._loop_threads()
        async with pool.turns:
            return await asyncio.wrap_future(pool.threads.submit(self.apply, message, work))

    # Looking and forgetting.

    def is_processed(self, message: Identified) -> bool:
        """True if the message was processed, as far as its id is still stored."""
        return bool(
            self._alone(
                f"SELECT 1 FROM {self.table} WHERE consumer = {{}} AND id = {{}}",  # noqa: S608
                {"consumer": message.group, "id": processed_id(message)},
                lambda cursor: cursor.fetchone() is not None,
            )
        )

    def count(self) -> int:
        """Return the number of stored ids."""
        statement = f"SELECT COUNT(*) FROM {self.table}"  # noqa: S608
        counted = self._alone(statement, {}, lambda cursor: cursor.fetchone())
        return int(str(counted[0])) if counted else 0

    def forget_before(self, when: datetime) -> int:
        """Forget ids that were processed before this time; how many there were."""
        return self._alone(
            f"DELETE FROM {self.table} WHERE processed_ms < {{}}",  # noqa: S608
            {"before": int(when.timestamp() * 1000)},
            lambda cursor: max(0, cursor.rowcount),
        )

    def close(self) -> None:
        """Close the connections and threads that were opened. Transactions must have ended."""
        with self._lock:
            senders = list(self._threads_by_loop.values())
            self._threads_by_loop.clear()
        for pool in senders:
            pool.threads.shutdown(wait=True)
        self._drop_idle()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    # Transactions.

    def _begin(self, message: Identified) -> Transaction[ConnectionT]:
        with self._lock:
            has_idle = bool(self._idle)
        try:
            return self._begin_once(message)
        except Exception:
            if not has_idle or self._turn is not None:
                raise
            # Kept connections die with their server. Nothing has been done yet: try a new one.
            self._drop_idle()
            return self._begin_once(message)

    def _begin_once(self, message: Identified) -> Transaction[ConnectionT]:
        id_ = processed_id(message)
        connection = self._take()
        try:
            self._start(connection)
            cursor = connection.cursor()
            values: dict[str, object] = {
                "consumer": message.group,
                "id": id_,
                "processed_ms": self._clock.wall_ms(),
            }
            is_new = self._insert(connection, cursor, values)
        except BaseException:
            self._give_back(connection, sound=False)
            raise
        return Transaction(connection, cursor, id_, is_new=is_new)

    def _end(self, transaction: Transaction[ConnectionT], *, keep: bool) -> None:
        connection = transaction.connection
        sound = False
        try:
            transaction.cursor.close()
            if keep and transaction.is_new:
                connection.commit()
                self._forget_some(connection)
            else:
                connection.rollback()
            sound = True
        finally:
            self._give_back(connection, sound=sound)

    def _abandon(self, begun: "Future[Transaction[ConnectionT]]") -> None:
        if not begun.cancelled() and begun.exception() is None:
            self._end(begun.result(), keep=False)

    def _loop_threads(self) -> _LoopThreads:
        loop = asyncio.get_running_loop()
        with self._lock:
            if (pool := self._threads_by_loop.get(loop)) is None:
                pool = self._threads_by_loop[loop] = _LoopThreads(self._connections_max)
        return pool

    def _forget_some(self, connection: ConnectionT) -> None:
        """Now and then, in a transaction of its own: a failure must not undo other work."""
        with self._lock:
            self._new_ids += 1
            due = self._new_ids % FORGET_EVERY == 0
        if not due:
            return
        before = {"before": self._clock.wall_ms() - self._keep_ms}
        oldest = (
            f"SELECT consumer, id FROM {self.table} WHERE processed_ms < {{}}"  # noqa: S608
            f" ORDER BY processed_ms LIMIT {FORGET_AT_ONCE_MAX}"
        )
        gone = f"DELETE FROM {self.table} WHERE consumer = {{}} AND id = {{}}"  # noqa: S608
        try:
            self._start(connection)
            cursor = connection.cursor()
            run(cursor, self._style, oldest, before)
            for consumer, id_ in cursor.fetchall():
                run(cursor, self._style, gone, {"consumer": consumer, "id": id_})
            cursor.close()
            connection.commit()
        except Exception as error:  # noqa: BLE001 - of any driver; the next time may be better
            _log.warning("old ids in %s could not be forgotten: %s", self.table, error)
            connection.rollback()

    # Statements.

    def _alone(
        self, statement: str, values: Mapping[str, object], answer: Callable[[Cursor], Result]
    ) -> Result:
        """Run one statement in a transaction of its own."""
        connection = self._take()
        sound = False
        try:
            self._start(connection)
            cursor = connection.cursor()
            run(cursor, self._style, statement, values)
            result = answer(cursor)
            cursor.close()
            connection.commit()
            sound = True
        finally:
            self._give_back(connection, sound=sound)
        return result

    def _create(self, connection: ConnectionT) -> None:
        cursor = connection.cursor()
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self.table} (consumer VARCHAR(255) NOT NULL,"
            f" id VARCHAR({ID_CHARACTERS_MAX}) NOT NULL, processed_ms BIGINT NOT NULL,"
            " PRIMARY KEY (consumer, id))",
            (),
        )
        index = self.table.rpartition(".")[2] + "_by_time"
        cursor.execute(
            f"CREATE INDEX IF NOT EXISTS {index} ON {self.table} (processed_ms)",
            (),
        )
        cursor.close()
        connection.commit()

    # Connections.

    def _take(self) -> ConnectionT:
        if self._turn is not None:
            self._turn.acquire()
        connection: ConnectionT | None = None
        try:
            with self._lock:
                if self._idle:
                    connection = self._idle.pop()
            if connection is None:
                connection = self._open()
            if not self._created:
                self._create_once(connection)
        except BaseException:
            if connection is not None:
                self._discard(connection)
            self._pass_turn()
            raise
        return connection

    def _create_once(self, connection: ConnectionT) -> None:
        try:
            self._create(connection)
        except Exception:  # noqa: BLE001 - of any driver: another process may do it too
            connection.rollback()
            cursor = connection.cursor()
            cursor.execute(f"SELECT COUNT(*) FROM {self.table} WHERE 1 = 0", ())  # noqa: S608
            cursor.close()
            connection.rollback()
        with self._lock:
            self._created = True

    def _give_back(self, connection: ConnectionT, *, sound: bool) -> None:
        """Keep a connection for the next transaction; one that failed is closed instead."""
        try:
            with self._lock:
                kept = sound and self._keeps and len(self._idle) < self._connections_max
                if kept:
                    self._idle.append(connection)
            if not kept:
                self._discard(connection)
        finally:
            self._pass_turn()

    def _drop_idle(self) -> None:
        with self._lock:
            idle, self._idle = self._idle, []
        for connection in idle:
            self._discard(connection)

    def _pass_turn(self) -> None:
        if self._turn is not None:
            self._turn.release()

    def _discard(self, connection: ConnectionT) -> None:
        try:
            connection.rollback()
            connection.close()
        except Exception as error:  # noqa: BLE001 - of any driver; it is gone either way
            _log.debug("a connection could not be closed: %s", error)

    @abstractmethod
    def _open(self) -> ConnectionT: ...
    @abstractmethod
    def _start(self, connection: ConnectionT) -> None:
        """Begin a transaction, where the driver does not by itself."""

    @abstractmethod
    def _insert(
        self, connection: ConnectionT, cursor: Cursor, values: Mapping[str, object]
    ) -> bool:
        """Write an id; False if it was there."""
