"""The runs of a work group by offset, counted in bytes, and copied for snapshots on write.

A snapshot must show the runs of one moment and is encoded while they go on changing. So while a
copy is being made, whatever is about to change and was not copied yet is kept as it was:
copy-on-write, a run at a time. It costs nothing while no copy is made.

Every change goes through this table: `put`, `remove`, and before a run's fields change, `changing`.
"""

from collections.abc import Iterator
from itertools import islice

from msgspec.structs import replace
from sortedcontainers import SortedDict

from penstock.core.types import Offset
from penstock.machines.run import Run
from penstock.machines.state_bytes import ByteCount
from penstock.machines.state_pieces import PIECE_ROWS

RUN_BYTES = 48
"""Of a run's numbers in a snapshot, at most but for very large ones."""


def run_bytes(run: Run) -> int:
    """What a run counts for."""
    return RUN_BYTES + len(run.message_group or b"") + len(run.reason)


class RunTable(SortedDict[Offset, Run]):  # type: ignore[misc]  # it has no stubs
    """Runs in the order of their offsets. To be read as any mapping, to be changed as said above.

    `total` counts the runs of all tables of a machine."""

    def __init__(self, total: ByteCount) -> None:
        super().__init__()
        self.size_bytes = 0
        self._total = total
        self._copies: list[RunsCopy] = []

    def put(self, run: Run) -> None:
        """A run has come to be; there is none at its offset."""
        for copy in self._copies:
            copy.came(run.first)
        self[run.first] = run
        self._count(run_bytes(run))

    def remove(self, run: Run) -> None:
        """A run is dealt with."""
        self.changing(run)
        del self[run.first]
        self._count(-run_bytes(run))

    def changing(self, run: Run) -> None:
        """The fields of a run, but those below, are about to change."""
        for copy in self._copies:
            copy.changes(run)

    def set_reason(self, run: Run, reason: str) -> None:
        """Why it died."""
        self.changing(run)
        self._count(len(reason) - len(run.reason))
        run.reason = reason

    def set_message_group(self, run: Run, message_group: bytes) -> None:
        """In which group it stands."""
        self.changing(run)
        self._count(len(message_group) - len(run.message_group or b""))
        run.message_group = message_group

    def put_all(self, runs: list[Run]) -> None:
        """Put the runs of a snapshot into an empty table."""
        self.update((run.first, run) for run in runs)
        self._count(sum(map(run_bytes, runs)))

    def give_up(self) -> None:
        """The table is used no more, but for a copy that is being made; count its runs no more."""
        self._count(-self.size_bytes)

    def copy_on_write(self) -> "RunsCopy":
        """Begin a copy of the runs of this moment."""
        copy = RunsCopy(self)
        self._copies.append(copy)
        return copy

    def end_copy(self, copy: "RunsCopy") -> None:
        """The copy is complete, or not wanted any more."""
        if copy in self._copies:
            self._copies.remove(copy)

    def _count(self, size_bytes: int) -> None:
        self.size_bytes += size_bytes
        self._total.bytes += size_bytes


class RunsCopy:
    """The runs of the moment at which it was begun."""

    __slots__ = ("_before", "_next", "_runs", "count")

    def __init__(self, runs: RunTable) -> None:
        self._runs = runs
        self._next = Offset(0)
        """Below, everything has been handed out."""
        self._before: SortedDict[Offset, Run | None] = SortedDict()
        """What has changed since: the run as it was, None if there was none."""
        self.count = len(runs)

    def changes(self, run: Run) -> None:
        """A run is about to change or to go."""
        if run.first >= self._next and run.first not in self._before:
            self._before[run.first] = replace(run)

    def came(self, first: Offset) -> None:
        """A run is about to be where there is none."""
        if first >= self._next and first not in self._before:
            self._before[first] = None

    def chunks(self) -> Iterator[list[Run]]:
        """The runs in order, some at a time; between two the table may change."""
        runs, before = self._runs, self._before
        while True:
            firsts = list(islice(runs.irange(self._next), PIECE_ROWS))
            changed = list(islice(before.irange(self._next), PIECE_ROWS))
            # What lies beyond the end of a full list is for the next round.
            ends = [found[-1] for found in (firsts, changed) if len(found) == PIECE_ROWS]
            end = min(ends, default=None)
            found = {first: runs[first] for first in firsts if end is None or first <= end}
            for first in changed:
                if end is None or first <= end:
                    was = before.pop(first)
                    found.pop(first, None)
                    if was is not None:
                        found[first] = was
            chunk = [found[first] for first in sorted(found)] if changed else list(found.values())
            if end is None:
                self._next = _NOWHERE
                yield chunk
                return
            self._next = Offset(end + 1)
            yield chunk


_NOWHERE = Offset(1 << 63)
