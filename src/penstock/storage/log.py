"""`ShardLog`: the log of one shard on disk. Everything an engine needs from storage is here.

    log = ShardLog.open(disk, directory, identity=…, settings=…, solo=False)
    log.stage(hard_state=…, entries=…)          gather; nothing has happened yet
    job = log.take_job()                         everything gathered, as steps
    …steps run on a worker…                      meanwhile more is staged
    log.complete(job)                            durable_index has moved

What can be read is in `log_view`; this module adds what changes the log.

Rules:

- One write job is out at a time; entries gather meanwhile (group commit). Snapshot, reclaim,
  compaction and receive jobs may run beside it: they only make new files. What they made becomes
  part of the log with the next write job, since only write and install jobs change the manifest. So
  after any `complete` ask `take_job` again.
- A write or sync that fails poisons the log for good: what the disk holds is unknown until it is
  opened again. A full disk is not a failure while there is ballast to give.
- Nothing here blocks on a sync except in steps. Reads may touch the disk (one `pread`).
"""

import os
from collections.abc import Callable, Mapping, Sequence

import msgspec

from penstock.core.entries import Entry, HardState, SnapshotMark
from penstock.core.errors import DamagedFile, DiskFull, LogPoisoned
from penstock.core.spans import Spans
from penstock.core.types import NO_INDEX, Index, Offset, PartitionId
from penstock.storage.appender import Appender, adopt_index, index_step
from penstock.storage.ballast import Ballast
from penstock.storage.cleaner import CompactionPolicy
from penstock.storage.compaction import Compactor
from penstock.storage.directory import LOCK_NAME, LogDirectory
from penstock.storage.disk import Disk, Lock
from penstock.storage.identity import Identity
from penstock.storage.incoming_snapshot import Incoming, plan_installation
from penstock.storage.index import GrowingIndex
from penstock.storage.job import LogJob, Step
from penstock.storage.log_view import LogView
from penstock.storage.log_writer import LogWriter
from penstock.storage.marker import Marker
from penstock.storage.opener import OpenedLog, make_directory, open_directory
from penstock.storage.quarantine import Quarantine, lift_quarantine, store_quarantine
from penstock.storage.reclaim import Reclaimer
from penstock.storage.scrub import Scrubber
from penstock.storage.segments import SegmentList
from penstock.storage.settings import LogSettings
from penstock.storage.snapshots import NewSnapshot, Snapshots
from penstock.storage.statistics import LogStatistics


