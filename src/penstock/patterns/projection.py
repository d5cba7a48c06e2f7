"""Projections: views of a log in a database, which always know how far they have read.

A projection reads a topic and keeps tables that answer questions: balances, totals, a search index.
It is a cache that can be thrown away and made anew. What must never happen is that an event counts
twice or not at all, so the position is kept in the same database, and every batch of events changes
tables and position in one transaction. No group, no commit to the broker: killed at any point, it
goes on exactly where its tables are.

    totals = Projection(client, "accounts", "totals", connect, apply)
    await totals.catch_up()        # once, or
    await totals.run()             # for ever

One process at a time should run a projection of one name. A second one does no harm: the position
is checked in the transaction, and who comes late starts over from where the other one is.
"""

import asyncio
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from types import TracebackType
from typing import Generic, Self, TypeVar

from penstock.client.client import Client
from penstock.client.database import Connection, Cursor, ParamStyle, run, table_name
from penstock.client.record import Record
from penstock.core.errors import PenstockError

_log = logging.getLogger(__name__)

T = TypeVar("T")
Result = TypeVar("Result")

RECORDS_PER_TRANSACTION_MAX = 500
EVERY_SECONDS = 0.2
TROUBLE_SECONDS = 1.0


class Projection(Generic[T]):
    """A view of one topic in a database. All database work happens in one thread."""

    def __init__(
        self,
        client: Client,
        topic: str,
        name: str,
        connect: Callable[[], Connection],
        apply: Callable[[Cursor, Record[T]], None],
        *,
        codec: type[T],
        paramstyle: ParamStyle = "qmark",
        table: str = "penstock_positions",
    ) -> None:
        self.topic = topic
        self.name = name
        self._client = client
        self._connect = connect
        self._apply = apply
        self._codec = codec
        self._style: ParamStyle = paramstyle
        self._table = table_name(table)
        self._connection: Connection | None = None
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-projection")

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def run(self, *, every: float = EVERY_SECONDS) -> None:
        """Follow the topic until cancelled."""
        while True:
            wait = every
            try:
                if await self.catch_up():
                    continue
            except PenstockError as error:
                _log.warning("projection %s waits: %s", self.name, error)
                wait = TROUBLE_SECONDS
            await asyncio.sleep(wait)

    async def catch_up(self) -> int:
        """Read up to the end of the topic; how many records there were."""
        described = await self._client.describe_topic(self.topic)
        positions = await self._in_thread(self._read_positions)
        total = 0
        for partition in range(len(described.partitions)):
            start = positions.get(partition)
            batch: list[Record[T]] = []
            async for record in self._client.read(
                self.topic,
                start="earliest" if start is None else {partition: start},
                partitions=[partition],
                codec=self._codec,
            ):
                batch.append(record)
                if len(batch) >= RECORDS_PER_TRANSACTION_MAX:
                    total += await self._in_thread(partial(self._write, batch))
                    batch = []
            if batch:
                total += await self._in_thread(partial(self._write, batch))
        return total

    async def positions(self) -> dict[int, int]:
        """The next offset of each partition that has been read."""
        return await self._in_thread(self._read_positions)

    async def close(self) -> None:
        """Close the connection and the thread; the client stays open."""

        def close() -> None:
            if self._connection is not None:
                self._connection.close()
                self._connection = None

        await self._in_thread(close)
        self._thread.shutdown(wait=True)

    # In the thread.

    def _write(self, batch: list[Record[T]]) -> int:
        """Apply records and move the position, in one transaction; how many were new."""
        connection = self._opened()
        cursor = connection.cursor()
        partition = batch[0].partition
        place = {"name": self.name, "topic": self.topic, "partition": partition}
        try:
            position = self._position(cursor, partition)
            new = [record for record in batch if record.offset >= position]
            for record in new:
                self._apply(cursor, record)
            moved = {"next": batch[-1].offset + 1, **place, "expected": position}
            run(
                cursor,
                self._style,
                f"UPDATE {self._table} SET next_offset = {{}}"  # noqa: S608
                " WHERE name = {} AND topic = {} AND topic_partition = {} AND next_offset = {}",
                moved,
            )
            if cursor.rowcount != 1:
                connection.rollback()  # Another process has moved it; its tables are newer.
                return 0
            connection.commit()
        except BaseException:
            connection.rollback()
            raise
        finally:
            cursor.close()
        return len(new)

    def _position(self, cursor: Cursor, partition: int) -> int:
        place = {"name": self.name, "topic": self.topic, "partition": partition}
        select = (
            f"SELECT next_offset FROM {self._table}"  # noqa: S608
            " WHERE name = {} AND topic = {} AND topic_partition = {}"
        )
        run(cursor, self._style, select, place)
        if (row := cursor.fetchone()) is not None:
            return int(str(row[0]))
        insert = (
            f"INSERT INTO {self._table} (name, topic, topic_partition, next_offset)"  # noqa: S608
            " VALUES ({}, {}, {}, 0)"
        )
        run(cursor, self._style, insert, place)
        return 0

    def _read_positions(self) -> dict[int, int]:
        connection = self._opened()
        cursor = connection.cursor()
        run(
            cursor,
            self._style,
            f"SELECT topic_partition, next_offset FROM {self._table}"  # noqa: S608
            " WHERE name = {} AND topic = {}",
            {"name": self.name, "topic": self.topic},
        )
        found = {int(str(row[0])): int(str(row[1])) for row in cursor.fetchall()}
        cursor.close()
        connection.commit()
        return found

    def _opened(self) -> Connection:
        if self._connection is None:
            connection = self._connect()
            cursor = connection.cursor()
            self._create(cursor)
            cursor.close()
            connection.commit()
            self._connection = connection
        return self._connection

    def _create(self, cursor: Cursor) -> None:
        cursor.execute(
            f"CREATE TABLE IF NOT EXISTS {self._table} (name VARCHAR(200) NOT NULL,"
            " topic VARCHAR(255) NOT NULL, topic_partition INTEGER NOT NULL,"
            " next_offset BIGINT NOT NULL, PRIMARY KEY (name, topic, topic_partition))"
        )

    async def _in_thread(self, work: Callable[[], Result]) -> Result:
        return await asyncio.get_running_loop().run_in_executor(self._thread, work)
