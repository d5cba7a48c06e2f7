"""Partitioners: the choice of a partition for each message.

    HashPartitioner        a key's murmur2, the partition Kafka's clients choose; no key: in turn
    StickyPartitioner      the same for keys; no key: one partition until a batch is full (default)
    RoundRobinPartitioner  in turn, whatever the key
    RangePartitioner       by intervals of keys: `RangePartitioner(["K", "T"])` is A–J, K–S, T–Z
    a function             `lambda key, partitions: …`, for anything else

Batches are per partition, so messages without a key that took turns would fill many batches slowly.
The sticky one fills one batch after the other, each of another partition, and in the long run all
partitions get as much: KIP-480. The sender tells it by `batch_full` that a batch went off.

Murmur2 in Python costs about a microsecond, more than all the rest of a send, and keys return: the
hashes of short keys are remembered, up to a bound, for all partitioners of the process.
"""

from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from random import Random
from typing import Protocol, TypeAlias, runtime_checkable

from penstock.core.errors import InvalidPartitions, InvalidRequest
from penstock.core.murmur2 import murmur2

HASHES_REMEMBERED = 1 << 14
"""The number of keys whose hash is cached: some 3 MB at most."""
REMEMBERED_KEY_BYTES_MAX = 64
RANGES_MAX = 100_000

PartitionFunction: TypeAlias = Callable[[bytes | None, int], int]
"""A partitioner of one's own: of a key and the number of partitions, the index of one of them."""


@runtime_checkable
class Partitioner(Protocol):
    """Chooses the partition of each message of one queue or topic. Used by one loop only."""

    def choose(self, key: bytes | None, partitions: int) -> int:
        """The index of a partition, from 0 to `partitions` - 1."""
        ...

    def batch_full(self, partition: int) -> None:
        """A batch for `partition` has gone off, so that messages without a key may move on."""
        ...

    @property
    def sticky(self) -> bool:
        """Messages without a key all go to one partition until the next `batch_full`.

        A sender of many may then ask once for all that fit into one batch.
        """
        ...


@lru_cache(maxsize=HASHES_REMEMBERED)
def _remembered_hash(key: bytes) -> int:
    return murmur2(key) & 0x7FFFFFFF


def _hash(key: bytes) -> int:
    if len(key) <= REMEMBERED_KEY_BYTES_MAX:
        return _remembered_hash(key)
    return murmur2(key) & 0x7FFFFFFF


class HashPartitioner:
    """The partition that Kafka's clients choose for a key; messages without a key take turns."""

    sticky = False

    def __init__(self, *, start: int = 0) -> None:
        self._turn = start

    def choose(self, key: bytes | None, partitions: int) -> int:
        if key is not None:
            return _hash(key) % partitions
        turn = self._turn % partitions
        self._turn = turn + 1
        return turn

    def batch_full(self, partition: int) -> None:
        """Turns are taken by message and not by batch."""


class RoundRobinPartitioner:
    """Every message goes to the next partition, whether it has a key or not.

    It spreads the load evenly and gives up the order of a key's messages.
    """

    sticky = False

    def __init__(self, *, start: int = 0) -> None:
        self._turn = start

    def choose(self, key: bytes | None, partitions: int) -> int:  # noqa: ARG002
        turn = self._turn % partitions
        self._turn = turn + 1
        return turn

    def batch_full(self, partition: int) -> None:
        """Turns are taken by message and not by batch."""


class StickyPartitioner:
    """By a key's hash; without a key one partition until a batch for it is full, then another.

    Where it begins is drawn at random, so that many short-lived senders do not all begin with the
    same partition. From there on it takes turns: unlike drawing anew, that is even at once.
    """

    sticky = True

    def __init__(self, *, random: Random | None = None) -> None:
        self._current = (random or Random()).randrange(1 << 31)  # noqa: S311 - spreads load.

    def choose(self, key: bytes | None, partitions: int) -> int:
        if key is not None:
            return _hash(key) % partitions
        if self._current >= partitions:
            self._current %= partitions
        return self._current

    def batch_full(self, partition: int) -> None:
        if partition == self._current:
            self._current += 1


class RangePartitioner:
    """By intervals of keys: `bounds` are the first keys of the second interval and on.

    Keys compare by their bytes, so "a" comes after "Z". Intervals number one more than bounds; a
    topic needs at least as many partitions, and those beyond get nothing.
    """

    sticky = False

    def __init__(self, bounds: Sequence[str | bytes]) -> None:
        self._bounds = [one.encode() if isinstance(one, str) else bytes(one) for one in bounds]
        if not self._bounds or len(self._bounds) > RANGES_MAX:
            raise InvalidRequest(f"Ranges need 1 to {RANGES_MAX} bounds, not {len(bounds)}.")
        for before, after in zip(self._bounds, self._bounds[1:], strict=False):
            if before >= after:
                raise InvalidRequest(
                    f"The bounds of ranges must rise by their bytes, and {after!r} follows"
                    f" {before!r}."
                )

    def choose(self, key: bytes | None, partitions: int) -> int:
        if key is None:
            raise InvalidRequest("A message without a key lies in no range of keys: give it a key.")
        if partitions <= len(self._bounds):
            raise InvalidPartitions(
                f"{len(self._bounds) + 1} ranges of keys need as many partitions, and there are"
                f" {partitions}: add partitions or leave out bounds."
            )
        return bisect_right(self._bounds, key)

    def batch_full(self, partition: int) -> None:
        """A key's interval does not change."""


class FunctionPartitioner:
    """Applies a function of the user and checks its results."""

    sticky = False

    def __init__(self, function: PartitionFunction) -> None:
        self._function = function

    def choose(self, key: bytes | None, partitions: int) -> int:
        index = self._function(key, partitions)
        if not 0 <= index < partitions:
            raise InvalidPartitions(
                f"The partitioner chose {index!r} for key {key!r}, and partitions are numbered 0"
                f" to {partitions - 1}."
            )
        return index

    def batch_full(self, partition: int) -> None:
        """The function sees every message."""


def partitioner_for(
    choice: Partitioner | PartitionFunction | None, *, random: Random | None = None
) -> Partitioner:
    """Return the partitioner that the argument `partitioner=` selects: a partitioner, a function,
    or the sticky one if it is None."""
    if choice is None:
        return StickyPartitioner(random=random)
    if isinstance(choice, type):
        raise InvalidRequest(f"{choice.__name__} is a class: make one with {choice.__name__}(…).")
    if isinstance(choice, Partitioner):
        return choice
    if callable(choice):
        return FunctionPartitioner(choice)
    raise InvalidRequest(
        f"{choice!r} is no partitioner: give one of penstock's, an object that has choose(),"
        " batch_full() and sticky, or a function of (key, partitions)."
    )
