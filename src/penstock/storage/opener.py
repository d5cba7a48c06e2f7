"""Making a new log, and bringing an existing one into memory.

The order on opening: lock; identity; vote, marker and manifest; segments and snapshot (`recovery`);
then either everything is as promised and what a crash left behind is settled, or damage is
declared, before a single file is changed.
"""

import os
from dataclasses import dataclass, replace

import msgspec

from penstock.core.entries import HardState
from penstock.core.errors import DiskFull, ForeignDirectory
from penstock.core.types import NO_INDEX, NO_TERM, Index
from penstock.storage.ballast import BALLAST_NAME, Ballast
from penstock.storage.directory import (
    BROKEN_SUFFIX,
    DAMAGED_SUFFIX,
    LOCK_NAME,
    LogDirectory,
    damaged_file,
)
from penstock.storage.disk import Disk
from penstock.storage.envelope import ASIDE, read_whole, replace_whole, seal, sealed_format, unseal
from penstock.storage.identity import (
    FORMAT,
    IDENTITY_NAME,
    StoredIdentity,
    check_format,
    check_identity,
)
from penstock.storage.index import GrowingIndex
from penstock.storage.manifest import (
    MANIFEST_COPY_NAME,
    MANIFEST_NAME,
    ActiveRow,
    Manifest,
    copy_manifest,
    load_manifest,
    named_files,
)
from penstock.storage.marker import MARKER_NAME, Marker, MarkerFile
from penstock.storage.names import INDEX_SUFFIX, SEGMENT_SUFFIX, SNAPSHOT_SUFFIX, number_in
from penstock.storage.quarantine import (
    QUARANTINE_NAME,
    Quarantine,
    load_quarantine,
    store_quarantine,
)
from penstock.storage.recovery import (
    Damage,
    Recovery,
    cut_torn_tail,
    scan_into,
    settle_active,
)
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment
from penstock.storage.vote import VOTE_COPY_NAME, VOTE_NAME, VOTE_NAMES, VoteFile, lost_vote

_FIXED_NAMES = {
    BALLAST_NAME,
    IDENTITY_NAME,
    LOCK_NAME,
    MANIFEST_COPY_NAME,
    MANIFEST_NAME,
    MARKER_NAME,
    QUARANTINE_NAME,
    VOTE_COPY_NAME,
    VOTE_NAME,
    "lost+found",  # at the root of a file system of its own
}
_SUFFIXES = (SEGMENT_SUFFIX, INDEX_SUFFIX, SNAPSHOT_SUFFIX, ASIDE, BROKEN_SUFFIX, DAMAGED_SUFFIX)


@dataclass(slots=True)
class OpenedLog:
    """Everything a `ShardLog` starts from."""

    vote: VoteFile
    marker: MarkerFile
    hard_state: HardState
    segments: list[Segment]
    """In a quarantined log: those that are trusted wholly, without an active one."""
    suspects: list[Segment]
    """In a quarantined log: those that reach beyond what is trusted."""
    manifest: Manifest
    quarantine: Quarantine | None
    committed: Index
    full: bool
    torn_bytes: int
    first_damage: Damage | None


def open_directory(home: LogDirectory, ballast: Ballast, *, verify_all: bool) -> OpenedLog:
    """Open the log in a directory that is locked, making it if there is none."""
    names = home.disk.list(home.root)
    made = not {IDENTITY_NAME, MANIFEST_NAME, MANIFEST_COPY_NAME} & set(names)
    if made:
        _check_fresh(home, names)
        _create(home)
    _check_identity(home)
    return _Opening(home, ballast, made=made, verify_all=verify_all).run()


def make_directory(disk: Disk, path: str) -> None:
    """Make a directory and missing parents, and make their names durable."""
    missing = []
    parent = path
    while parent and not disk.exists(parent):
        missing.append(parent)
        parent = os.path.dirname(parent)
    disk.make_directory(path)
    for made in reversed(missing):
        disk.sync_directory(os.path.dirname(made) or ".")


# Making.


def _check_fresh(home: LogDirectory, names: list[str]) -> None:
    """Check that a directory without a log is empty, or that the log did not lose its first
    files."""
    for name in names:
        if name not in _FIXED_NAMES and not name.endswith(_SUFFIXES):
            raise ForeignDirectory(
                f"{home.root} is not empty and is not a Penstock log (it holds {name!r}); "
                "give the log a directory of its own"
            )
    # A making that was cut short leaves an empty first segment and no promise. More is a loss.
    vote = None
    if any(name in names for name in VOTE_NAMES):
        file = VoteFile(home.disk, home.root)
        vote = file.load()
        file.close()
    logs = [name for name in names if name.endswith(SEGMENT_SUFFIX)]
    used = any(home.files.get(name).read(SEGMENT_HEADER_BYTES, 4096).strip(b"\0") for name in logs)
    home.files.close()
    if len(logs) > 1 or used or (vote and vote != HardState()):
        raise damaged_file(
            home.root, home.path(MANIFEST_NAME), 0, "identity and manifest are missing", solo=True
        )
    home.remove([name for name in names if name not in (LOCK_NAME, "lost+found")])


