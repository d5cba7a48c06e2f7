"""Long polls: who wants to be told when a partition has more to read.

A watch names partitions and a callback. Waking is a hint and no promise: whoever is woken looks
again and may find nothing. It is cheap for those nobody waits for: one lookup in a dictionary.
"""

from collections.abc import Callable, Iterable

from penstock.core.records import read_outline
from penstock.core.types import PartitionId

Batch = bytearray | memoryview
Foresee = Callable[[PartitionId, int, Batch], None]
"""The partition, how many messages are being written to it, and the batch, which has its place."""


class Watch:
    """One waiting reader; `cancel` when it has stopped to wait."""

    __slots__ = ("_partitions", "_watchers", "foresee", "move_on", "wake")

    def __init__(
        self,
        watchers: dict[PartitionId, set["Watch"]],
        partitions: tuple[PartitionId, ...],
        wake: Callable[[], None],
    ) -> None:
        self._watchers = watchers
        self._partitions = partitions
        self.wake = wake
        self.move_on = wake
        """Called when time was moved by hand: its own waiting may be over."""
        self.foresee: Foresee | None = None
        """Called when messages are about to be written, for who wants to be there already."""
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
        """How many wait for this partition."""
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

    def foresee(self, partition: PartitionId, batch: Batch) -> None:
        """A record batch is about to be written to the partition; it is stamped already."""
        watching = self._watchers.get(partition)
        if watching is not None:
            for watch in list(watching):
                if watch.foresee is not None:
                    watch.foresee(partition, read_outline(batch, 0)[2], batch)

    def wake_all(self) -> None:
        """Everybody should look: leadership has moved, or the node stops."""
        for watch in self._everybody():
            watch.wake()

    def move_on(self) -> None:
        """The clock was moved by hand: everybody sees whether his time is up."""
        for watch in self._everybody():
            watch.move_on()

    def _everybody(self) -> set[Watch]:
        return {watch for watching in self._watchers.values() for watch in watching}
