"""For people: what is in a log's directory, is it whole, and the way out when the only copy is not.

`describe_directory` and `verify_directory` change nothing. `repair_directory` is never called by a
program on its own: it gives up what cannot be read, keeps every file it replaces under another
name, and says what was lost. In a cluster it is not needed: a damaged replica repairs itself from
the leader.

What a repair keeps, with S the index of the snapshot:

- Above S the log must have no gap: it is cut before the first entry that cannot be read.
- At or below S there is only data, and a gap costs no more than the messages in it: of each damaged
  segment the part before the damage stays.
- Without its snapshot a log is worth something only if it still begins with entry 1.
"""

from dataclasses import dataclass, field

from penstock.core.entries import HardState
from penstock.core.errors import DirectoryRefused, DiskFailed
from penstock.core.types import NO_INDEX, NO_NODE, NO_TERM, Index, Term
from penstock.storage.copier import copy_records
from penstock.storage.directory import DAMAGED_SUFFIX, LOCK_NAME, LogDirectory
from penstock.storage.disk import Disk, Lock
from penstock.storage.envelope import read_whole, replace_whole, seal, sealed_format, unseal
from penstock.storage.identity import (
    FORMAT,
    IDENTITY_NAME,
    Identity,
    StoredIdentity,
    check_format,
)
from penstock.storage.index import GrowingIndex
from penstock.storage.manifest import (
    MANIFEST_NAME,
    ActiveRow,
    Manifest,
    SegmentRow,
    SnapshotRow,
    load_manifest,
    named_files,
)
from penstock.storage.marker import MARKER_NAME, Marker, MarkerFile
from penstock.storage.names import INDEX_SUFFIX, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX, number_in
from penstock.storage.quarantine import QUARANTINE_NAME, lift_quarantine, load_quarantine
from penstock.storage.record import chain_seed
from penstock.storage.recovery import Damage, Recovery, scan_into
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, decode_segment_header
from penstock.storage.segments import SegmentList
from penstock.storage.settings import LogSettings
from penstock.storage.snapshot import find_snapshot_damage, read_layout
from penstock.storage.vote import VOTE_NAME, VOTE_NAMES, VoteFile, read_vote


@dataclass(frozen=True, slots=True)
class FileDescription:
    """A file of a log, as a row of a table."""

    name: str
    kind: str
    size_bytes: int
    facts: str


@dataclass(frozen=True, slots=True)
class Finding:
    """Something that is not as promised."""

    path: str
    position: int
    problem: str


@dataclass(slots=True)
class RepairReport:
    """The findings of a repair, and what it kept and gave up."""

    findings: list[Finding] = field(default_factory=list)
    kept_through: Index = NO_INDEX
    lost: list[tuple[Index, Index]] = field(default_factory=list)
    """Ranges of entries, first and last, of which some or all could not be kept."""
    set_aside: list[str] = field(default_factory=list)
    """Files that were replaced, under the names they have now."""

    def describe(self) -> list[str]:
        """The report, a line for each fact."""
        if not self.findings:
            return ["nothing is damaged, nothing was changed"]
        lines = [f"damaged: {f.path} at byte {f.position}: {f.problem}" for f in self.findings]
        lines += [f"lost: entries {first} to {last}" for first, last in self.lost]
        lines += [f"set aside: {path}" for path in self.set_aside]
        return [*lines, f"the log now ends with entry {self.kept_through}"]


def describe_directory(disk: Disk, directory: str) -> list[FileDescription]:
    """Every file of the log and what it says of itself; may be used while the log is open."""
    home = _home(disk, directory, directory_identity(disk, directory))
    manifest = load_manifest(disk, directory)
    named = named_files(manifest) if manifest else set()
    rows = []
    try:
        for name in disk.list(directory):
            try:
                rows.append(_describe(home, name, manifest, named=name in named))
            except DiskFailed:
                if disk.exists(home.path(name)):
                    raise
                # The log is open, and its process has just removed or replaced this file.
    finally:
        home.files.close()
    return rows


def verify_directory(disk: Disk, directory: str) -> list[Finding]:
    """Read everything; the log must not be open. An empty list: all is as promised."""
    with _Examination(disk, directory) as examination:
        return examination.findings


