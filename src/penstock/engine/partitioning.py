"""Which partition a message goes to when its sender does not say: the one Kafka's clients choose.

A key always goes to the same partition, by murmur2, so that order by key holds whoever sends.
Messages without a key take turns.
"""

from itertools import count

_MASK = 0xFFFFFFFF
_SEED = 0x9747B28C
_M = 0x5BD1E995


def murmur2(data: bytes) -> int:
    """The hash of Kafka's default partitioner, as an unsigned number of 32 bits."""
    length = len(data)
    value = _SEED ^ length
    whole = length & ~3
    for at in range(0, whole, 4):
        k = int.from_bytes(data[at : at + 4], "little") * _M & _MASK
        k = (k ^ k >> 24) * _M & _MASK
        value = (value * _M & _MASK) ^ k
    rest = data[whole:]
    if rest:
        value = (value ^ int.from_bytes(rest, "little")) * _M & _MASK
    value = (value ^ value >> 13) * _M & _MASK
    return value ^ value >> 15


class Partitioner:
    """Chooses partitions for one node's senders."""

    def __init__(self) -> None:
        self._turns = count()

    def choose(self, key: bytes | None, partitions: int) -> int:
        """The index of a partition."""
        if partitions == 1:
            return 0
        if key is None:
            return next(self._turns) % partitions
        return (murmur2(key) & 0x7FFFFFFF) % partitions
