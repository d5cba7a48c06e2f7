"""Receiving a snapshot and the records below it, and putting them in the place of this log.

A follower that fell too far behind, or that is quarantined, gets two things from the leader: the
machines' state at a mark, and those records up to the mark that still hold living messages and that
it does not have already (everything up to `trusted` stays). The records go to sparse segments that
no manifest names.

The installation then takes these steps, and the one that stores the manifest is the moment at which
the log changes: a crash before it leaves the old log and some files to sweep, a crash after it the
new one.

    1  what was staged before is written
    2  the incoming segments are complete and durable
    3  segments that reach beyond `trusted` are copied up to it
    4  the snapshot's file is durable
    5  a new active segment after the mark is durable
    6  the marker is lowered to what is true of both logs
    7  the manifest names the new files                       ← here
    8  the marker says what is true of the new log
    9  a quarantine is noted as repaired
    10 the old files are swept, a damaged one is kept under another name
    11 the state is read, for the machines
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from penstock.core.checksum import crc32c
from penstock.core.entries import Entry, EntryKind, SnapshotMark
from penstock.core.types import NO_INDEX, Index
from penstock.storage.appender import Appender, index_step
from penstock.storage.copier import copy_records
from penstock.storage.directory import DAMAGED_SUFFIX, LogDirectory
from penstock.storage.disk import Buffer, File
from penstock.storage.envelope import ASIDE
from penstock.storage.index import GrowingIndex
from penstock.storage.job import LogJob, Step
from penstock.storage.log_writer import LogWriter
from penstock.storage.manifest import Manifest, SnapshotRow, named_files
from penstock.storage.marker import Marker
from penstock.storage.names import INDEX_SUFFIX, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX
from penstock.storage.quarantine import Quarantine, store_quarantine
from penstock.storage.record import RECORD_HEADER_BYTES, chain_seed, encode_header
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, SegmentHeader
from penstock.storage.segments import SegmentList, growing
from penstock.storage.snapshot import SnapshotWriter, read_layout, sync_file


class Incoming:
    """Records on their way into this log. Its jobs run one at a time."""

    def __init__(
        self,
        home: LogDirectory,
        mark: SnapshotMark,
        trusted: Index,
        finish: Callable[["Incoming"], LogJob],
        on_error: Callable[[Exception], None],
    ) -> None:
        self.mark = mark
        self.trusted = trusted
        """The log up to here is kept; the leader sends the rest."""
        self.segments: list[Segment] = []
        self.received = trusted
        """The last index that was staged."""
        self.erased_through = NO_INDEX
        """The sender has dropped tombstones up to here; so, then, has this log."""
        self._home = home
        self._finish = finish
        self._on_error = on_error
        self.row = SnapshotRow(number=home.take_number(), mark=mark)
        self.state = SnapshotWriter(home.disk, home.path(self.row.name), mark)
        """Takes the machines' state at the mark."""
        self.stored_state = b""
        """The state, read back by the worker for the machines once all is installed."""
        self._steps: list[Step] = []
        self._file: File | None = None
        self._out = False
        self.closed = False

    def stage(self, entries: Sequence[Entry]) -> None:
        """Gather APPEND entries, in order of index, after `trusted` and up to the mark."""
        assert not self.closed, "the installation was finished or given up"
        runs: list[tuple[Segment, int, list[Buffer]]] = []
        for entry in entries:
            assert self.received < entry.index <= self.mark.index, f"entry {entry.index}"
            assert entry.kind == EntryKind.APPEND, f"a {entry.kind.name} entry below a snapshot"
            segment = self._segment_for(entry)
            if not runs or runs[-1][0] is not segment:
                runs.append((segment, segment.end, []))
            self._add(segment, entry, runs[-1][2])
            self.received = entry.index
        for segment, position, buffers in runs:
            self._steps += self._write_steps(segment, position, buffers)

    def _segment_for(self, entry: Entry) -> Segment:
        if self.segments:
            segment = self.segments[-1]
            size = RECORD_HEADER_BYTES + len(entry.payload)
            if segment.end + size <= self._home.settings.segment_bytes:
                return segment
        header = self._home.new_header(
            base=entry.index, previous_term=entry.term, previous_chain=0, sparse=True
        )
        segment = Segment(header, index=GrowingIndex(header.base), capacity=0)
        segment.sealed = True
        self.segments.append(segment)
        return segment

    def _add(self, segment: Segment, entry: Entry, buffers: list[Buffer]) -> None:
        payload = entry.payload
        header, chain = encode_header(
            entry.kind,
            len(payload),
            entry.term,
            entry.index,
            segment.chain,
            crc32c(payload),
            0,
            segment.salt,
        )
        buffers += (header, payload)
        growing(segment).add(entry.index, entry.kind, payload, segment.end)
        segment.note(entry.index, entry.term, RECORD_HEADER_BYTES + len(payload), chain)

    def _write_steps(self, segment: Segment, position: int, buffers: list[Buffer]) -> list[Step]:
        if position > SEGMENT_HEADER_BYTES:
            return [lambda: self._write(position, buffers)]

        def begin() -> None:
            self._close_file()
            self._file = self._home.disk.open(self._home.path(segment.name), create=True)
            self._file.truncate(0)
            self._write(0, [segment.header.encode(), *buffers])

        return [begin]

    def _write(self, position: int, buffers: list[Buffer]) -> None:
        assert self._file is not None, "an incoming segment is written before it is made"
        self._file.write(position, buffers)

    def _close_file(self) -> None:
        """Make the file that was being written durable."""
        if self._file is not None:
            self._file.sync()
            self._file.close()
            self._file = None

    def give_up(self) -> list[str]:
        """Never to be finished: the names of the files that are left behind."""
        self.closed = True
        if self._file is not None and not self._out:
            self._file.close()
            self._file = None
        if not self._out:
            self.state.close()
        names = [name for s in self.segments for name in (s.name, s.index_name)]
        return [*names, self.row.name]

    def take_job(self) -> LogJob | None:
        """Return a job that writes the staged bytes; None if there are none or a job is running."""
        if self._out or not (self._steps or self.state.staged_bytes):
            return None
        steps, self._steps = [*self._steps, *self.state.take_steps()], []
        self._out = True

        def publish() -> None:
            self._out = False

        def abandon(error: Exception) -> None:
            self._out = False
            self._on_error(error)

        return LogJob("receive", steps, publish=publish, abandon=abandon)

    def finish_job(self, rest: bytes = b"") -> LogJob:
        """Put what came, with the machines' state at the mark, in the place of the log; `rest` is
        what has not been staged of the state."""
        assert not self._out, "a receive job is still out"
        assert not self.closed, "the installation was finished or given up"
        self.closed = True
        self.state.stage(rest)
        return self._finish(self)

    def final_steps(self) -> list[Step]:
        """Return the steps that write the rest and make everything durable."""
        steps, self._steps = self._steps, []
        return [*steps, self._close_file, *(index_step(self._home, s) for s in self.segments)]


