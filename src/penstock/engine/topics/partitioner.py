"""The partition of a message whose sender does not choose one: as Kafka's clients do.

A key always goes to the same partition, by murmur2, so that order by key holds for all producers.
Messages without a key take turns.
"""

from itertools import count

from penstock.core.murmur2 import partition_of


class Partitioner:
    """Chooses partitions for one node's senders."""

    def __init__(self) -> None:
        self._turns = count()

    def choose(self, key: bytes | None, partitions: int) -> int:
        """Return the index of a partition."""
        if partitions == 1:
            return 0
        if key is None:
            return next(self._turns) % partitions
        return partition_of(key, partitions)