def _create(home: LogDirectory) -> None:
    """Make an empty log. The manifest is the commit point; the identity can be restored from it."""
    disk = home.disk
    vote = VoteFile(disk, home.root)
    vote.write(HardState())
    vote.close()
    marker = MarkerFile(disk, home.path(MARKER_NAME), create=True)
    marker.make(Marker(NO_INDEX, NO_INDEX))
    marker.close()
    header = home.new_header(base=Index(1), previous_term=NO_TERM, previous_chain=0)
    file = disk.open(home.path(header.name), create=True)
    try:
        file.allocate(home.settings.segment_bytes)
        file.write(0, [header.encode()])
        file.sync()
    finally:
        file.close()
    disk.sync_directory(home.root)
    home.store_manifest(
        Manifest(
            generation=1,
            identity=home.identity,
            next_number=home.next_number,
            segments=[],
            active=ActiveRow(number=header.number, base=header.base),
        )
    )


def _check_identity(home: LogDirectory) -> None:
    """Refuse another's log; put a lost identity back from the manifest."""
    path = home.path(IDENTITY_NAME)
    data = read_whole(home.disk, path)
    if data is not None:
        check_format(path, sealed_format(data) or 0)
        stored = unseal(data, StoredIdentity)
        if stored is not None:
            check_identity(path, stored, home.identity)
            return
    manifest = load_manifest(home.disk, home.root)
    if manifest is None:
        raise damaged_file(home.root, path, 0, "identity and manifest are unreadable", solo=True)
    stored = StoredIdentity(format=FORMAT, identity=manifest.identity)
    check_identity(home.path(MANIFEST_NAME), stored, home.identity)
    replace_whole(home.disk, path, seal(stored))


# Opening.


