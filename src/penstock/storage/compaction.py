"""Compaction by key: which partitions are due, and putting what a round made into the log.

What a round does to records is in `cleaner`; here is when there is one. A *survey* sums up, from
the side indexes, how many bytes of each partition are new since the last round. A partition is due
when that is a large enough share of it, or when the oldest of it has waited long enough. One that
is due makes a round for all that have anything new: they lie in the same segments, which are read
and written once for all of them.

Everything is decided by log time and by what is in this replica's files, so each replica compacts
by itself, and no two need agree. Only sealed segments below the snapshot are touched, and none that
a follower is being sent: Raft never sees an entry that was compacted. How far each partition is
compacted is in the manifest, beside the files it is true of; an installation forgets it.

Dropping a tombstone can be seen elsewhere: a follower that missed it, and has the record that it
deleted, would keep that for ever. So a log remembers the last entry of which it dropped one
(`erased_through`), and a follower that needs the entries after one before it is sent everything.
"""

from collections.abc import Callable, Mapping

from penstock.core.errors import DiskFull
from penstock.core.limits import COMPACTED_PARTITIONS_MAX
from penstock.core.types import NO_INDEX, Index, Offset, PartitionId
from penstock.storage.appender import Appender, adopt_index
from penstock.storage.cleaner import Cleaning, CompactionPolicy, Replacement
from penstock.storage.directory import LogDirectory
from penstock.storage.index_file import IndexFile
from penstock.storage.job import LogJob
from penstock.storage.sealed_segment import SealedReader
from penstock.storage.segment import Segment
from penstock.storage.segments import SegmentList

REST_MS = 60_000
"""The pause, in log time, after a round that removed nothing."""

Policies = Mapping[PartitionId, CompactionPolicy]


class Dirt:
    """The sizes of the new and of the compacted part of a partition."""

    __slots__ = ("clean_bytes", "dirty_bytes", "oldest_ms")

    def __init__(self) -> None:
        self.clean_bytes = 0
        self.dirty_bytes = 0
        self.oldest_ms = 0
        """The timestamp of the first that is new; only if there is any."""

    def add(self, reader: SealedReader, partition: PartitionId, cleaned: Offset) -> None:
        """Count what a segment holds; segments come in order."""
        summary = reader.summary(partition)
        if summary.end_offset <= cleaned:
            self.clean_bytes += summary.size
            return
        first = reader.first_row_after(partition, cleaned)
        assert first is not None, f"partition {partition} ends before {summary.end_offset}"
        if not self.dirty_bytes:
            self.oldest_ms = first.highest_timestamp
        self.clean_bytes += first.bytes_before
        self.dirty_bytes += summary.size - first.bytes_before

    def due_ms(self, policy: CompactionPolicy) -> int | None:
        """From which time on the partition is due; None if only more bytes can make it so."""
        if not self.dirty_bytes:
            return None
        if self.dirty_bytes >= policy.dirty_ratio * (self.clean_bytes + self.dirty_bytes):
            due_ms = 0
        elif policy.max_lag_ms is not None:
            due_ms = self.oldest_ms + policy.max_lag_ms
        else:
            return None
        return max(due_ms, self.oldest_ms + policy.min_lag_ms) if policy.min_lag_ms > 0 else due_ms


