"""The writing end of the log: staged entries, writes in flight, and the durable end.

Entries are *staged* on the loop: their place in a file is decided, their header made, and their
bytes gathered by reference, without copying a payload. `take` turns everything gathered into the
steps of one write job; while its steps run on a worker, more is gathered. `complete` makes it
durable for the loop: only then do entries enter the index, so nothing can be read before it is
safe.

    stage ─→ tail (entries after `durable_index`, in memory) ─→ take ─→ steps ─→ complete ─→ index

A truncation may be staged while the job that writes the doomed entries is still under way. Its
steps come in a later job, so files see first the one, then the other; in memory the job is
*clipped* so that its completion does not call durable what has been given up (an ABA).
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core.checksum import crc32c
from penstock.core.entries import Entry
from penstock.core.limits import MIB
from penstock.core.types import Index
from penstock.storage.directory import LogDirectory
from penstock.storage.disk import Buffer
from penstock.storage.index import GrowingIndex
from penstock.storage.index_file import IndexFile, encode_index, load_index, write_index
from penstock.storage.job import Step
from penstock.storage.log_writer import LogWriter
from penstock.storage.manifest import SnapshotRow
from penstock.storage.marker import Marker
from penstock.storage.record import RECORD_HEADER_BYTES, decode_header, encode_header
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment
from penstock.storage.segments import SegmentList, growing

_SEGMENT_BYTES_WHEN_FULL = 1 * MIB
"""On a full disk segments are small, so that the ballast serves many acknowledgements."""


class Staged(NamedTuple):
    """An entry with its place, not yet durable."""

    entry: Entry
    segment: Segment
    position: int
    chain: int


class Appender:
    """Plans writes; see the top of this module."""

    def __init__(
        self,
        home: LogDirectory,
        segments: SegmentList,
        writer: LogWriter,
        *,
        durable_index: Index,
        committed: Index,
        snapshot: SnapshotRow | None,
    ) -> None:
        self._home = home
        self._writer = writer
        self.segments = segments
        self.durable_index = durable_index
        self.last_index = durable_index
        self.committed = committed
        self.snapshot = snapshot
        """The newest snapshot, as planned: named in every manifest from now on."""
        self.full = False
        self.frozen = False
        """An installation is replacing everything: nothing else may plan a manifest."""
        self.tail: list[Staged] = []
        self._steps: list[Step] = []
        self._after: list[Step] = []
        self._run: list[Buffer] = []
        self._run_segment: Segment | None = None
        self._run_position = 0
        self._dirty: Segment | None = None
        self._to_forget: list[str] = []
        self._unindexed: list[Segment] = []
        self._indexing: list[Segment] = []
        self._indexing_out: list[Segment] = []
        self._taken_last: Index | None = None
        self._clip: Index | None = None
        self.appended_records = 0
        self.appended_bytes = 0
        self.truncations = 0
        self.rolls = 0

    # Staging.

    def stage(self, entries: Sequence[Entry]) -> None:
        """Plan to write entries; if the first is not new, everything from it on is replaced."""
        assert not self.frozen, "entries staged while an installation is under way"
        first = entries[0].index
        if first <= self.last_index:
            self._truncate(first)
        assert first == self.last_index + 1, f"entry {first} after {self.last_index}"
        segment = self.segments.active
        durable, index = self.durable_index, self.last_index
        for entry in entries:
            index = Index(index + 1)
            assert entry.index == index, f"entry {entry.index} where {index} belongs"
            payload = entry.payload
            size = RECORD_HEADER_BYTES + len(payload)
            position = segment.end
            if position + size > segment.capacity:
                segment = self._make_room(segment, size)
                position = segment.end
            header, chain = encode_header(
                entry.kind,
                len(payload),
                entry.term,
                index,
                segment.chain,
                crc32c(payload),
                index - durable,
                segment.salt,
            )
            if self._run_segment is not segment:
                self._flush_run()
                self._run_segment, self._run_position = segment, position
            self._run.append(header)
            self._run.append(payload)
            self.tail.append(Staged(entry, segment, position, chain))
            segment.note(index, entry.term, size, chain)
            self.appended_bytes += size
        self.last_index = index
        self.appended_records += len(entries)

    def _flush_run(self, *, through: bool = False) -> None:
        """Turn the gathered buffers into a step; `through`: their sync is the next one."""
        segment, position, run = self._run_segment, self._run_position, self._run
        self._run_segment, self._run = None, []
        if segment is None or not run:
            return
        name = segment.name
        self._steps.append(lambda: self._writer.write(name, position, run, through=through))
        self._dirty = segment

    def _make_room(self, segment: Segment, size: int) -> Segment:
        """Roll to a new segment, or enlarge an empty one for an entry above its size."""
        self._flush_run()
        if segment.last >= segment.base:
            return self._roll(size)
        capacity = segment.capacity = segment.end + size
        self._steps.append(lambda: self._writer.grow(segment.name, capacity))
        return segment

    def roll(self) -> None:
        """Plan to go on in a new segment, though there is room in this one."""
        self._flush_run()
        self._roll(0)

    def _roll(self, size: int) -> Segment:
        old = self.segments.active
        old.sealed = True
        self._unindexed.append(old)
        header = self._home.new_header(
            base=Index(old.last + 1), previous_term=old.last_term, previous_chain=old.chain
        )
        usual = self._home.settings.segment_bytes
        if self.full:
            usual = min(usual, _SEGMENT_BYTES_WHEN_FULL)
        capacity = max(usual, SEGMENT_HEADER_BYTES + size)
        new = Segment(header, index=GrowingIndex(header.base), capacity=capacity)
        self.segments.append(new)
        name, end = old.name, old.end
        self._steps.append(lambda: self._writer.seal(name, end))
        self._steps.append(lambda: self._writer.create(header, capacity))
        self.plan_manifest()
        self._dirty = None
        self.rolls += 1
        return new

    def plan_manifest(self) -> None:
        """The list of files has changed: gather the step that makes it the truth."""
        self._flush_run()
        manifest = self.segments.manifest(self._home, self.snapshot)
        self._steps.append(lambda: self._home.store_manifest(manifest))

    def plan_removal(self, names: list[str]) -> None:
        """Remove files that no manifest gathered so far names, at the end of the job."""
        if not names:
            return
        self._after.append(lambda: self._home.remove(names))
        self._to_forget += names

    def plan_after(self, step: Step) -> None:
        """Something for the end of the job, when its entries are durable."""
        self._after.append(step)

    def plan(self, step: Step) -> None:
        self._flush_run()
        self._steps.append(step)

    # Truncation.

    def _truncate(self, index: Index) -> None:
        """Plan to give up everything from `index` on."""
        floor = max(self.committed, self.snapshot.mark.index if self.snapshot else 0)
        assert index > floor, f"truncation from {index}, but {floor} is committed"
        self._flush_run()
        segment, position, chain = self._place(index)
        if segment.sealed:
            self._reopen(segment)
        dropped = self.segments.drop_after(segment)
        segment.cut(index, position=position, chain=chain)
        growing(segment).cut(index)
        del self.tail[max(0, index - self.durable_index - 1) :]
        self.last_index = Index(index - 1)
        self.durable_index = min(self.durable_index, self.last_index)
        if self._taken_last is not None:
            clip = self.last_index if self._clip is None else self._clip
            self._clip = min(clip, self.last_index)
        self.truncations += 1
        # Not `last_index`: what was staged in the same job before this is not durable yet.
        marker = Marker(self.durable_index, min(self.committed, self.durable_index))
        self._steps.append(lambda: self._writer.store_marker(marker))
        if dropped:
            self._unindexed = [kept for kept in self._unindexed if kept not in dropped]
            self.plan_manifest()
            self.plan_removal([name for gone in dropped for name in (gone.name, gone.index_name)])
        name, capacity = segment.name, segment.capacity
        self._steps.append(lambda: self._writer.cut(name, position, capacity))
        self._dirty = None

    def _place(self, index: Index) -> tuple[Segment, int, int]:
        """Segment and position of an entry, and the chain before it."""
        if index > self.durable_index + 1:
            before = self.tail[index - self.durable_index - 2]
            staged = self.tail[index - self.durable_index - 1]
            return staged.segment, staged.position, before.chain
        if index > self.durable_index:
            segment, position = self.tail[0].segment, self.tail[0].position
        else:
            segment = self.segments.find(index)
            position = segment.index.position(index)
        if index == segment.base:
            return segment, position, segment.header.previous_chain
        return segment, position, self._stored_chain(segment, Index(index - 1))

    def _stored_chain(self, segment: Segment, index: Index) -> int:
        position = segment.index.position(index)
        data = self._home.files.get(segment.name).read(position, RECORD_HEADER_BYTES)
        header = decode_header(data, 0, segment.salt)
        if header is None or header.index != index:
            raise self._home.damaged(segment.name, position, f"entry {index} has no valid header")
        return header.chain

    def _reopen(self, segment: Segment) -> None:
        """A sealed segment is to be written again."""
        if isinstance(segment.index, IndexFile):
            segment.index = segment.index.thaw()
        else:
            # A step may be writing this very index to its file.
            segment.index = growing(segment).copy()
        segment.sealed = False
        segment.capacity = max(self._home.settings.segment_bytes, segment.end)
        self._unindexed = [kept for kept in self._unindexed if kept is not segment]

    # Jobs.

    @property
    def has_work(self) -> bool:
        return bool(self._steps or self._run or self._after)

    def take(self, on_written: Step | None = None) -> tuple[list[Step], int]:
        """The steps of everything gathered so far, in order, and how many at the end are hints.

        `on_written` becomes the step after the last write and before its sync."""
        self._flush_run(through=on_written is None)
        steps, self._steps = self._steps, []
        hints = 0
        if self._dirty is not None:
            name = self._dirty.name
            if on_written is not None:
                steps.append(on_written)
            steps.append(lambda: self._writer.sync(name))
            self._dirty = None
        if self.last_index != self.durable_index or self.tail:
            marker = Marker(self.last_index, min(self.committed, self.last_index))
            steps.append(lambda: self._writer.note(marker))
            hints = 0 if self._after else 1
        after, self._after = self._after, []
        self._indexing_out, self._indexing = self._indexing, []
        self._taken_last = self.last_index
        return steps + after, hints

    def complete(self) -> list[Staged]:
        """The steps taken last are done: what became durable, in order."""
        assert self._taken_last is not None, "no steps are out"
        through = self._taken_last if self._clip is None else min(self._taken_last, self._clip)
        self._taken_last = self._clip = None
        count = max(0, through - self.durable_index)
        done = self.tail[:count]
        del self.tail[:count]
        for entry, segment, position, _ in done:
            growing(segment).add(entry.index, entry.kind, entry.payload, position)
        self.durable_index = Index(self.durable_index + count)
        self.full = self.full or self._writer.released
        self._writer.released = False
        self._home.forget(self._to_forget)
        self._to_forget = []
        self._adopt_indexes()
        self._plan_indexes()
        return done

    def restart(self, index: Index, snapshot: SnapshotRow) -> None:
        """An installation is done: the log begins anew after `index`."""
        self.frozen = False
        self.tail = []
        self.last_index = self.durable_index = index
        self.committed = max(self.committed, index)
        self.snapshot = snapshot
        self._taken_last = self._clip = None
        self._unindexed = []

    def _plan_indexes(self) -> None:
        """Plan side indexes for sealed segments whose every record is durable."""
        for segment in [s for s in self._unindexed if s.last <= self.durable_index]:
            self._unindexed.remove(segment)
            self._indexing.append(segment)
            self._after.append(index_step(self._home, segment))

    def _adopt_indexes(self) -> None:
        """Replace indexes in memory by their files once these are written."""
        for segment in self._indexing_out:
            if segment.sealed and isinstance(segment.index, GrowingIndex):
                adopt_index(self._home, segment)
        self._indexing_out = []


def index_step(home: LogDirectory, segment: Segment) -> Step:
    """A step that writes the side index of a sealed segment."""
    index, name = growing(segment), segment.index_name
    number, last, chain = segment.header.number, segment.last, segment.chain
    terms = segment.terms

    def step() -> None:
        buffers = encode_index(index, number=number, last=last, chain=chain, terms=terms)
        write_index(home.disk, home.path(name), buffers)

    return step


def adopt_index(home: LogDirectory, segment: Segment) -> bool:
    """Use the side index file instead of the index in memory, if it is there and fits."""
    found = load_index(home.files, home.pages, segment.index_name)
    if found is None:
        return False
    header, index = found
    fits = (
        header.number == segment.header.number
        and header.end == segment.end
        and header.last == segment.last
        and header.chain == segment.chain
    )
    if fits:
        segment.index = index
    return fits