class _Opening:
    """The state of one opening."""

    def __init__(
        self, home: LogDirectory, ballast: Ballast, *, made: bool, verify_all: bool
    ) -> None:
        """`made`: a moment ago, by this process, which synced all of it."""
        self._home = home
        self._ballast = ballast
        self._made = made
        self._verify_all = verify_all
        self._damages: list[Damage] = []

    def run(self) -> OpenedLog:
        vote, hard_state = self._load_vote()
        marker_file, marker = self._load_marker()
        try:
            return self._run(vote, hard_state, marker_file, marker)
        except BaseException:
            vote.close()
            marker_file.close()
            raise

    def _run(
        self, vote: VoteFile, hard_state: HardState, marker_file: MarkerFile, marker: Marker
    ) -> OpenedLog:
        home = self._home
        manifest = self._load_manifest()
        recovery = Recovery(home, manifest, verify_all=self._verify_all)
        if manifest.generation:
            recovery.examine(marker)
        last = recovery.segments[-1].last if recovery.segments else NO_INDEX
        self._damages = [_with_good(damage, last) for damage in self._damages]
        self._damages += recovery.damages
        if not self._damages and recovery.segments[-1].last_term > hard_state.term:
            problem = f"term {hard_state.term} is older than the log's: an old copy was put back"
            raise lost_vote(home.root, problem, solo=home.solo)
        known = load_quarantine(home.disk, home.root)
        home.generation = manifest.generation
        home.next_number = max(manifest.next_number, _highest_number(home) + 1)
        home.compaction = manifest.compaction
        opened = OpenedLog(
            vote=vote,
            marker=marker_file,
            hard_state=hard_state,
            segments=recovery.segments,
            suspects=[],
            manifest=manifest,
            quarantine=None,
            committed=min(max(marker.committed, _mark(manifest)), last),
            full=False,
            torn_bytes=0,
            first_damage=self._damages[0] if self._damages else None,
        )
        if self._damages or (known is not None and not known.repaired):
            self._quarantine(opened, known)
        else:
            self._settle(opened, recovery, marker, known)
        return opened

    def _load_vote(self) -> tuple[VoteFile, HardState]:
        home = self._home
        file = VoteFile(home.disk, home.root)
        hard_state = file.load()
        if hard_state is None:
            file.close()
            raise lost_vote(home.root, "both copies of the vote are lost", solo=home.solo)
        return file, hard_state

    def _load_marker(self) -> tuple[MarkerFile, Marker]:
        path = self._home.path(MARKER_NAME)
        missing = not self._home.disk.exists(path)
        file = MarkerFile(self._home.disk, path, create=True)
        marker = file.load()
        if marker is None:
            problem = "the file is missing" if missing else "both slots are damaged"
            self._damages.append(Damage(MARKER_NAME, 0, problem, _ALL))
        return file, marker or Marker(NO_INDEX, NO_INDEX)

    def _load_manifest(self) -> Manifest:
        """The manifest; one of generation 0 if both copies are lost."""
        manifest = load_manifest(self._home.disk, self._home.root)
        if manifest is not None:
            return manifest
        self._damages.append(Damage(MANIFEST_NAME, 0, "both copies are damaged", NO_INDEX))
        return Manifest(
            generation=0,
            identity=self._home.identity,
            next_number=1,
            segments=[],
            active=ActiveRow(number=0, base=Index(1)),
        )

    def _settle(
        self, opened: OpenedLog, recovery: Recovery, marker: Marker, known: Quarantine | None
    ) -> None:
        """Everything is as promised: clear up after the last process and make it durable."""
        if not self._made:
            self._settle_after_another(opened, recovery, marker)
        try:
            self._ballast.make()
        except DiskFull:
            opened.full = True
        if known is not None:
            trusted = min(opened.segments[-1].last, opened.committed)
            opened.quarantine = msgspec.structs.replace(known, trusted_index=trusted)

    def _settle_after_another(self, opened: OpenedLog, recovery: Recovery, marker: Marker) -> None:
        """Write everything durably anew: it is unknown what the previous process had synced."""
        home = self._home
        active = opened.segments[-1]
        home.disk.sync_directory(home.root)
        if recovery.torn is not None:
            _remove_matching(home, BROKEN_SUFFIX)
            segment, start, end = recovery.torn
            cut_torn_tail(home, segment, start, end)
            opened.torn_bytes = end - start
        try:
            settle_active(home, active, marker.durable)
        except DiskFull:
            self._ballast.release()
            opened.full = True
            settle_active(home, active, marker.durable)
        opened.vote.write(opened.hard_state)
        opened.marker.write(Marker(active.last, opened.committed))
        copy_manifest(home.disk, home.root, opened.manifest)
        _sweep(home, opened.manifest)
        home.disk.sync_directory(home.root)

    def _quarantine(self, opened: OpenedLog, known: Quarantine | None) -> None:
        """A promise was broken: say so durably before anything is changed."""
        home = self._home
        found = self._damages[0] if self._damages else None
        if home.solo:
            if found is not None:
                raise home.damaged(found.name, found.position, found.problem)
            assert known is not None, "a quarantine without damage"
            raise damaged_file(home.root, known.file, known.position, known.reason, solo=True)
        trusted = min([opened.committed, *(damage.good_through for damage in self._damages)])
        if known is not None and not known.repaired:
            trusted = min(trusted, known.trusted_index)
        damaged = {damage.name for damage in self._damages}
        reaching = [s for s in opened.segments if s.last > trusted or s.name in damaged]
        opened.suspects = [s for s in reaching if s.base <= trusted]
        for segment in opened.suspects:
            trusted = min(trusted, _verified_through(home, segment, trusted))
        opened.segments = [s for s in opened.segments if s not in reaching]
        if known is None or known.repaired:
            assert found is not None, "a quarantine without damage"
            known = Quarantine(
                reason=found.problem,
                file=home.path(found.name),
                position=found.position,
                trusted_index=trusted,
            )
        opened.quarantine = msgspec.structs.replace(known, trusted_index=trusted)
        opened.committed = min(opened.committed, trusted)
        store_quarantine(home.disk, home.root, opened.quarantine)
        self._replace_small_files(opened, damaged)

    def _replace_small_files(self, opened: OpenedLog, damaged: set[str]) -> None:
        """Mend the vote's copies, and replace a lost marker: the quarantine speaks for it."""
        home = self._home
        opened.vote.write(opened.hard_state)
        if MARKER_NAME in damaged:
            opened.marker.write(Marker(NO_INDEX, opened.committed))
        home.disk.sync_directory(home.root)


_ALL = Index((1 << 63) - 1)


def _with_good(damage: Damage, last: Index) -> Damage:
    return replace(damage, good_through=min(damage.good_through, last))


def _mark(manifest: Manifest) -> Index:
    return manifest.snapshot.mark.index if manifest.snapshot else NO_INDEX


def _verified_through(home: LogDirectory, segment: Segment, trusted: Index) -> Index:
    """The last entry, up to `trusted`, through which a segment that will be copied in part is
    intact.

    Its index is made anew in memory, of what is whole, so that nothing else of it is needed."""
    fresh = Segment(segment.header, index=GrowingIndex(segment.base), capacity=0)
    scan = scan_into(fresh, segment.scan(home.files.get(segment.name)))
    segment.index = fresh.index
    return trusted if scan.position == segment.end else min(trusted, scan.last)


def _highest_number(home: LogDirectory) -> int:
    """The highest number in a file name, so that none is ever used twice."""
    return max((number_in(name) or 0 for name in home.disk.list(home.root)), default=0)


def _remove_matching(home: LogDirectory, suffix: str) -> None:
    home.remove([name for name in home.disk.list(home.root) if name.endswith(suffix)])


def _sweep(home: LogDirectory, manifest: Manifest) -> None:
    """Remove what no manifest names: leftovers of changes that did not happen, or were complete."""
    keep = named_files(manifest)
    gone = [
        name
        for name in home.disk.list(home.root)
        if name not in keep
        and name.endswith((SEGMENT_SUFFIX, INDEX_SUFFIX, SNAPSHOT_SUFFIX, ASIDE))
    ]
    home.remove(gone)
