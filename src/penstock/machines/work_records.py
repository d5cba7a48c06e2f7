"""A work group on paper: what a snapshot holds of it, and what it hands out."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import msgspec

from penstock.core.queue_rules import WorkRules
from penstock.core.types import Offset
from penstock.machines.run import Run
from penstock.machines.run_table import RunTable
from penstock.machines.state_pieces import array_header, array_items, array_pieces


class Tally(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """How many messages have been dealt with in which way. The order of fields is in snapshots."""

    acked: int = 0
    moved: int = 0
    expired: int = 0
    purged: int = 0
    dropped: int = 0
    duplicates: int = 0

    @property
    def total(self) -> int:
        return self.acked + self.moved + self.expired + self.purged + self.dropped + self.duplicates


class WorkRecord(msgspec.Struct, array_like=True, forbid_unknown_fields=True):
    """A work group as it stands in a snapshot."""

    rules: WorkRules
    opened: Offset
    cursor: Offset
    epoch: int
    tally: Tally
    credits: list[int]
    skips: list[tuple[Offset, Offset]]
    runs: list[Run]
    recalled: Offset
    recall_end: Offset
    stream: str = ""
    batch: int = -1


class GrantedRun(NamedTuple):
    """Messages that were leased together and have been delivered equally often."""

    first: Offset
    end: Offset
    deliveries: int
    first_ms: int


class DeadMessage(NamedTuple):
    """A message that failed for good."""

    offset: Offset
    deliveries: int
    first_ms: int
    died_ms: int
    epoch: int
    reason: str


class WorkCopy:
    """A `WorkRecord` of one moment, for a snapshot that is encoded while the group goes on: `head`
    and `tail` are the fields before and behind its skips and runs."""

    __slots__ = ("_head", "_runs", "_skips", "_table", "_tail")

    def __init__(
        self, table: RunTable, head: bytes, skips: Mapping[Offset, Offset], tail: bytes
    ) -> None:
        self._table, self._runs = table, table.copy_on_write()
        self._head, self._skips, self._tail = head, skips, tail

    def pieces(self) -> Iterator[bytes]:
        yield array_header(len(WorkRecord.__struct_fields__)) + self._head
        yield from array_pieces(sorted(self._skips.items()))
        yield array_header(self._runs.count)
        for chunk in self._runs.chunks():
            yield array_items(chunk)
        yield self._tail
        self.end()

    def end(self) -> None:
        """No more of it is wanted."""
        self._table.end_copy(self._runs)