@dataclass(slots=True, kw_only=True)
class Installation:
    """One installation: decided on the loop, carried out in steps, published on the loop."""

    home: LogDirectory
    writer: LogWriter
    incoming: Incoming
    kept: list[Segment]
    """Segments that stay as they are."""
    partly: list[Segment]
    """Segments of which only the trusted part stays."""
    active_number: int
    row: SnapshotRow
    numbers: list[int]
    """The numbers of the files for copies of `partly`."""
    lowered: Marker
    quarantine: Quarantine | None
    sweepable: Callable[[str], bool]
    """True if a file that the manifest does not name may be removed: no other job is making it."""
    copies: list[Segment] = field(default_factory=list)
    result: list[Segment] = field(default_factory=list)
    manifest: Manifest | None = None

    def steps(self) -> list[Step]:
        steps = self.incoming.final_steps()
        for number, segment in zip(self.numbers, self.partly, strict=True):
            steps.append(self._copy_step(segment, number))
        path = self.home.path(self.row.name)
        mark = self.incoming.mark
        steps += [
            *self.incoming.state.final_steps(),
            lambda: sync_file(self.home.disk, path),
            self._make_active,
            lambda: self.writer.store_marker(self.lowered),
            self._store,
            lambda: self.writer.store_marker(Marker(mark.index, mark.index)),
        ]
        if self.quarantine is not None:
            quarantine = self.quarantine
            steps.append(lambda: store_quarantine(self.home.disk, self.home.root, quarantine))
        return [*steps, self._sweep, self._read_back]

    def _read_back(self) -> None:
        file = self.home.disk.open(self.home.path(self.row.name))
        try:
            layout = read_layout(file)
            assert layout is not None, "a snapshot that was written just now cannot be read"
            self.incoming.stored_state = file.read(layout.start, layout.length)
        finally:
            file.close()

    def _copy_step(self, segment: Segment, number: int) -> Step:
        trusted = self.incoming.trusted
        end = segment.index.position(Index(trusted + 1))

        def step() -> None:
            copy = copy_records(
                self.home,
                segment,
                end=end,
                number=number,
                sparse=segment.sparse,
                keep=lambda found: found.header.index <= trusted,
            )
            if copy is not None:
                self.copies.append(copy)

        return step

    def _make_active(self) -> None:
        mark = self.incoming.mark
        old = sorted([*self.kept, *self.copies], key=lambda segment: segment.base)
        chain = chain_seed(mark.index, mark.term)
        if old and old[-1].last == mark.index and not old[-1].sparse:
            chain = old[-1].chain  # the new log continues the old one
        header = SegmentHeader.make(
            self.home.identity,
            base=Index(mark.index + 1),
            number=self.active_number,
            previous_term=mark.term,
            previous_chain=chain,
        )
        capacity = self.home.settings.segment_bytes
        self.writer.create(header, capacity)
        active = Segment(header, index=GrowingIndex(header.base), capacity=capacity)
        self.result = [*old, *self.incoming.segments, active]

    def _store(self) -> None:
        self.manifest = SegmentList(self.result).manifest(self.home, self.row)
        self.home.store_manifest(self.manifest)

    def _sweep(self) -> None:
        """Remove what the new manifest does not name; keep a damaged file for people to look at."""
        assert self.manifest is not None, "swept before the manifest was stored"
        keep = named_files(self.manifest)
        suffixes = (SEGMENT_SUFFIX, INDEX_SUFFIX, SNAPSHOT_SUFFIX, ASIDE)
        damaged = self.quarantine.file if self.quarantine else ""
        for name in self.home.disk.list(self.home.root):
            if name in keep or not name.endswith(suffixes) or not self.sweepable(name):
                continue
            path = self.home.path(name)
            if path == damaged:
                self.home.disk.rename(path, path + DAMAGED_SUFFIX)
            else:
                self.home.disk.remove(path)


