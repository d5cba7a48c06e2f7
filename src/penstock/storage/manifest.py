"""The manifest: which files make up the log. A file that is not in it is not part of the log.

Every change of more than one file becomes a change of this one: a new segment, a rewrite, a
removal, a snapshot, an installation. New files are written and synced under names never used
before; then the manifest that names them replaces the old one in a single rename; then the old
files are removed. A crash leaves the old set or the new set, and leftovers, which the next start
removes. And a file that was deleted, cut, or put back from an old copy is noticed, since the
manifest says what each must be. What compaction must not forget stands here too, since it is true
of exactly these files.

Two copies are kept, `manifest` (the truth, by rename) and `manifest.copy` (overwritten after it),
so a rotten byte in one costs nothing. The copy can lag by one change, but only if the process died
between the two, and then the first is whole.
"""

from collections.abc import Mapping

import msgspec

from penstock.core.entries import SnapshotMark
from penstock.core.types import NO_INDEX, Index, Offset, PartitionId
from penstock.storage.disk import Disk
from penstock.storage.envelope import read_whole, replace_whole, seal, sealed_format, unseal
from penstock.storage.identity import FORMAT, Identity, check_format
from penstock.storage.names import index_name, segment_name, snapshot_name

MANIFEST_NAME = "manifest"
MANIFEST_COPY_NAME = "manifest.copy"


class SegmentRow(msgspec.Struct, frozen=True):
    """A sealed segment: what its file must be."""

    number: int
    base: Index
    last: Index
    end: int
    chain: int
    sparse: bool


class SnapshotRow(msgspec.Struct, frozen=True):
    """The newest snapshot."""

    number: int
    mark: SnapshotMark

    @property
    def name(self) -> str:
        return snapshot_name(self.mark.index, self.number)


class ActiveRow(msgspec.Struct, frozen=True):
    """The segment that is being written."""

    number: int
    base: Index


class CompactionRow(msgspec.Struct, frozen=True):
    """The state of compaction that must survive a restart."""

    cleaned: Mapping[PartitionId, Offset] = {}
    """The offset up to which each partition is compacted."""
    erased_through: Index = NO_INDEX
    """No tombstone after this entry has been dropped."""


class Manifest(msgspec.Struct, frozen=True):
    """The content of the manifest file."""

    generation: int
    identity: Identity
    next_number: int
    segments: list[SegmentRow]
    active: ActiveRow
    snapshot: SnapshotRow | None = None
    compaction: CompactionRow | msgspec.UnsetType = msgspec.UNSET
    """Left out where nothing was ever compacted."""
    format: int = FORMAT


def load_manifest(disk: Disk, directory: str) -> Manifest | None:
    """The newer of the two copies that is whole; None if neither is."""
    found: list[Manifest] = []
    for name in (MANIFEST_NAME, MANIFEST_COPY_NAME):
        path = f"{directory}/{name}"
        data = read_whole(disk, path)
        if data is None:
            continue
        check_format(path, sealed_format(data) or 0)
        manifest = unseal(data, Manifest)
        if manifest is not None:
            found.append(manifest)
    return max(found, key=lambda manifest: manifest.generation, default=None)


def store_manifest(disk: Disk, directory: str, manifest: Manifest) -> None:
    """Make it the durable truth; this is the moment at which a change of the log happens."""
    data = seal(manifest)
    replace_whole(disk, f"{directory}/{MANIFEST_NAME}", data)
    _overwrite_copy(disk, directory, data)


def copy_manifest(disk: Disk, directory: str, manifest: Manifest) -> None:
    """Put back whichever copy is not what it should be."""
    data = seal(manifest)
    if read_whole(disk, f"{directory}/{MANIFEST_NAME}") != data:
        replace_whole(disk, f"{directory}/{MANIFEST_NAME}", data)
    if read_whole(disk, f"{directory}/{MANIFEST_COPY_NAME}") != data:
        _overwrite_copy(disk, directory, data)


def _overwrite_copy(disk: Disk, directory: str, data: bytes) -> None:
    # In place: a crash may tear the copy, but then the first is whole and the next start copies it.
    # Synced: an old copy that came back after a crash must never stand in for a rotten first.
    file = disk.open(f"{directory}/{MANIFEST_COPY_NAME}", create=True)
    try:
        file.truncate(0)
        file.write(0, [data])
        file.sync()
    finally:
        file.close()


def named_files(manifest: Manifest) -> set[str]:
    """Every file that belongs to the log, side indexes included."""
    names = {segment_name(row.base, row.number) for row in manifest.segments}
    names.add(segment_name(manifest.active.base, manifest.active.number))
    names |= {index_name(name) for name in names}
    if manifest.snapshot is not None:
        names.add(manifest.snapshot.name)
    return names
