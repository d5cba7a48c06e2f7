"""The reading side of a shard's log: what `ShardLog` can be asked without changing anything.

Three indexes tell what is there: `last_index` counts what is staged, `durable_index` what is synced
and will be here after a crash, `snapshot.index` what the machines' state already holds.
`first_index` is where the contiguous log begins, at most `snapshot.index + 1`.

A quarantined log that has not been repaired shows itself to Raft as empty. Everything that is
handed out was verified; a side index that proves rotten is made again on the way, and rot in a
record is `DamagedFile`.
"""

from collections.abc import Callable
from typing import TypeVar

from penstock.core.entries import Entry, Membership, SnapshotMark
from penstock.core.types import NO_INDEX, NO_TERM, Index, Offset, PartitionId, Term
from penstock.storage.appender import Appender
from penstock.storage.directory import LogDirectory
from penstock.storage.entry_reader import EntryReader
from penstock.storage.files import PageDamaged
from penstock.storage.partitions import PartitionReader
from penstock.storage.quarantine import Quarantine
from penstock.storage.read_plan import ReadPlan
from penstock.storage.recovery import remake_index
from penstock.storage.segments import SegmentList
from penstock.storage.snapshots import Snapshots

T = TypeVar("T")


class LogView:
    """The read interface of a log."""

    def __init__(
        self,
        home: LogDirectory,
        segments: SegmentList,
        appender: Appender,
        snapshots: Snapshots,
        quarantine: Quarantine | None,
    ) -> None:
        self._home = home
        self._segments = segments
        self._appender = appender
        self._snapshots = snapshots
        self._quarantine = quarantine
        self._entries = EntryReader(home, segments, appender)
        self._partitions = PartitionReader(home, segments, self._entries)

    @property
    def _hidden(self) -> bool:
        """Raft sees an empty log, since what is there is not to be believed."""
        return self._quarantine is not None and not self._quarantine.repaired

    @property
    def first_index(self) -> Index:
        """The oldest index from which the log has no gap to `last_index`."""
        return Index(1) if self._hidden else self._segments.first_index

    @property
    def last_index(self) -> Index:
        """The newest entry, durable or staged."""
        return self._appender.last_index

    @property
    def durable_index(self) -> Index:
        return self._appender.durable_index

    @property
    def snapshot(self) -> SnapshotMark:
        """The mark of the newest snapshot; an empty one if there is none."""
        return self._snapshots.mark

    @property
    def committed_hint(self) -> Index:
        """The last entry known to be committed; never beyond what is durable here."""
        return min(self._appender.committed, self._appender.durable_index)

    @property
    def quarantine(self) -> Quarantine | None:
        return self._quarantine

    @property
    def trusted_index(self) -> Index:
        """Up to here the log is whole and committed: an installation need not bring it again."""
        if self._quarantine is not None and not self._quarantine.repaired:
            return self._quarantine.trusted_index
        return self.committed_hint

    @property
    def erased_through(self) -> Index:
        """Compaction has dropped no tombstone after this entry. A follower that has not received
        all entries up to here must be sent everything: see `storage.compaction`."""
        return self._home.erased_through

    def term(self, index: Index) -> Term:
        """The term of an entry from `first_index - 1` to `last_index`."""
        if self._hidden:
            assert index == NO_INDEX, f"term of {index} in a quarantined log"
            return NO_TERM
        if index == self.snapshot.index:
            return self.snapshot.term
        return self._ask(lambda: self._entries.term(index))

    def entries(self, low: Index, high: Index, bytes_max: int) -> tuple[Entry, ...]:
        """Verified entries from `low` on, below `high`: at least one, to about `bytes_max`."""
        return self._ask(lambda: self._entries.entries(low, high, bytes_max))

    def memberships(self) -> list[tuple[Index, Membership]]:
        """The MEMBERSHIP entries after the snapshot, in order."""
        if self._hidden:
            return []
        return self._ask(lambda: self._entries.memberships(self.snapshot.index))

    def read(
        self, partition: PartitionId, offset: Offset, bytes_max: int, end_offset: Offset
    ) -> bytes:
        """Verified whole batches, from the one that holds `offset`, or the next after it, on.

        Only batches wholly below `end_offset`; at least one even if it is above `bytes_max`; b"" if
        there is none. Reads here and now; `read_plan` leaves that to the caller."""
        return self.read_plan(partition, offset, bytes_max, end_offset).load()

    def read_plan(
        self, partition: PartitionId, offset: Offset, bytes_max: int, end_offset: Offset
    ) -> ReadPlan:
        """Plan a read without reading yet: see `storage.read_plan`."""
        reader = self._partitions
        return self._ask(
            lambda: reader.plan(partition, offset, bytes_max=bytes_max, end_offset=end_offset)
        )

    def offset_for_time(
        self, partition: PartitionId, timestamp_ms: int
    ) -> tuple[Offset, int] | None:
        """Base offset and highest timestamp of the first batch with this time or a later one."""
        return self._ask(lambda: self._partitions.at_time(partition, timestamp_ms))

    def entry_of(self, partition: PartitionId, offset: Offset) -> tuple[Index, Term] | None:
        """Index and term of the entry that brought a message; None if it is not there."""
        return self._ask(lambda: self._partitions.entry_of(partition, offset))

    def partition_bytes(self, partition: PartitionId, from_offset: Offset) -> int:
        """The size of a partition, from the slice that holds `from_offset` on."""
        return self._ask(lambda: self._partitions.size_from(partition, from_offset))

    def offset_before_bytes(self, partition: PartitionId, keep_bytes: int) -> Offset | None:
        """The latest start that keeps at least `keep_bytes`; None if nothing is stored."""
        return self._ask(lambda: self._partitions.start_for_size(partition, keep_bytes))

    def offset_before_time(self, partition: PartitionId, timestamp_ms: int) -> Offset | None:
        """The latest start before which everything is older, by its timestamp or by when it was
        appended; None if nothing is stored."""
        return self._ask(lambda: self._partitions.start_for_time(partition, timestamp_ms))

    def live_records(
        self, after: Index, through: Index, bytes_max: int
    ) -> tuple[tuple[Entry, ...], Index]:
        """APPEND entries that still exist with after < index ≤ through, for a follower.

        The second value is where to go on; it equals `through` when there is no more."""
        assert not self._hidden, "a quarantined log is not a source of records"
        return self._ask(lambda: self._entries.live_records(after, through, bytes_max))

    def _ask(self, question: Callable[[], T]) -> T:
        """Answer from the indexes; a rotten side index is made again first."""
        while True:
            try:
                return question()
            except PageDamaged as damage:
                remake_index(self._home, self._segments, str(damage))

    # Snapshots.

    def load_snapshot(self) -> tuple[SnapshotMark, bytes]:
        """The newest snapshot, verified; an empty mark and state if there is none."""
        return self._snapshots.load()

    def snapshot_bytes(self, mark: SnapshotMark) -> int:
        """The size of the state at `mark`; `Unavailable` if it has been replaced twice."""
        return self._snapshots.size(mark)

    def read_snapshot(self, mark: SnapshotMark, position: int, length: int) -> bytes:
        """A part of the state at `mark`, for a follower; b"" at its end."""
        return self._snapshots.read(mark, position, length)