def repair_directory(
    disk: Disk, directory: str, *, settings: LogSettings | None = None
) -> RepairReport:
    """Make a damaged log usable again by giving up what cannot be read."""
    with _Examination(disk, directory, settings) as examination:
        report = RepairReport(findings=examination.findings)
        if examination.findings:
            _Repair(examination, report).run()
        return report


class _Examination:
    """A locked directory, read from end to end."""

    def __init__(self, disk: Disk, directory: str, settings: LogSettings | None = None) -> None:
        self.home = _home(disk, directory, directory_identity(disk, directory), settings)
        self._lock: Lock = disk.lock(self.home.path(LOCK_NAME))
        damages: list[Damage] = []
        self.hard_state = read_vote(self.home.disk, self.home.root)
        if self.hard_state is None:
            damages.append(Damage(VOTE_NAME, 0, "both copies are lost", NO_INDEX))
        marker = _load_marker(self.home)
        if marker is None:
            damages.append(Damage(MARKER_NAME, 0, "both copies are lost", NO_INDEX))
        self.marker = marker or Marker(NO_INDEX, NO_INDEX)
        manifest = load_manifest(disk, directory)
        if manifest is None:
            damages.append(Damage(MANIFEST_NAME, 0, "both copies are damaged", NO_INDEX))
            manifest = _guess_manifest(self.home)
        self.manifest = manifest
        recovery = Recovery(self.home, manifest, verify_all=True, write_indexes=False)
        recovery.examine(self.marker)
        self.segments = recovery.segments
        damages += recovery.damages
        last_term = self.segments[-1].last_term if self.segments else NO_TERM
        if self.hard_state is not None and last_term > self.hard_state.term:
            damages.append(Damage(VOTE_NAME, 0, "its term is older than the log's", NO_INDEX))
            self.hard_state = None
        self.damages = damages
        self.findings = [Finding(self.home.path(d.name), d.position, d.problem) for d in damages]
        known = load_quarantine(disk, directory)
        if known is not None and not known.repaired:
            self.findings.append(Finding(known.file, known.position, known.reason))

    def __enter__(self) -> "_Examination":
        return self

    def __exit__(self, *_: object) -> None:
        self.home.files.close()
        self._lock.release()