def plan_installation(
    home: LogDirectory,
    writer: LogWriter,
    appender: Appender,
    incoming: Incoming,
    *,
    segments: list[Segment],
    suspects: list[Segment],
    active: Segment | None,
    marker: Marker,
    quarantine: Quarantine | None,
) -> tuple[Installation, list[Step]]:
    """Decide what stays; the steps begin with everything that was staged before."""
    mark, trusted = incoming.mark, incoming.trusted
    kept = [s for s in segments if s.base <= s.last <= trusted]
    partly = [s for s in segments if s.base <= trusted < s.last]
    # Of a suspect not even a trusted whole stays in its file: something else in it is damaged.
    partly += [s for s in suspects if s.base <= trusted]
    steps, _ = appender.take()
    if active is not None and active in kept:
        name, end = active.name, active.end
        steps.append(lambda: writer.seal(name, end))
        steps.append(index_step(home, active))
    appender.frozen = True
    installation = Installation(
        home=home,
        writer=writer,
        incoming=incoming,
        kept=kept,
        partly=partly,
        active_number=home.take_number(),
        row=incoming.row,
        numbers=[home.take_number() for _ in partly],
        lowered=Marker(min(marker.durable, mark.index), min(marker.committed, mark.index)),
        quarantine=quarantine,
        sweepable=home.sweepable(),
    )
    return installation, steps + installation.steps()
