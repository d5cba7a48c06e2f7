"""The relay of an outbox: it sends the rows of the table in order, and marks them as sent.

One relay per outbox is the rule. Two do no harm but send everything twice under the same ids; run a
second one for availability only where the queues remember ids.

A destination that cannot be reached keeps its rows waiting and no other's. A message that can never
be sent (too large, no such topic) is put aside with its error and does not hold up those behind it.
"""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TypeVar

from penstock.client.client import Client
from penstock.client.database import Connection, Cursor
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import LocalError, PenstockError
from penstock.patterns.outbox import Outbox, OutboxRow

_log = logging.getLogger(__name__)

ROWS_AT_ONCE_MAX = 500
DESTINATIONS_SKIPPED_MAX = 100
"""The number of unreachable destinations that are skipped, so that the others are served."""
KEEP_SENT_SECONDS = 3600.0

Result = TypeVar("Result")


class OutboxRelay:
    """Takes messages from the table to the broker. All database work happens in one thread."""

    def __init__(
        self,
        client: Client,
        outbox: Outbox,
        connect: Callable[[], Connection],
        *,
        keep_sent_seconds: float = KEEP_SENT_SECONDS,
        clock: Clock | None = None,
    ) -> None:
        self.sent = 0
        """The number of messages this relay has sent."""
        self._client = client
        self._outbox = outbox
        self._connect = connect
        self._keep_ms = int(keep_sent_seconds * 1000)
        self._clock = clock or SystemClock()
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="penstock-outbox")
        self._connection: Connection | None = None
        self._woken = asyncio.Event()

    async def __aenter__(self) -> "OutboxRelay":
        return self

    async def __aexit__(self, *exception: object) -> None:
        await self.close()

    def wake(self) -> None:
        """Check for rows now instead of at the next interval."""
        self._woken.set()

    async def run(self, *, every: float = 1.0) -> None:
        """Relay until cancelled, looking into the table so often when there is nothing to do."""
        while True:
            self._woken.clear()
            try:
                if await self.relay():
                    continue
            except Exception as error:  # noqa: BLE001 - of any driver; the next look may be better
                _log.warning("the outbox %s waits: %s", self._outbox.table, error)
                await self._drop_connection()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._woken.wait(), every)

    async def relay(self) -> int:
        """Send what waits, up to a bound; how many messages were sent or put aside."""
        sent = 0
        out_of_reach: list[str] = []
        while len(out_of_reach) < DESTINATIONS_SKIPPED_MAX:
            skip = tuple(out_of_reach)
            rows = await self._in_transaction(
                partial(self._outbox.unsent, rows_max=ROWS_AT_ONCE_MAX, skip=skip)
            )
            by_destination: dict[str, list[OutboxRow]] = {}
            for row in rows:
                by_destination.setdefault(row.destination, []).append(row)
            for destination, waiting in by_destination.items():
                settled = await self._relay_to(destination, waiting)
                sent += settled
                if settled < len(waiting):
                    out_of_reach.append(destination)
            if len(out_of_reach) == len(skip):
                break
        if sent:
            before_ms = self._clock.wall_ms() - self._keep_ms
            await self._in_transaction(
                lambda cursor: self._outbox.forget_sent(cursor, before_ms=before_ms)
            )
        return sent

    async def count(self) -> tuple[int, int]:
        """Return the number of rows that wait to be sent, and the number of rows put aside."""
        return await self._in_transaction(self._outbox.count)

    async def close(self) -> None:
        """Close the connection and the thread; the client stays open."""
        await self._drop_connection()
        self._thread.shutdown(wait=True)

    async def _relay_to(self, destination: str, rows: list[OutboxRow]) -> int:
        try:
            await self._client.send_many(destination, [row.outgoing for row in rows])
        except LocalError:
            return await self._relay_one_by_one(destination, rows)
        except PenstockError as error:
            _log.info("%d messages for %s wait: %s", len(rows), destination, error)
            return 0
        await self._mark(rows)
        return len(rows)

    async def _relay_one_by_one(self, destination: str, rows: list[OutboxRow]) -> int:
        """Send rows one by one: one of them is invalid, and the others should not suffer for it."""
        settled = 0
        for row in rows:
            try:
                await self._client.send_many(destination, [row.outgoing])
            except LocalError as error:
                reason = f"{type(error).__name__}: {error}"
                _log.warning("message %s for %s is put aside: %s", row.id, destination, reason)
                await self._park(row, reason)
                settled += 1
            except PenstockError as error:
                _log.info("messages for %s wait: %s", destination, error)
                return settled
            else:
                await self._mark([row])
                settled += 1
        return settled

    async def _mark(self, rows: list[OutboxRow]) -> None:
        await self._in_transaction(lambda cursor: self._outbox.mark_sent(cursor, rows))
        self.sent += len(rows)

    async def _park(self, row: OutboxRow, reason: str) -> None:
        await self._in_transaction(lambda cursor: self._outbox.park(cursor, row, reason))

    async def _in_transaction(self, work: Callable[[Cursor], Result]) -> Result:
        def act() -> Result:
            if self._connection is None:
                self._connection = self._connect()
            cursor = self._connection.cursor()
            try:
                result = work(cursor)
                self._connection.commit()
            except BaseException:
                self._connection.rollback()
                raise
            finally:
                cursor.close()
            return result

        return await asyncio.get_running_loop().run_in_executor(self._thread, act)

    async def _drop_connection(self) -> None:
        def drop() -> None:
            if self._connection is not None:
                with contextlib.suppress(Exception):
                    self._connection.close()
                self._connection = None

        await asyncio.get_running_loop().run_in_executor(self._thread, drop)