class _Repair:
    """Keeps the undamaged part of a log."""

    def __init__(self, examination: _Examination, report: RepairReport) -> None:
        self._home = examination.home
        self._examination = examination
        self._report = report
        self._damaged = {damage.name for damage in examination.damages}
        self._rows = {segment.base: segment for segment in examination.segments}

    def run(self) -> None:
        home, examination = self._home, self._examination
        manifest = examination.manifest
        home.generation = manifest.generation
        home.compaction = manifest.compaction
        home.note_compaction(cleaned={})
        numbers = [number_in(name) or 0 for name in home.disk.list(home.root)]
        home.next_number = max([manifest.next_number, *(number + 1 for number in numbers)])
        row = manifest.snapshot
        if row is not None and row.name in self._damaged:
            row = None
        self._check_beginning(row)
        kept, last, chain, term = self._keep(row.mark.index if row else NO_INDEX)
        header = home.new_header(base=Index(last + 1), previous_term=term, previous_chain=chain)
        self._make(header.name, header.encode())
        active = Segment(header, index=GrowingIndex(header.base), capacity=0)
        new = SegmentList([*kept, active]).manifest(home, row)
        self._set_small_files(last, term)
        home.store_manifest(new)
        self._set_aside(new)
        lift_quarantine(home.disk, home.root)
        self._report.kept_through = last

    def _check_beginning(self, row: SnapshotRow | None) -> None:
        segments = self._examination.segments
        if row is None and (not segments or segments[0].base != 1):
            if self._examination.manifest.snapshot is None and not segments:
                return
            raise DirectoryRefused(
                f"{self._home.root} cannot be repaired: the snapshot is lost and the log does not "
                "begin with entry 1; restore it from a backup"
            )

    def _keep(self, mark: Index) -> tuple[list[Segment], Index, int, Term]:
        """Segments to keep, the last index, and the chain and term there."""
        kept: list[Segment] = []
        snapshot = self._examination.manifest.snapshot
        last, whole = mark, True
        chain = chain_seed(mark, snapshot.mark.term) if snapshot and mark else 0
        term = snapshot.mark.term if snapshot and mark else NO_TERM
        for segment in self._examination.segments:
            if segment.last < segment.base:
                continue
            if segment.last > mark and (not whole or segment.base > last + 1):
                break
            intact = self._as_kept(segment)
            kept.append(intact)
            if segment.last >= mark and not segment.sparse:
                last, chain, term = intact.last, intact.chain, intact.last_term
            if segment.name in self._damaged and segment.last >= mark:
                whole = False
        self._note_losses(kept, last)
        return kept, last, chain, term

    def _as_kept(self, segment: Segment) -> Segment:
        """The segment itself, or a copy of the part before the damage."""
        if segment.sealed and segment.name not in self._damaged:
            return segment
        copy = copy_records(
            self._home,
            segment,
            end=segment.end,
            number=self._home.take_number(),
            sparse=segment.sparse,
            keep=lambda _: True,
        )
        assert copy is not None, f"{segment.name} has records and none was copied"
        return copy

    def _note_losses(self, kept: list[Segment], last: Index) -> None:
        have = {segment.base: segment.last for segment in kept}
        promised = max(self._examination.marker.durable, self._examination.marker.committed)
        for row in self._examination.manifest.segments:
            through = have.get(row.base, Index(row.base - 1))
            if through < row.last:
                self._report.lost.append((Index(through + 1), row.last))
        ends = [*(end for _, end in self._report.lost), last]
        if promised > max(ends):
            self._report.lost.append((Index(max(ends) + 1), promised))

    def _make(self, name: str, content: bytes) -> None:
        file = self._home.disk.open(self._home.path(name), create=True)
        try:
            file.truncate(0)
            file.write(0, [content])
            file.sync()
        finally:
            file.close()
        self._home.disk.sync_directory(self._home.root)

    def _set_small_files(self, last: Index, term: Term) -> None:
        disk, home = self._home.disk, self._home
        hard_state = self._examination.hard_state
        if hard_state is None:
            # The vote is lost: a term without any vote yet makes it worthless.
            hard_state = HardState(Term(term + 1), NO_NODE)
        vote = VoteFile(disk, home.root)
        vote.write(hard_state)
        vote.close()
        marker = MarkerFile(disk, home.path(MARKER_NAME), create=True)
        marker.write(Marker(last, min(self._examination.marker.committed, last)))
        marker.close()
        identity = StoredIdentity(format=FORMAT, identity=home.identity)
        replace_whole(disk, home.path(IDENTITY_NAME), seal(identity))

    def _set_aside(self, manifest: Manifest) -> None:
        keep = named_files(manifest)
        for name in self._home.disk.list(self._home.root):
            path = self._home.path(name)
            if name in keep or not name.endswith((SEGMENT_SUFFIX, SNAPSHOT_SUFFIX, INDEX_SUFFIX)):
                continue
            if name.endswith(INDEX_SUFFIX):
                self._home.disk.remove(path)
            else:
                self._home.disk.rename(path, path + DAMAGED_SUFFIX)
                self._report.set_aside.append(path + DAMAGED_SUFFIX)
        self._home.disk.sync_directory(self._home.root)


# Reading without opening.


def _home(
    disk: Disk, directory: str, identity: Identity, settings: LogSettings | None = None
) -> LogDirectory:
    return LogDirectory(
        disk, directory, identity=identity, settings=settings or LogSettings(), solo=True
    )


def directory_identity(disk: Disk, directory: str) -> Identity:
    """The identity of a log, from the identity file or the manifest."""
    path = f"{directory}/{IDENTITY_NAME}"
    data = read_whole(disk, path)
    if data is not None:
        check_format(path, sealed_format(data) or 0)
    stored = unseal(data, StoredIdentity) if data is not None else None
    if stored is not None:
        return stored.identity
    manifest = load_manifest(disk, directory)
    if manifest is None:
        raise DirectoryRefused(
            f"{directory} holds no Penstock log, or both its identity and its manifest are lost; "
            "check the path, or restore it from a backup"
        )
    return manifest.identity


