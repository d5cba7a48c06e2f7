"""Long polls: wakes readers and receivers when a partition has more to read.

A watch names partitions and a callback. A wake-up is a hint and no promise: a reader that is woken
looks again and may find nothing. A partition without watches costs one lookup in a dictionary.
"""

from collections.abc import Callable, Iterable

from penstock.core.records import read_outline
from penstock.core.types import PartitionId

Batch = bytearray | memoryview
PreAcquire = Callable[[PartitionId, int, Batch], None]
"""The partition, how many messages are being written to it, and the batch, with its offsets."""


class Watch:
    """One waiting reader; `cancel` when it has stopped to wait."""

    __slots__ = ("_partitions", "_watchers", "on_clock_moved", "pre_acquire", "wake")

    def __init__(
        self,
        watchers: dict[PartitionId, set["Watch"]],
        partitions: tuple[PartitionId, ...],
        wake: Callable[[], None],
    ) -> None:
        self._watchers = watchers
        self._partitions = partitions
        self.wake = wake
        self.on_clock_moved = wake
        """Called when the clock was moved by hand: the time to wait may be up."""
        self.pre_acquire: PreAcquire | None = None
        """Called when messages are about to be written."""
        for partition in partitions:
            watchers.setdefault(partition, set()).add(self)

    def cancel(self) -> None:
        """Wait no more; harmless the second time."""
        for partition in self._partitions:
            watching = self._watchers.get(partition)
            if watching is not None:
                watching.discard(self)
                if not watching:
                    del self._watchers[partition]
        self._partitions = ()


class LongPolls:
    """All the watches of a node."""

    def __init__(self) -> None:
        self._watchers: dict[PartitionId, set[Watch]] = {}

    def __len__(self) -> int:
        return len(self._watchers)

    def watches(self, partition: PartitionId) -> int:
        """How many watches this partition has."""
        return len(self._watchers.get(partition, ()))

    def watch(self, partitions: Iterable[PartitionId], wake: Callable[[], None]) -> Watch:
        """Call `wake` whenever one of these partitions may have more, until it is cancelled."""
        return Watch(self._watchers, tuple(partitions), wake)

    def wake(self, partition: PartitionId) -> None:
        """The partition has grown, or its state has changed in another way a reader should see."""
        watching = self._watchers.get(partition)
        if watching is not None:
            for watch in list(watching):
                watch.wake()

    def pre_acquire(self, partition: PartitionId, batch: Batch) -> None:
        """A record batch is about to be written to the partition; it is stamped already."""
        watching = self._watchers.get(partition)
        if watching is not None:
            for watch in list(watching):
                if watch.pre_acquire is not None:
                    watch.pre_acquire(partition, read_outline(batch, 0)[2], batch)

    def wake_all(self) -> None:
        """Every reader should look: leadership has moved, or the node stops."""
        for watch in self._all():
            watch.wake()

    def clock_moved(self) -> None:
        """The clock was moved by hand: every reader checks whether its time is up."""
        for watch in self._all():
            watch.on_clock_moved()

    def _all(self) -> set[Watch]:
        return {watch for watching in self._watchers.values() for watch in watching}
