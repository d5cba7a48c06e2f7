"""The log as Raft sees it: what is on disk and what is still on its way there, as one sequence.

          snapshot        on disk only        in memory, durable      in memory, being written
    ┌────────────────┬──────────────────────┬─────────────────────┬───────────────┬────────────┐
    │ …        first-1│first             base-1│base           durable│         issued│        last│
    └────────────────┴──────────────────────┴─────────────────────┴───────────────┴────────────┘
                                         read through LogReader ◀──┴──▶ `_entries`

- `issued`: handed out in a `Ready` to be written. `durable`: known to be on disk *and still part of
  this log*. `base ≤ durable + 1` always, so what memory lacks can be read from disk.
- `committed` is what a leader has said is agreed; only what is also durable here is `commit`, and
  only that is handed out to be applied. `committed ≤ last`, and nothing at or below it is ever
  truncated.

The race this module exists for (ABA): entries 5–7 of term 2 are being written; a new leader
replaces them by 5–7 of term 3; then the first write reports success. It must not make the new
entries count as durable. So each write in flight is remembered as (sequence, last index), and a
truncation *clips* all of them to what survived it.

Durable entries stay in memory up to a bound, oldest dropped first, so that a follower just behind
and the apply loop do not read the disk.
"""

from collections import deque
from typing import Protocol

from penstock.core.entries import Entry, SnapshotMark
from penstock.core.types import NO_INDEX, NO_TERM, Index, Term

ENTRY_OVERHEAD_BYTES = 64
"""What an entry costs beside its payload; an empty one must not count as free."""


def entry_bytes(entry: Entry) -> int:
    """What an entry counts for in every bound of this layer."""
    return len(entry.payload) + ENTRY_OVERHEAD_BYTES


class LogReader(Protocol):
    """The durable part of the log. Only durable indexes of the current log are ever asked for."""

    @property
    def first_index(self) -> Index:
        """The oldest index from which the log has no gap; 1 for a log that was never cut."""
        ...

    @property
    def last_index(self) -> Index:
        """The newest entry, or the snapshot's index. Asked once, at the start."""
        ...

    @property
    def snapshot(self) -> SnapshotMark:
        """The newest durable snapshot; index 0 when there is none."""
        ...

    def term(self, index: Index, /) -> Term:
        """The term of an entry, from `first_index - 1` on."""
        ...

    def entries(self, low: Index, high: Index, bytes_max: int, /) -> tuple[Entry, ...]:
        """Entries from `low` to before `high`: at least one, then as many as `bytes_max` allows."""
        ...


