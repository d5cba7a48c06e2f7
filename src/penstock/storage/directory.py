"""The directory of one shard's log: its files, and the state that its parts share.

LOCK                              held while a process has the log open
identity                          whose log this is
manifest, manifest.copy           which of the files below make up the log
vote                              term and vote, two slots
marker                            durable and committed index, two slots
<base>-<number>.log               segments: records in order of index
<base>-<number>.index             side indexes of sealed segments: caches
snapshot-<index>-<number>.snap    the machines' state at an index
ballast                           space held back for a full disk
QUARANTINE                        present while the log is not to be believed
*.new                             unfinished, removed at the next start
*.broken                          the bytes of a torn tail that was cut off at a start
*.damaged                         files that were replaced by a repair, kept for people to look at
"""

from collections.abc import Callable, Mapping

from msgspec import UNSET, UnsetType

from penstock.core.errors import DamagedFile
from penstock.core.types import NO_INDEX, Index, Offset, PartitionId, Term
from penstock.storage.disk import Disk
from penstock.storage.files import Files, Pages
from penstock.storage.identity import Identity
from penstock.storage.manifest import CompactionRow, Manifest, store_manifest
from penstock.storage.names import number_in
from penstock.storage.segment import SegmentHeader
from penstock.storage.settings import LogSettings

LOCK_NAME = "LOCK"
BROKEN_SUFFIX = ".broken"
DAMAGED_SUFFIX = ".damaged"


class LogDirectory:
    """Names, open files and numbers of one log's directory."""

    def __init__(
        self, disk: Disk, path: str, *, identity: Identity, settings: LogSettings, solo: bool
    ) -> None:
        self.disk = disk
        self.root = path
        self.identity = identity
        self.settings = settings
        self.solo = solo
        self.files = Files(disk, path, count_max=settings.open_files_max)
        self.pages = Pages(self.files, bytes_max=settings.index_cache_bytes)
        self.next_number = 1
        """For the next file; only the loop counts it up."""
        self.generation = 0
        """The generation of the manifest; only the loop increments it."""
        self.borrowed: set[int] = set()
        """Numbers of files that a snapshot, reclaim or compaction job is making."""
        self.compaction: CompactionRow | UnsetType = UNSET
        """For every manifest from now on."""

    def path(self, name: str) -> str:
        return self.files.path(name)

    @property
    def cleaned(self) -> Mapping[PartitionId, Offset]:
        """The offset up to which each partition is compacted."""
        return self.compaction.cleaned if self.compaction is not UNSET else {}

    @property
    def erased_through(self) -> Index:
        """No tombstone after this entry has been dropped; see `compaction`."""
        return self.compaction.erased_through if self.compaction is not UNSET else NO_INDEX

    def note_compaction(
        self,
        *,
        cleaned: Mapping[PartitionId, Offset] | None = None,
        erased_through: Index = NO_INDEX,
    ) -> None:
        """On the loop: change what the next manifest says; it never forgets what was erased."""
        cleaned = self.cleaned if cleaned is None else cleaned
        erased_through = max(self.erased_through, erased_through)
        if cleaned or erased_through or self.compaction is not UNSET:
            self.compaction = CompactionRow(cleaned, erased_through)

    def take_number(self) -> int:
        number = self.next_number
        self.next_number += 1
        return number

    def sweepable(self) -> Callable[[str], bool]:
        """A test for names of files that no job is making now, or will make from now on."""
        borrowed, bound = frozenset(self.borrowed), self.next_number

        def test(name: str) -> bool:
            number = number_in(name)
            return number is None or (number < bound and number not in borrowed)

        return test

    def new_header(
        self, *, base: Index, previous_term: Term, previous_chain: int, sparse: bool = False
    ) -> SegmentHeader:
        """The header of a segment under a name never used before."""
        return SegmentHeader.make(
            self.identity,
            base=base,
            number=self.take_number(),
            previous_term=previous_term,
            previous_chain=previous_chain,
            sparse=sparse,
        )

    def store_manifest(self, manifest: Manifest) -> None:
        """A step: from here on this is the log."""
        store_manifest(self.disk, self.root, manifest)

    def remove(self, names: list[str]) -> None:
        """A step: remove files that no manifest names any more; a crash may leave some."""
        for name in names:
            if self.disk.exists(self.path(name)):
                self.disk.remove(self.path(name))

    def forget(self, names: list[str]) -> None:
        """On the loop: drop handles and cached pages of removed files."""
        for name in names:
            self.files.forget(name)
            self.pages.forget(name)

    def damaged(self, name: str, position: int, problem: str) -> DamagedFile:
        """The error for a file that is not what was written, with the way out."""
        return damaged_file(self.root, self.path(name), position, problem, solo=self.solo)


def damaged_file(
    directory: str, path: str, position: int, problem: str, *, solo: bool
) -> DamagedFile:
    """The error for a damaged file, with the way out: alone by hand, else from the leader."""
    way_out = (
        "It is the only copy: restore the directory from a backup, or run "
        f"`penstock log repair {directory}` to keep what is whole and see what was lost"
        if solo
        else "Restart this node: it will be repaired from the shard's leader"
    )
    return DamagedFile(path=path, position=position, problem=problem, way_out=way_out)