def _load_marker(home: LogDirectory) -> Marker | None:
    if not home.disk.exists(home.path(MARKER_NAME)):
        return None
    marker = MarkerFile(home.disk, home.path(MARKER_NAME))
    marker.close()
    return marker.load()


def _guess_manifest(home: LogDirectory) -> Manifest:
    """The manifest that fits what is in the directory: of files that overlap, the newer ones."""
    segments: list[Segment] = []
    for name in home.disk.list(home.root):
        if not name.endswith(SEGMENT_SUFFIX):
            continue
        file = home.files.get(name)
        header = decode_segment_header(file.read(0, SEGMENT_HEADER_BYTES))
        if header is None or header.name != name or not header.belongs_to(home.identity):
            continue
        segment = Segment(header, index=GrowingIndex(header.base), capacity=0)
        scan_into(segment, segment.scan(file, end=file.size()))
        segments.append(segment)
    chosen: list[Segment] = []
    for segment in sorted(segments, key=lambda s: s.header.number, reverse=True):
        if all(segment.last < other.base or other.last < segment.base for other in chosen):
            chosen.append(segment)
    chosen.sort(key=lambda segment: segment.base)
    rows = [
        SegmentRow(
            number=segment.header.number,
            base=segment.base,
            last=segment.last,
            end=segment.end,
            chain=segment.chain,
            sparse=segment.sparse,
        )
        for segment in chosen[:-1]
    ]
    last = chosen[-1].header if chosen else None
    return Manifest(
        generation=1,
        identity=home.identity,
        next_number=1,
        segments=rows,
        active=ActiveRow(number=last.number if last else 0, base=last.base if last else Index(1)),
        snapshot=_guess_snapshot(home),
    )


def _guess_snapshot(home: LogDirectory) -> SnapshotRow | None:
    """The newest snapshot that is whole."""
    for name in reversed(home.disk.list(home.root)):
        if name.endswith(SNAPSHOT_SUFFIX):
            file = home.files.get(name)
            layout = read_layout(file)
            if layout is not None and find_snapshot_damage(file, layout.mark) is None:
                return SnapshotRow(number=number_in(name) or 0, mark=layout.mark)
    return None


def _describe(
    home: LogDirectory, name: str, manifest: Manifest | None, *, named: bool
) -> FileDescription:
    file = home.files.get(name)
    size = file.size()
    stray = "" if named else "not part of the log"
    if name.endswith(SEGMENT_SUFFIX):
        facts = _describe_segment(name, manifest) if named and manifest else stray
        return FileDescription(name, "segment", size, facts)
    if name.endswith(INDEX_SUFFIX):
        return FileDescription(name, "side index", size, stray)
    if name.endswith(SNAPSHOT_SUFFIX):
        layout = read_layout(file)
        facts = f"state at {layout.mark.index}, {layout.length} bytes" if layout else "unreadable"
        return FileDescription(name, "snapshot", size, stray or facts)
    return FileDescription(name, *_describe_small(home, name, size))


def _describe_segment(name: str, manifest: Manifest) -> str:
    number = number_in(name)
    for row in manifest.segments:
        if row.number == number:
            gaps = ", with gaps" if row.sparse else ""
            return f"sealed, entries {row.base} to {row.last}{gaps}"
    return f"active, from entry {manifest.active.base}"


def _describe_small(home: LogDirectory, name: str, size: int) -> tuple[str, int, str]:
    if name in VOTE_NAMES:
        state = read_vote(home.disk, home.root)
        return "vote", size, f"term {state.term}, vote {state.vote}" if state else "unreadable"
    if name == MARKER_NAME:
        marker = _load_marker(home)
        facts = (
            f"durable {marker.durable}, committed {marker.committed}" if marker else "unreadable"
        )
        return "marker", size, facts
    if name == IDENTITY_NAME:
        return "identity", size, home.identity.describe()
    if name == QUARANTINE_NAME:
        known = load_quarantine(home.disk, home.root)
        return "quarantine", size, known.describe() if known else ""
    return "other", size, ""