class Compactor:
    """Plans surveys and rounds; one job at a time."""

    def __init__(self, home: LogDirectory, segments: SegmentList, appender: Appender) -> None:
        self._home = home
        self._segments = segments
        self._appender = appender
        self._round: Cleaning | None = None
        self._number: int | None = None
        self._dirt: dict[PartitionId, Dirt] = {}
        self._surveyed = NO_INDEX
        """Segments up to this entry are counted in `_dirt`."""
        self._surveyed_for: Policies = {}
        self._look_again_ms: int | None = None
        self._rest_until_ms = 0
        self.out = False
        self.rounds = 0
        self.compacted_segments = 0
        self.compacted_bytes = 0

    @property
    def busy(self) -> bool:
        """A round has begun and is not at its end."""
        return self._round is not None

    def job(
        self,
        policies: Policies,
        live: Callable[[], Mapping[PartitionId, Offset]],
        *,
        below: Index,
        now_ms: int,
        on_error: Callable[[Exception], None],
    ) -> LogJob | None:
        """The next bit of work on segments with nothing at or above `below`; None: nothing now.

        `policies` is another mapping whenever something in it is another. `live` gives the log
        start of every living partition."""
        segments = self._touchable(below)
        if self._round is None:
            return self._survey_job(policies, live, segments, now_ms, on_error)
        if below <= self._round.through:
            return None  # A follower needs what is being cleaned: later.
        return self._round_job(self._round, policies, live, segments, now_ms, on_error)

    def cancel(self) -> None:
        """Give up a round that is under way; no job is out."""
        if self._round is not None:
            self._round.close()
            self._appender.plan_removal(self._round.unfinished)
            self._round = None
        self._give_number_back()
        self._dirt, self._surveyed = {}, NO_INDEX

    def close(self) -> None:
        """The log is being closed; what a round leaves behind is removed at the next start."""
        if self._round is not None:
            self._round.close()

    def forget(self) -> None:
        """Other files are about to take the place of these: nothing is known about them."""
        self.cancel()
        self._home.note_compaction(cleaned={})

    def _touchable(self, below: Index) -> list[Segment]:
        """Return the sealed segments below an entry, up to the first without a side index."""
        found: list[Segment] = []
        for segment in self._segments:
            if segment.last >= below or not segment.sealed:
                break
            if not isinstance(segment.index, IndexFile):
                break
            found.append(segment)
        return found

    def _take_number(self) -> int:
        if self._number is None:
            self._number = self._home.take_number()
            self._home.borrowed.add(self._number)
        return self._number

    def _give_number_back(self) -> None:
        if self._number is not None:
            self._home.borrowed.discard(self._number)
            self._number = None

    # Surveys.

    def _survey_job(
        self,
        policies: Policies,
        live: Callable[[], Mapping[PartitionId, Offset]],
        segments: list[Segment],
        now_ms: int,
        on_error: Callable[[Exception], None],
    ) -> LogJob | None:
        if not policies or not segments or now_ms < self._rest_until_ms:
            return None
        waits = self._look_again_ms is None or now_ms < self._look_again_ms
        if policies is self._surveyed_for and segments[-1].last <= self._surveyed and waits:
            return None
        cleaned = self._home.cleaned
        dirt = {p: self._dirt[p] for p in policies if p in self._dirt}
        starts = live()
        added = [p for p in policies if p not in dirt and p in starts]
        del added[COMPACTED_PARTITIONS_MAX - len(dirt) :]
        dirt |= {p: Dirt() for p in added}
        surveyed = self._surveyed

        def survey() -> None:
            for segment in segments:
                wanted = dirt if segment.last > surveyed else added
                if wanted:
                    _survey(self._home, segment, wanted, dirt, cleaned)

        def publish() -> None:
            self.out = False
            self._dirt = dirt
            self._surveyed, self._surveyed_for = segments[-1].last, policies
            self._begin(now_ms)

        self.out = True
        return LogJob(
            "survey", [survey], publish=publish, abandon=self._abandoner(now_ms, on_error)
        )

    def _begin(self, now_ms: int) -> None:
        """Begin a round if a partition is due."""
        policies = self._surveyed_for
        dues = {p: dirt.due_ms(policies[p]) for p, dirt in self._dirt.items()}
        times = [due for due in dues.values() if due is not None]
        self._look_again_ms = min(times, default=None)
        if self._look_again_ms is None or self._look_again_ms > now_ms:
            return
        dirty = {p: policies[p] for p, dirt in self._dirt.items() if dirt.dirty_bytes}
        self._round = Cleaning(self._home, dirty, self._home.settings.compaction_keys_max)

    # Rounds.

    def _round_job(
        self,
        cleaning: Cleaning,
        policies: Policies,
        live: Callable[[], Mapping[PartitionId, Offset]],
        segments: list[Segment],
        now_ms: int,
        on_error: Callable[[Exception], None],
    ) -> LogJob:
        cleaning.withdrawn |= cleaning.clean_to.keys() - policies.keys()
        cleaning.segments = segments
        if cleaning.between:
            cleaning.starts = dict(live())
        cleaning.number = self._take_number()
        cleaning.now_ms = now_ms
        cleaning.effort = self._home.settings.compaction_job_bytes
        found: list[Replacement | bool | None] = []

        def publish() -> None:
            self.out = False
            outcome = found[0]
            if isinstance(outcome, Replacement):
                cleaning.accepted = self._replace(outcome)
                cleaning.unfinished = []
                self._give_number_back()
            elif outcome is True:
                self._finish(cleaning, now_ms)

        self.out = True
        return LogJob(
            "compact",
            [lambda: found.append(cleaning.advance())],
            publish=publish,
            abandon=self._abandoner(now_ms, on_error),
        )

    def _abandoner(
        self, now_ms: int, on_error: Callable[[Exception], None]
    ) -> Callable[[Exception], None]:
        def abandon(error: Exception) -> None:
            self.out = False
            self.cancel()
            self._rest_until_ms = now_ms + REST_MS
            if not isinstance(error, DiskFull):
                on_error(error)

        return abandon

    def _replace(self, made: Replacement) -> bool:
        """Put a new segment in the place of old ones; False if those are not there any more."""
        new = [made.new] if made.new is not None else []
        present = {segment.name for segment in self._segments}
        if self._appender.frozen or any(segment.name not in present for segment in made.old):
            self._appender.plan_removal([n for s in new for n in (s.name, s.index_name)])
            return False
        self._segments.replace(made.old, new)
        for segment in new:
            adopt_index(self._home, segment)
        self._home.note_compaction(erased_through=made.erased_through)
        self._appender.plan_manifest()
        self._appender.plan_removal([n for s in made.old for n in (s.name, s.index_name)])
        self.compacted_segments += len(made.old)
        self.compacted_bytes += sum(s.end for s in made.old) - sum(s.end for s in new)
        return True

    def _finish(self, cleaning: Cleaning, now_ms: int) -> None:
        """Everything below `clean_to` is clean, on disk as soon as the next manifest is."""
        if cleaning.progress:
            cleaned = {p: o for p, o in cleaning.clean_to.items() if p not in cleaning.withdrawn}
            for partition, offset in self._home.cleaned.items():
                if partition in cleaning.starts and len(cleaned) < COMPACTED_PARTITIONS_MAX:
                    cleaned.setdefault(partition, offset)
            self._home.note_compaction(cleaned=cleaned)
            self._appender.plan_manifest()
            self.rounds += 1
        else:
            self._rest_until_ms = now_ms + REST_MS
        self.cancel()


def _survey(
    home: LogDirectory,
    segment: Segment,
    wanted: "Mapping[PartitionId, Dirt] | list[PartitionId]",
    dirt: Mapping[PartitionId, Dirt],
    cleaned: Mapping[PartitionId, Offset],
) -> None:
    reader = SealedReader(home, segment)
    try:
        for partition in wanted:
            if reader.holds(partition):
                dirt[partition].add(reader, partition, cleaned.get(partition, Offset(0)))
    finally:
        reader.close()
