"""The places where sent messages are stored."""

from collections.abc import Sequence
from typing import NamedTuple, overload

from penstock.core.message_id import message_id
from penstock.core.types import Offset, TopicId


class Sent(NamedTuple):
    """A message is stored, on disk on a majority of its replicas."""

    queue: str
    partition: int
    offset: int
    duplicate: bool
    """True if a message of the same `dedup_id` was stored before; the place is that of the
    first."""
    topic_id: bytes

    def __repr__(self) -> str:
        again = ", duplicate" if self.duplicate else ""
        return f"Sent({self.queue}:{self.partition}:{self.offset}, id={self.id!r}{again})"

    @property
    def id(self) -> str:
        """The message's id: the same that its receiver sees, and SQS."""
        return message_id(TopicId(self.topic_id), self.partition, Offset(self.offset))


class SentRun(NamedTuple):
    """Neighbours: the messages `first` up to `first + count` of a call went to one partition."""

    numbers: Sequence[int]
    partition: int
    offsets: Sequence[int]
    duplicates: frozenset[int]
    """The positions, within the run, of messages that were duplicates."""


class SentMany(Sequence[Sent]):
    """One `Sent` for each message of `send_many`, in order, made when it is read: a caller that
    sends a million messages at a time rarely wants a million objects."""

    __slots__ = ("_places", "_queue", "_runs", "_topic_id", "_total")

    def __init__(self, queue: str, topic_id: bytes, runs: Sequence[SentRun]) -> None:
        self._queue = queue
        self._topic_id = topic_id
        self._runs = runs
        self._total = sum(len(run.numbers) for run in runs)
        self._places: dict[int, tuple[int, int, bool]] | None = None

    def __len__(self) -> int:
        return self._total

    @overload
    def __getitem__(self, index: int) -> Sent: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sent]: ...
    def __getitem__(self, index: int | slice) -> Sent | list[Sent]:
        if isinstance(index, slice):
            return [self[number] for number in range(*index.indices(self._total))]
        number = index + self._total if index < 0 else index
        if not 0 <= number < self._total:
            raise IndexError(f"{self._total} messages were sent, not {index}")
        if self._places is None:
            self._places = {
                place: (run.partition, offset, at in run.duplicates)
                for run in self._runs
                for at, (place, offset) in enumerate(zip(run.numbers, run.offsets, strict=True))
            }
        partition, offset, duplicate = self._places[number]
        return Sent(self._queue, partition, offset, duplicate, self._topic_id)

    def __repr__(self) -> str:
        return f"SentMany({self._total} messages to {self._queue})"
