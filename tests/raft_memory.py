"""A log in memory, for the tests of the raft layer: what it is handed is durable at once.

It keeps what a disk would: entries, snapshot, term and vote, and whether it is quarantined. Crashes
are the business of whoever decides when to hand a `Ready` to it.
"""

from penstock.core.entries import (
    Entry,
    EntryKind,
    HardState,
    Membership,
    SnapshotMark,
    decode_membership,
)
from penstock.core.types import NO_INDEX, NO_TERM, Index, Term
from penstock.raft.log import entry_bytes
from penstock.raft.messages import Ready


class MemoryLog:
    """A `LogReader` that also writes."""

    def __init__(self, mark: SnapshotMark | None = None) -> None:
        self.hard_state = HardState()
        self.damaged = False
        self.snapshot = mark or SnapshotMark()
        self.snapshot_state = 0
        """What the snapshot holds: here, a number that stands for the whole history."""
        self._first: Index = Index(self.snapshot.index + 1)
        self._previous_term: Term = self.snapshot.term
        self._entries: list[Entry] = []

    @property
    def first_index(self) -> Index:
        return self._first

    @property
    def last_index(self) -> Index:
        return Index(self._first + len(self._entries) - 1)

    def term(self, index: Index) -> Term:
        if index == self._first - 1:
            return self._previous_term
        if index == self.snapshot.index:
            return self.snapshot.term
        assert self._first <= index <= self.last_index, f"term of {index}: {self.describe()}"
        return self._entries[index - self._first].term

    def entries(self, low: Index, high: Index, bytes_max: int) -> tuple[Entry, ...]:
        assert self._first <= low < high <= self.last_index + 1, f"{low}..{high}"
        found: list[Entry] = []
        size = 0
        for entry in self._entries[low - self._first : high - self._first]:
            size += entry_bytes(entry)
            if found and size > bytes_max:
                break
            found.append(entry)
        return tuple(found)

    def memberships(self) -> list[tuple[Index, Membership]]:
        return [
            (entry.index, decode_membership(entry.payload))
            for entry in self._entries
            if entry.kind is EntryKind.MEMBERSHIP and entry.index > self.snapshot.index
        ]

    def persist(self, ready: Ready, *, snapshot_state: int = 0) -> None:
        """Do what a `Ready` asks for, in its order."""
        if ready.snapshot is not None:
            self.install(ready.snapshot, snapshot_state)
        if ready.hard_state is not None:
            assert ready.hard_state.term >= self.hard_state.term, "the term went back"
            self.hard_state = ready.hard_state
        if ready.entries:
            self.append(ready.entries)
        if ready.healed:
            self.damaged = False

    def append(self, entries: tuple[Entry, ...]) -> None:
        first = entries[0].index
        assert self.snapshot.index < first <= self.last_index + 1, f"{first}: {self.describe()}"
        assert entries[-1].term <= self.hard_state.term, "an entry of a term that is not durable"
        del self._entries[first - self._first :]
        self._entries.extend(entries)

    def install(self, mark: SnapshotMark, state: int) -> None:
        """A snapshot in the place of the whole log."""
        assert mark.index > self.snapshot.index, f"snapshot {mark.index} after {self.snapshot}"
        self.snapshot, self.snapshot_state = mark, state
        self._first = Index(mark.index + 1)
        self._previous_term = mark.term
        self._entries.clear()

    def take_snapshot(self, mark: SnapshotMark, state: int) -> None:
        """A snapshot of our own; the log stays as it is until `compact`."""
        assert self.snapshot.index < mark.index <= self.last_index, f"snapshot {mark.index}"
        self.snapshot, self.snapshot_state = mark, state

    def compact(self, keep_from: Index) -> None:
        """Forget entries that the snapshot covers."""
        first = min(keep_from, Index(self.snapshot.index + 1))
        if first > self._first:
            self._previous_term = self.term(Index(first - 1))
            del self._entries[: first - self._first]
            self._first = first

    def damage(self) -> None:
        """Lose the log, keep term and vote: what a quarantined directory looks like to Raft."""
        self.damaged = True
        self.snapshot, self.snapshot_state = SnapshotMark(), 0
        self._first, self._previous_term = Index(1), NO_TERM
        self._entries.clear()

    def describe(self) -> str:
        """`3/1 4/1 5/2`, or `snapshot 9/2, 10/2`: index and term of each entry."""
        text = " ".join(f"{entry.index}/{entry.term}" for entry in self._entries) or "empty"
        if self.snapshot.index != NO_INDEX:
            text = f"snapshot {self.snapshot.index}/{self.snapshot.term}, log {text}"
        return text
