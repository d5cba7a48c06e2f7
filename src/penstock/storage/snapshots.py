"""The newest snapshot of a log: taking one, loading it, and sending it to others.

A snapshot is made beside everything else by jobs of its own, in pieces, and becomes *the* snapshot
with the next write job, which stores the manifest that names it and removes the one before. That
one stays readable until the next change, because a follower may be in the middle of fetching it:
its file is kept open, which on any POSIX system keeps its bytes.
"""

from collections.abc import Callable

from penstock.core.entries import SnapshotMark
from penstock.core.errors import DamagedFile, DiskFull, Unavailable
from penstock.storage.appender import Appender
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import Buffer, File
from penstock.storage.job import LogJob
from penstock.storage.log_writer import LogWriter
from penstock.storage.manifest import SnapshotRow
from penstock.storage.snapshot import (
    SnapshotLayout,
    SnapshotWriter,
    find_snapshot_damage,
    read_layout,
    sync_file,
)


class Snapshots:
    """The published snapshot and the one before it."""

    def __init__(
        self, home: LogDirectory, appender: Appender, writer: LogWriter, row: SnapshotRow | None
    ) -> None:
        self._home = home
        self._appender = appender
        self._writer = writer
        self._row = row
        self.mark = row.mark if row is not None else SnapshotMark()
        """Of the newest one; an empty mark if there is none."""
        self._file: File | None = None
        self._layout: SnapshotLayout | None = None
        self._before: tuple[SnapshotLayout, File] | None = None
        if row is not None:
            self._open(row)

    def _open(self, row: SnapshotRow) -> None:
        self._file = self._home.disk.open(self._home.path(row.name))
        self._layout = read_layout(self._file)

    def publish(self, row: SnapshotRow | None) -> None:
        """A write or install job has stored a manifest that names `row`."""
        if row is None or row == self._row:
            return
        if self._before is not None:
            self._before[1].close()
        before = self._layout, self._file
        self._before = (before[0], before[1]) if before[0] and before[1] else None
        self._row, self.mark = row, row.mark
        self._open(row)

    def begin(self, mark: SnapshotMark, *, on_error: Callable[[Exception], None]) -> "NewSnapshot":
        """Begin to make a snapshot's file."""
        row = SnapshotRow(number=self._home.take_number(), mark=mark)
        self._home.borrowed.add(row.number)
        return NewSnapshot(self, row, self._home, on_error)

    def made(self, row: SnapshotRow) -> None:
        """The file of a snapshot is complete and durable."""
        self._home.borrowed.discard(row.number)
        planned = self._appender.snapshot
        if self._appender.frozen or (planned and planned.mark.index >= row.mark.index):
            self._appender.plan_removal([row.name])
            return
        self._appender.snapshot = row
        self._appender.plan_manifest()
        self._appender.plan_removal([planned.name] if planned else [])

    def not_made(self, row: SnapshotRow, *, full: bool) -> None:
        """Discard a snapshot that will never be complete; the previous one stays."""
        self._home.borrowed.discard(row.number)
        self._appender.plan_removal([row.name])
        if full:
            self._appender.plan(self._writer.give_ballast)

    def load(self) -> tuple[SnapshotMark, bytes]:
        """The mark and the verified state; an empty state if there is no snapshot."""
        if self._row is None:
            return SnapshotMark(), b""
        assert self._file is not None, "a snapshot without its file"
        damage = find_snapshot_damage(self._file, self._row.mark)
        if damage is not None or self._layout is None:
            position, problem = damage or (0, "the snapshot's header is damaged")
            raise self._home.damaged(self._row.name, position, problem)
        return self._row.mark, self._file.read(self._layout.start, self._layout.length)

    def size(self, mark: SnapshotMark) -> int:
        """Return the size of the state at `mark`."""
        return self._source(mark)[0].length

    def read(self, mark: SnapshotMark, position: int, length: int) -> bytes:
        """A part of the state at `mark`; b"" at its end."""
        layout, file = self._source(mark)
        length = min(length, layout.length - position)
        return file.read(layout.start + position, length) if length > 0 else b""

    def _source(self, mark: SnapshotMark) -> tuple[SnapshotLayout, File]:
        if self._layout is not None and self._file is not None and self._layout.mark == mark:
            return self._layout, self._file
        if self._before is not None and self._before[0].mark == mark:
            return self._before
        raise Unavailable(
            f"the snapshot at {mark.index} has been replaced by one at {self.mark.index}; "
            "begin again with that one"
        )

    def close(self) -> None:
        for file in (self._file, self._before[1] if self._before else None):
            if file is not None:
                file.close()


class NewSnapshot:
    """A snapshot that is being made, in pieces. Its jobs run one at a time."""

    def __init__(
        self,
        snapshots: Snapshots,
        row: SnapshotRow,
        home: LogDirectory,
        on_error: Callable[[Exception], None],
    ) -> None:
        self._snapshots = snapshots
        self._row = row
        self._home = home
        self._on_error = on_error
        self._writer = SnapshotWriter(home.disk, home.path(row.name), row.mark)
        self.failure = ""
        """Why it will never be complete."""

    @property
    def staged_bytes(self) -> int:
        """The size of the bytes that wait for the next job."""
        return self._writer.staged_bytes

    @property
    def length(self) -> int:
        """The size of the state so far."""
        return self._writer.length

    def stage(self, piece: Buffer, position: int | None = None) -> None:
        """Gather a piece that follows the last, or replaces what is at a position."""
        self._writer.stage(piece, position)

    def take_job(self) -> LogJob:
        """Return a job that writes the staged bytes."""
        steps = [*self._writer.take_steps(), self._writer.sync]
        return LogJob("snapshot", steps, publish=lambda: None, abandon=self._abandon)

    def finish_job(self) -> LogJob:
        """Write the rest and make all of it durable; it counts after the next write job."""
        home, path = self._home, self._home.path(self._row.name)
        steps = [
            *self._writer.final_steps(),
            lambda: sync_file(home.disk, path),
            lambda: home.disk.sync_directory(home.root),
        ]
        return LogJob(
            "snapshot",
            steps,
            publish=lambda: self._snapshots.made(self._row),
            abandon=self._abandon,
        )

    def give_up(self) -> None:
        """Discard the snapshot because its state is not available; the previous one stays. No job
        may be running."""
        self._writer.close()
        self._snapshots.not_made(self._row, full=False)

    def _abandon(self, error: Exception) -> None:
        self._writer.close()
        full = isinstance(error, DiskFull)
        self.failure = "the disk is full" if full else str(error)
        self._snapshots.not_made(self._row, full=full)
        if not full and not isinstance(error, DamagedFile):
            self._on_error(error)
