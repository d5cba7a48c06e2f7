"""The background work of a replica: snapshots, giving space back, compaction, scrubbing.

All of it runs on the background worker, one piece at a time, and none of it is needed for an
answer. A snapshot is taken after so much log, when a follower can be helped by nothing else, when a
segment was sealed to be compacted, and before a clean stop. It counts once the log's next write has
made it known; then segments below it may go.

A snapshot is encoded on the loop, a slice at a time, and written by the worker, some slices at a
time, while entries go on being applied (`machines.state_pieces`). If it cannot be made, the one
before stays, and with it all of the log behind that: nothing is lost, the next attempt is made
after so much log again.
"""

from collections.abc import Callable, Iterator

from penstock.core.entries import SnapshotMark
from penstock.core.limits import SNAPSHOT_SLICE_BYTES, SNAPSHOT_WRITE_BYTES
from penstock.core.types import NO_INDEX, Index
from penstock.engine.replica.compaction import Compaction
from penstock.machines.machine import Machine
from penstock.machines.state_pieces import Patch, Piece
from penstock.raft import RaftNode
from penstock.storage import LogJob, NewSnapshot, ShardLog

UPKEEP_TICKS = 20
"""How often dead segments, or a full disk, are looked at again."""
COMPACTION_TICKS = 5
"""How often a round of compaction that has begun goes on: not always, since it takes its part of
the interpreter from the loop."""
SCRUB_TICKS = 100
"""How often a sealed segment is read to find rot; a multiple of `UPKEEP_TICKS`."""
SLICE_SECONDS = 0.005
"""How long a slice of a snapshot may be encoded: many small things have few bytes and take long."""
SERVED_TICKS = 10
"""A follower heard of within this many ticks is being served from the log."""


class Upkeep:
    """The background work of one replica."""

    def __init__(
        self,
        log: ShardLog,
        machine: Machine,
        raft: RaftNode,
        snapshot_log_bytes: int,
        *,
        compaction: Compaction,
        run: Callable[[LogJob, Callable[[bool], None]], None],
        soon: Callable[[Callable[[], None]], object],
        seconds: Callable[[], float],
        announce: Callable[[str], None],
        slice_bytes: int = SNAPSHOT_SLICE_BYTES,
        snapshot_write_bytes: int = SNAPSHOT_WRITE_BYTES,
    ) -> None:
        self._log = log
        self._machine = machine
        self._raft = raft
        self._snapshot_log_bytes = snapshot_log_bytes
        self._compaction = compaction
        self._run = run
        self._soon = soon
        self._seconds = seconds
        self._announce = announce
        self._slice_bytes = slice_bytes
        self._snapshot_write_bytes = snapshot_write_bytes
        self._snapshot_index = log.snapshot.index
        self._taken_index = NO_INDEX
        self._snapshot_from = NO_INDEX
        """A segment that ends here was sealed to be compacted, which takes a snapshot."""
        self._ticks = 0
        self.busy = False
        self.log_bytes = 0
        """Applied since the last snapshot."""
        self.snapshot_failure = ""
        """Why the last snapshot could not be made; empty once one was made."""

    def tick(self) -> None:
        """Now and then, look whether there is something to do."""
        self._ticks += 1
        if self.busy:
            return
        if self._ticks % UPKEEP_TICKS:
            if self._compaction.under_way and self._ticks % COMPACTION_TICKS == 0:
                self._compact()
        elif self._log.full:
            # In turns: only what is given back makes room for the ballast.
            if self._ticks % (2 * UPKEEP_TICKS) == 0:
                self._start(self._log.regain())
            else:
                self._reclaim()
        elif self._ticks % SCRUB_TICKS == 0:
            self._start(self._log.scrub_job())
        elif self._ticks % (2 * UPKEEP_TICKS) or not self._compact():
            self._reclaim()
        if self._ticks % UPKEEP_TICKS == 0 and self._compaction.seal_due():
            self._snapshot_from = self._log.seal()

    def keep_log_short(self, applied: Index, *, now: bool) -> None:
        """Take a snapshot if one is due, or wanted `now`."""
        if self.busy:
            return
        due = now or self.log_bytes >= self._snapshot_log_bytes
        if self._snapshot_from:
            due = due or self._log.snapshot.index < self._snapshot_from <= applied
        if self._log.full and self.log_bytes > 0:
            due = True  # What was just deleted can go only when it is below a snapshot.
        if not due and not self._raft.snapshot_wanted:
            return
        if applied <= max(self._log.snapshot.index, self._taken_index):
            return
        self.log_bytes, self._snapshot_from = 0, NO_INDEX
        self._taken_index = applied
        mark = SnapshotMark(applied, self._raft.term_at(applied), self._raft.membership_at(applied))
        self.busy = True
        self._encode(self._log.begin_snapshot(mark), self._machine.snapshot_pieces())

    def _encode(self, snapshot: NewSnapshot, pieces: Iterator[Piece]) -> None:
        """A slice of a snapshot."""
        until = snapshot.staged_bytes + self._slice_bytes
        until_seconds = self._seconds() + SLICE_SECONDS
        try:
            for piece in pieces:
                if isinstance(piece, Patch):
                    snapshot.stage(piece.data, piece.position)
                else:
                    snapshot.stage(piece)
                if snapshot.staged_bytes >= until or self._seconds() > until_seconds:
                    break
            else:
                self._run(snapshot.finish_job(), lambda _: self._snapshot_done(snapshot))
                return
        except Exception as error:  # noqa: BLE001 - whatever it is, the shard goes on without one
            snapshot.give_up()
            self._note_snapshot(f"{type(error).__name__}: {error}")
            self.busy = False
            return
        if snapshot.staged_bytes < self._snapshot_write_bytes:
            self._soon(lambda: self._encode(snapshot, pieces))
            return

        def written(worked: bool) -> None:
            if worked:
                self._encode(snapshot, pieces)
            else:
                self._snapshot_done(snapshot)

        self._run(snapshot.take_job(), written)

    def _snapshot_done(self, snapshot: NewSnapshot) -> None:
        self._note_snapshot(snapshot.failure)
        self._done(not snapshot.failure)

    def _note_snapshot(self, failure: str) -> None:
        if failure and failure != self.snapshot_failure:
            self._announce(f"cannot take a snapshot, keeps the one before and the log: {failure}")
        self.snapshot_failure = failure

    def after_write(self) -> None:
        """A write may have made a new snapshot count."""
        if self._log.snapshot.index > self._snapshot_index:
            self._snapshot_index = self._log.snapshot.index
            self._raft.compacted()
            self._reclaim()

    def _reclaim(self) -> None:
        """Give back space; looks at a few segments each time, going round."""
        if not self.busy:
            self._start(self._log.reclaim_job(self._machine.log_starts(), self._keep_from()))

    def _compact(self) -> bool:
        """Some compaction; False if there is nothing to compact now."""
        return not self._log.full and self._start(self._compaction.job(self._keep_from()))

    def _keep_from(self) -> Index:
        """A follower that is being served from the log must not lose the ground under its feet."""
        views = self._raft.progress()
        served = [view.match for view in views if view.silence < SERVED_TICKS]
        return Index(min([self._log.snapshot.index, *served]) + 1)

    def _start(self, job: LogJob | None) -> bool:
        if job is None:
            return False
        self.busy = True
        self._run(job, self._done)
        return True

    def _done(self, worked: bool) -> None:
        self.busy = False
        if not worked:
            self._taken_index = NO_INDEX
