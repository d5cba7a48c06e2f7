"""A topic that is folded into memory: each read continues where the last one ended.

Patterns that keep their state as events in a topic (`saga_runner`, `event_sourcing`) ask this
before they decide: "have I seen everything that was acknowledged before now?" The end of a log is
given by its leader after a majority has confirmed that it leads, so that it is not stale.

A writer gets the place of its record; `past` makes sure that the record has been read as well.
"""

import asyncio
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.client.client import Client
from penstock.client.record import Record
from penstock.core.errors import OffsetOutOfRange, Unavailable

T = TypeVar("T")

_READS_MAX = 10
"""The number of reads of the end after which an acknowledged record counts as unreachable."""


class FollowedLog(Generic[T]):
    """Calls a function with every record of a topic, once and in the order of its partition. It
    reads from the start unless `positions` is set beforehand."""

    def __init__(
        self,
        client: Client,
        topic: str,
        *,
        codec: type[T],
        tell: Callable[[Record[T]], None],
    ) -> None:
        self.topic = topic
        self.positions: dict[int, int] = {}
        """The next offset to be read, by partition."""
        self._client = client
        self._codec = codec
        self._tell = tell
        self._locks: dict[int, asyncio.Lock] = {}

    async def catch_up(self, partition: int, *, past: int = -1) -> None:
        """Read all there is of a partition, and at least up to and including offset `past`."""
        lock = self._locks.setdefault(partition, asyncio.Lock())
        async with lock:
            for _ in range(_READS_MAX):
                await self._read(partition)
                if self.positions.get(partition, 0) > past:
                    return
        raise Unavailable(f"partition {partition} of {self.topic} cannot be read up to {past} now")

    async def _read(self, partition: int) -> None:
        try:
            await self._read_on(partition)
        except OffsetOutOfRange:
            # It slept for longer than messages are kept. The fold skips what it knows.
            self.positions.pop(partition, None)
            await self._read_on(partition)

    async def _read_on(self, partition: int) -> None:
        start = self.positions.get(partition)
        async for record in self._client.read(
            self.topic,
            start="earliest" if start is None else {partition: start},
            partitions=[partition],
            codec=self._codec,
        ):
            self._tell(record)
            self.positions[partition] = record.offset + 1