class RaftLog:
    __slots__ = (
        "_base",
        "_bytes",
        "_cache_bytes_max",
        "_entries",
        "_issued",
        "_reader",
        "_restored",
        "_restored_issued",
        "_writes",
        "applied",
        "committed",
        "durable",
        "handed",
        "last_index",
    )

    def __init__(self, reader: LogReader, *, cache_bytes_max: int) -> None:
        self._reader = reader
        self._cache_bytes_max = cache_bytes_max
        last = reader.last_index
        self._entries: list[Entry] = []
        self._base: Index = Index(last + 1)
        self._bytes = 0
        self.last_index: Index = last
        self._issued: Index = last
        self._writes: deque[tuple[int, Index]] = deque()
        self._restored: SnapshotMark | None = None
        self._restored_issued = False
        self.durable: Index = last
        # After a start nothing is known to be committed but what the snapshot holds.
        self.committed: Index = reader.snapshot.index
        self.handed: Index = self.committed
        self.applied: Index = self.committed
        assert last >= self.committed, f"log ends at {last}, before its snapshot {self.committed}"

    # What there is.

    @property
    def first_index(self) -> Index:
        """The oldest index that `entries` can give."""
        if self._restored is not None:
            return Index(self._restored.index + 1)
        return self._reader.first_index

    @property
    def last_term(self) -> Term:
        return self._entries[-1].term if self._entries else self.term(self.last_index)

    @property
    def snapshot(self) -> SnapshotMark:
        return self._restored if self._restored is not None else self._reader.snapshot

    @property
    def restoring(self) -> bool:
        """A fetched snapshot is not durable yet."""
        return self._restored is not None

    @property
    def commit(self) -> Index:
        """Committed and durable here: what this node may act on."""
        return min(self.committed, self.durable)

    def term(self, index: Index) -> Term:
        """The term of an entry from `first_index - 1` on."""
        position = index - self._base
        if position >= 0:
            assert index <= self.last_index, f"term of {index}, log ends at {self.last_index}"
            return self._entries[position].term
        if index == NO_INDEX:
            return NO_TERM
        if self._restored is not None:
            assert index == self._restored.index, f"term of {index} below a restored snapshot"
            return self._restored.term
        return self._reader.term(index)

    def matches(self, index: Index, term: Term) -> bool:
        """Whether the log holds this entry; then everything before it is equal too (§5.3)."""
        if index > self.last_index or index < self.first_index - 1:
            return False
        return self.term(index) == term

    def entries(self, low: Index, bytes_max: int, *, high: Index) -> tuple[Entry, ...]:
        """Entries from `low` to before `high`: at least one, then as many as `bytes_max` allows."""
        assert self.first_index <= low < high <= self.last_index + 1, (
            f"entries {low}..{high - 1} of a log {self.first_index}..{self.last_index}"
        )
        if low < self._base:
            return self._reader.entries(low, min(high, self._base), bytes_max)
        start = low - self._base
        end = start
        limit = high - self._base
        size = 0
        held = self._entries
        while end < limit:
            size += len(held[end].payload) + ENTRY_OVERHEAD_BYTES
            if size > bytes_max and end > start:
                break
            end += 1
        return tuple(held[start:end])

    def last_not_after(self, index: Index, term: Term, *, floor: Index) -> Index:
        """The last index ≤ `index` whose term is ≤ `term`; `floor - 1` if only that remains.

        Terms never fall along a log, so this is a binary search and not a walk of a million."""
        low, high = floor, min(index, self.last_index)
        while low <= high:
            middle = Index((low + high) // 2)
            if self.term(middle) <= term:
                low = Index(middle + 1)
            else:
                high = Index(middle - 1)
        return high

    # How it changes.

    def append(self, entries: tuple[Entry, ...] | list[Entry]) -> None:
        """Put entries at the end; those at or before it replace what is there from that index."""
        first = entries[0].index
        assert first <= self.last_index + 1, f"entry {first} after {self.last_index}"
        if first <= self.last_index:
            self._truncate(first)
        self._entries.extend(entries)
        self.last_index = entries[-1].index
        self._bytes += sum(map(entry_bytes, entries))
        assert self._base + len(self._entries) == self.last_index + 1, (
            f"entries from {first} to {self.last_index} have a gap"
        )

    def _truncate(self, index: Index) -> None:
        # Raft §5.4: what is committed stays. A leader that asks otherwise is not one.
        assert index > self.committed, f"truncation at {index}, committed {self.committed}"
        if index >= self._base:
            self._bytes -= sum(map(entry_bytes, self._entries[index - self._base :]))
            del self._entries[index - self._base :]
        else:
            self._entries.clear()
            self._bytes = 0
            self._base = index
        last = Index(index - 1)
        self.last_index = last
        self._issued = min(self._issued, last)
        self.durable = min(self.durable, last)
        if self._writes:
            self._writes = deque((sequence, min(end, last)) for sequence, end in self._writes)

    def restore(self, mark: SnapshotMark) -> None:
        """Start again after a snapshot that the next `Ready` makes durable."""
        assert mark.index > self.committed, f"snapshot {mark.index}, committed {self.committed}"
        # Entries above the old commit may be in no leader's log; they no longer count as durable.
        self.durable = min(self.durable, self.committed)
        self._entries.clear()
        self._bytes = 0
        self._writes.clear()
        self._base = Index(mark.index + 1)
        self.last_index = self._issued = mark.index
        self.committed = self.handed = self.applied = mark.index
        self._restored = mark
        self._restored_issued = False

    def commit_to(self, index: Index) -> bool:
        """Everything up to `index` is agreed. Says whether that is news."""
        if index <= self.committed:
            return False
        assert index <= self.last_index, f"commit {index}, log ends at {self.last_index}"
        self.committed = index
        return True

    # What a Ready takes, and what comes back.

    @property
    def unissued(self) -> bool:
        return self._issued < self.last_index or (
            self._restored is not None and not self._restored_issued
        )

    def issue(self, sequence: int) -> tuple[SnapshotMark | None, tuple[Entry, ...]]:
        """Everything that has to be written and was not handed out yet."""
        mark = None
        if self._restored is not None and not self._restored_issued:
            mark = self._restored
            self._restored_issued = True
        entries: tuple[Entry, ...] = ()
        if self._issued < self.last_index:
            entries = tuple(self._entries[self._issued + 1 - self._base :])
            self._issued = self.last_index
        if mark is not None or entries:
            self._writes.append((sequence, self._issued))
        return mark, entries

    def persisted(self, sequence: int) -> bool:
        """All writes up to this sequence are durable. Says whether `durable` moved."""
        before = self.durable
        while self._writes and self._writes[0][0] <= sequence:
            _, end = self._writes.popleft()
            # Clipped writes may end before what a later write has already made durable.
            self.durable = max(self.durable, end)
            if self._restored is not None and self._restored_issued:
                self._restored = None
        self._trim()
        return self.durable > before

    def _trim(self) -> None:
        if self._bytes <= self._cache_bytes_max:
            return
        # Down to three quarters, so that the list is moved once in a while and not each time.
        excess = self._bytes - self._cache_bytes_max * 3 // 4
        held = self._entries
        # What is not applied yet would only have to be read again.
        droppable = min(min(self.durable, self.applied) + 1 - self._base, len(held))
        count = 0
        while count < droppable and excess > 0:
            size = entry_bytes(held[count])
            excess -= size
            self._bytes -= size
            count += 1
        if count:
            del held[:count]
            self._base = Index(self._base + count)

    @property
    def appliable(self) -> bool:
        """Something is committed and durable, and the last portion has been applied."""
        return self.handed < self.committed and self.applied == self.handed < self.durable

    def hand_over(self, bytes_max: int) -> tuple[Entry, ...]:
        """The next portion to apply; nothing more until `applied` has caught up."""
        low = Index(self.handed + 1)
        entries = self.entries(low, bytes_max, high=Index(self.commit + 1))
        self.handed = entries[-1].index
        return entries

    def apply_to(self, index: Index) -> None:
        if index <= self.applied:
            return  # A snapshot has overtaken the shell.
        assert index <= self.handed, f"applied {index}, only {self.handed} was handed over"
        self.applied = index

    @property
    def memory_bytes(self) -> int:
        return self._bytes