class ShardLog(LogView):
    """The log of one shard; see the top of this module."""

    def __init__(self, home: LogDirectory, lock: Lock, opened: OpenedLog, ballast: Ballast) -> None:
        """Use `ShardLog.open` instead."""
        hidden = opened.quarantine is not None and not opened.quarantine.repaired
        row = None if hidden else opened.manifest.snapshot
        segments = SegmentList(opened.segments)
        self._writer = LogWriter(home, opened.marker, ballast)
        appender = Appender(
            home,
            segments,
            self._writer,
            durable_index=NO_INDEX if hidden else segments.active.last,
            committed=opened.committed,
            snapshot=row,
        )
        appender.full = opened.full
        snapshots = Snapshots(home, appender, self._writer, row)
        super().__init__(home, segments, appender, snapshots, opened.quarantine)
        self._lock = lock
        self._ballast = ballast
        self._vote = opened.vote
        self._marker = opened.marker
        self._hard_state = opened.hard_state
        self._staged_vote: HardState | None = None
        self._suspects = opened.suspects
        self._poison: Exception | None = None
        self._out: LogJob | None = None
        self._lifting = False
        self._incoming: Incoming | None = None
        self._torn_bytes = opened.torn_bytes
        self._reclaimer = Reclaimer(home, segments, appender)
        self._compactor = Compactor(home, segments, appender)
        self._scrubber = Scrubber(home, segments)

    @classmethod
    def open(
        cls,
        disk: Disk,
        directory: str,
        *,
        identity: Identity,
        settings: LogSettings | None = None,
        solo: bool,
        verify_all: bool = False,
    ) -> "ShardLog":
        """Open the log in `directory`, making it if there is none.

        `solo`: there is no other replica, so damage is an error (`DamagedFile`), not a quarantine.
        `verify_all`: read every record, and not only those that a crash could have touched."""
        settings = settings or LogSettings()
        directory = os.path.normpath(directory)
        make_directory(disk, directory)
        lock = disk.lock(os.path.join(directory, LOCK_NAME))
        home = LogDirectory(disk, directory, identity=identity, settings=settings, solo=solo)
        ballast = Ballast(
            disk, directory, size=settings.ballast_bytes, margin=settings.segment_bytes
        )
        try:
            opened = open_directory(home, ballast, verify_all=verify_all)
        except BaseException:
            home.files.close()
            lock.release()
            raise
        return cls(home, lock, opened, ballast)

    # What is there.

    @property
    def directory(self) -> str:
        return self._home.root

    @property
    def identity(self) -> Identity:
        """The cluster, shard and node that the log belongs to."""
        return self._home.identity

    @property
    def hard_state(self) -> HardState:
        """Term and vote, staged ones included."""
        return self._hard_state

    @property
    def full(self) -> bool:
        """The ballast has been given for a full disk: appends must be refused, the rest goes on."""
        return self._appender.full

    @property
    def poisoned(self) -> bool:
        return self._poison is not None

    @property
    def writing(self) -> bool:
        """A write or install job is out."""
        return self._out is not None

    @property
    def has_work(self) -> bool:
        """Something is gathered for the next `take_job`."""
        return self._staged_vote is not None or self._appender.has_work

    @property
    def syncs(self) -> Spans:
        """The durations of syncs; empty unless they are measured."""
        return self._writer.syncs

    def measure_with(self, seconds: Callable[[], float]) -> None:
        """Use this clock from now on, to measure and for nothing else."""
        self._writer.seconds = seconds

    def free_bytes(self) -> int:
        return self._home.disk.free_bytes(self._home.root)

    def statistics(self) -> LogStatistics:
        """A snapshot of counters and sizes."""
        appender, reclaimer, compactor = self._appender, self._reclaimer, self._compactor
        return LogStatistics(
            first_index=self.first_index,
            last_index=self.last_index,
            durable_index=self.durable_index,
            snapshot_index=self.snapshot.index,
            segments=len(self._segments),
            size_bytes=sum(segment.end for segment in self._segments),
            staged_entries=len(appender.tail),
            index_cache_bytes=self._home.pages.size_bytes,
            appended_records=appender.appended_records,
            appended_bytes=appender.appended_bytes,
            syncs=sum(self._writer.syncs.histogram.counts),
            rolls=appender.rolls,
            truncations=appender.truncations,
            rewritten_segments=reclaimer.rewritten_segments,
            removed_segments=reclaimer.removed_segments,
            reclaimed_bytes=reclaimer.reclaimed_bytes,
            compaction_rounds=compactor.rounds,
            compacted_segments=compactor.compacted_segments,
            compacted_bytes=compactor.compacted_bytes,
            torn_bytes=self._torn_bytes,
            full=self.full,
            poisoned=self.poisoned,
            quarantined=self._quarantine is not None,
        )

    # Writing.

    def stage(
        self,
        *,
        hard_state: HardState | None = None,
        entries: Sequence[Entry] = (),
        healed: bool = False,
    ) -> None:
        """Gather something to be made durable by the next write job.

        Entries replace whatever the log holds from the first one's index on. `healed` ends the
        quarantine, after everything staged with it or before it is durable."""
        self._check_poison()
        if hard_state is not None:
            assert hard_state.term >= self._hard_state.term, (
                f"{hard_state} after {self._hard_state}"
            )
            self._hard_state = self._staged_vote = hard_state
        if entries:
            assert not self._hidden, "a quarantined log must be installed before it is written"
            newest = entries[-1].term
            # A log that is ahead of its vote could, after a restart, vote in a term twice.
            assert newest <= self._hard_state.term, f"term {newest}, {self._hard_state}"
            self._ask(lambda: self._appender.stage(entries))
        if healed and self._quarantine is not None:
            assert self._quarantine.repaired, "a quarantine ends with an installation"
            self._appender.plan_after(lambda: lift_quarantine(self._home.disk, self._home.root))
            self._lifting = True

    def note_commit(self, index: Index) -> None:
        """Raft's commit index, stored as a hint with the next marker."""
        self._appender.committed = max(self._appender.committed, index)

    def take_job(self, on_written: Step | None = None) -> LogJob | None:
        """Everything gathered so far as one job; None if there is nothing or one is out.

        `on_written` is called by the worker when all entries up to `last_index` are written and
        not yet synced: the operating system has them, and will unless the machine fails. It is not
        called when nothing is left to sync, since then the end of the job is as near."""
        self._check_poison()
        if self._out is not None or not self.has_work:
            return None
        steps: list[Step] = []
        if self._staged_vote is not None:
            # First, so that the durable term is never behind a durable entry's.
            steps += self._vote.steps(self._staged_vote)
            self._staged_vote = None
        written, hints = self._appender.take(on_written)
        steps += written
        lifting, self._lifting = self._lifting, False
        snapshot = self._appender.snapshot

        def publish() -> None:
            self._out = None
            self._appender.complete()
            self._snapshots.publish(snapshot)
            if lifting:
                self._quarantine = None

        job = self._out = LogJob(
            "write", steps, publish=publish, abandon=self._abandon_write, hints=hints
        )
        return job

    def complete(self, job: LogJob) -> None:
        """The job's steps are done: take over their results."""
        job.publish()

    def fail(self, job: LogJob, error: Exception) -> None:
        """A step of the job raised: a write or install job poisons the log, others are given up."""
        job.abandon(error)

    def _abandon_write(self, error: Exception) -> None:
        self._poison = error

    def _check_poison(self) -> None:
        if self._poison is not None:
            raise LogPoisoned(
                f"{self._home.root}: an earlier write failed ({self._poison}); what the disk holds "
                "is unknown until the log is opened again: restart the node"
            ) from self._poison

    # Snapshots.

    def begin_snapshot(self, mark: SnapshotMark) -> NewSnapshot:
        """Begin to make a snapshot of the machines' state at `mark`, in pieces; it counts after the
        next write job that follows its last one."""
        self._check_poison()
        assert not self._hidden, "a quarantined log has no state to keep"
        assert self.snapshot.index < mark.index <= self.durable_index, f"a snapshot at {mark.index}"
        return self._snapshots.begin(mark, on_error=self._abandon_write)

    def snapshot_job(self, mark: SnapshotMark, state: bytes) -> LogJob:
        """All of it in one job, for a small state."""
        snapshot = self.begin_snapshot(mark)
        snapshot.stage(state)
        return snapshot.finish_job()

    # Space.

    def reclaim_job(self, live: Mapping[PartitionId, Offset], keep_from: Index) -> LogJob | None:
        """Remove or rewrite segments at or below the snapshot and before `keep_from`.

        `live` has the log start of every living partition; what is not in it is deleted. Looks at a
        few segments at a time: call it again. None if there is nothing to look at."""
        if not self._reclaimable:
            return None
        below = min(keep_from, Index(self.snapshot.index + 1))
        return self._reclaimer.job(live, below=below, on_error=self._note_damage)

    def compaction_job(
        self,
        policies: Mapping[PartitionId, CompactionPolicy],
        live: Callable[[], Mapping[PartitionId, Offset]],
        keep_from: Index,
        now_ms: int,
    ) -> LogJob | None:
        """Some work on compacting these partitions, at or below the snapshot, before `keep_from`.

        `policies` must be another mapping whenever it changes, `live` is as for
        `reclaim_job`, and `now_ms` is log time. Does a bounded piece: call it again. None if there
        is nothing to do, or not now."""
        if not self._reclaimable:
            return None
        below = min(keep_from, Index(self.snapshot.index + 1))
        return self._compactor.job(
            policies, live, below=below, now_ms=now_ms, on_error=self._note_damage
        )

    @property
    def active_base(self) -> Index:
        """The first index of the active segment."""
        return Index(1) if self._hidden else self._segments.active.base

    def active_holds(self, partition: PartitionId) -> bool:
        """The segment that is being written has durable batches of this partition."""
        return not self._hidden and partition in self._segments.active.index

    def seal(self) -> Index:
        """Go on in a new segment with the next write job, so that this one can be compacted once a
        snapshot covers it; its last entry."""
        if self._quarantine is not None or self.poisoned or self._appender.frozen or self.full:
            return NO_INDEX
        active = self._segments.active
        if active.last >= active.base:
            self._appender.roll()
        return active.last

    @property
    def compacting(self) -> bool:
        """A round of compaction is under way: there will be more jobs soon."""
        return self._compactor.busy

    @property
    def _reclaimable(self) -> bool:
        """Segments may be replaced, and no job does so now."""
        if self._quarantine is not None or self.poisoned or self._appender.frozen:
            return False
        return not (self._reclaimer.out or self._compactor.out)

    def regain(self) -> LogJob | None:
        """Try to make the ballast again; `full` ends if there is space enough. None if not full."""
        if not self.full or self.poisoned:
            return None

        def publish() -> None:
            self._appender.full = False

        def abandon(error: Exception) -> None:
            if not isinstance(error, DiskFull):
                self._poison = error

        return LogJob("ballast", [self._ballast.make], publish=publish, abandon=abandon)

    # Transfer and repair.

    def begin_install(self, mark: SnapshotMark, trusted: Index) -> Incoming:
        """Begin to replace this log by a snapshot at `mark` and the records below it.

        What is here up to `trusted` (see `trusted_index`) stays. One that was begun before is given
        up."""
        self._check_poison()
        assert trusted <= self.trusted_index, f"{trusted} is not trusted, {self.trusted_index} is"
        if self._incoming is not None and not self._incoming.closed:
            self._appender.plan_removal(self._incoming.give_up())
        trusted = min(trusted, mark.index)
        self._incoming = Incoming(
            self._home, mark, trusted, finish=self._install, on_error=self._abandon_receive
        )
        return self._incoming

    def _abandon_receive(self, error: Exception) -> None:
        if self._incoming is not None:
            self._appender.plan_removal(self._incoming.give_up())
        if not isinstance(error, DiskFull):
            self._poison = error

    def _install(self, incoming: Incoming) -> LogJob:
        self._check_poison()
        assert self._out is None, "a write job is out"
        assert not self._lifting, "the quarantine is about to end; take that job first"
        self._compactor.forget()
        self._home.note_compaction(erased_through=incoming.erased_through)
        # Whatever is wrong with a side index is put right before anything is decided.
        through = Index(incoming.trusted + 1)
        self._ask(lambda: [segment.index.position(through) for segment in self._segments])
        mark = incoming.mark
        assert mark.term <= self._hard_state.term, f"{mark} is ahead of {self._hard_state}"
        quarantine = self._quarantine and msgspec.structs.replace(
            self._quarantine, repaired=True, trusted_index=mark.index
        )
        vote = self._vote.steps(self._staged_vote) if self._staged_vote else []
        self._staged_vote = None
        marker = Marker(self.durable_index, self._appender.committed)
        installation, steps = plan_installation(
            self._home,
            self._writer,
            self._appender,
            incoming,
            segments=list(self._segments),
            suspects=self._suspects,
            active=None if self._hidden else self._segments.active,
            marker=marker,
            quarantine=quarantine,
        )

        def publish() -> None:
            self._out = None
            before = list(self._segments)
            self._segments.replace(before, installation.result)
            for segment in installation.result[:-1]:
                segment.sealed = True
                if isinstance(segment.index, GrowingIndex):
                    adopt_index(self._home, segment)
            named = {segment.name for segment in installation.result}
            gone = [segment for segment in before if segment.name not in named]
            self._home.forget([name for s in gone for name in (s.name, s.index_name)])
            self._appender.restart(mark.index, installation.row)
            self._snapshots.publish(installation.row)
            self._quarantine, self._suspects = quarantine, []
            self._incoming = None

        job = self._out = LogJob(
            "install", vote + steps, publish=publish, abandon=self._abandon_write
        )
        return job

    def scrub_job(self) -> LogJob | None:
        """Verify one sealed segment, in turn; then look at `scrub_finding`."""
        return self._scrubber.job(self.committed_hint)

    @property
    def scrub_finding(self) -> DamagedFile | None:
        """The finding of the last complete scrub job."""
        return self._scrubber.last_finding

    def mark_damaged(self, damage: DamagedFile) -> None:
        """Write down, durably and at once, that the next start has to repair this log.

        In quarantine already, more damage means that less can be trusted: otherwise the repair
        would stumble over it again and again."""
        before = self._scrubber.last_before(
            os.path.basename(damage.path), damage.position, suspects=self._suspects
        )
        trusted = self.trusted_index
        store_quarantine(
            self._home.disk,
            self._home.root,
            Quarantine(
                reason=damage.problem,
                file=damage.path,
                position=damage.position,
                trusted_index=trusted if before is None else min(before, trusted),
            ),
        )

    def _note_damage(self, error: Exception) -> None:
        if not isinstance(error, DamagedFile):
            self._poison = error

    def close(self) -> None:
        """Close the directory. Entries that were staged and not completed are not durable."""
        clean = self._poison is None and self._out is None and not self._hidden
        if clean and not self._appender.has_work:
            self._close_cleanly()
        self._compactor.close()
        self._writer.close()
        self._vote.close()
        self._marker.close()
        self._snapshots.close()
        self._home.files.close()
        self._lock.release()

    def _close_cleanly(self) -> None:
        """Spare the next start the scan: index the active segment, and note what is committed."""
        active = self._segments.active
        if active.last >= active.base:
            index_step(self._home, active)()
        self._marker.write(Marker(self.durable_index, self.committed_hint))
