"""A work group as it was at one moment, for a snapshot that is encoded while it goes on."""

from collections.abc import Iterator, Mapping

from penstock.core.types import Offset
from penstock.machines.run_table import RunTable
from penstock.machines.state_pieces import array_header, array_items, array_pieces
from penstock.machines.work_records import WorkRecord


class WorkCopy:
    """A `WorkRecord`: `head` and `tail` are what stands before and behind its skips and runs."""

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
