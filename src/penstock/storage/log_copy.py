"""A copy of a shard's log up to one entry, from files that a node may be at work on.

Writes go on meanwhile, because of two rules that hold for every log (`manifest`). No
name of a file is used twice, and a change of several files happens in one rename of the manifest.
So a reader of a manifest that then has every file that it names open has one state of the log, all
of it, and keeps it: a file that is replaced or removed later is still readable to holders of
it. If one is gone before it was opened, the manifest has changed, and the next attempt succeeds.

    sealed segments     are copied byte by byte: they never change
    the snapshot        the same
    what comes last     is read record by record and copied up to the wanted entry, so the copy's
                        active segment ends where the copy ends
    vote, marker        are written anew: the term, no vote, and that all of it is committed
    side indexes        are left out: they are made again from the segments

The caller says up to which entry; it must be durable here and committed, or a leader that never was
could still cut it away. Without a word everything is taken that is whole: of a log that no node has
open, that is all it can have promised.

The copy is itself the directory of a log, whole and closed: what reads logs reads it.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass

import msgspec

from penstock.core.checksum import crc32c
from penstock.core.entries import HardState
from penstock.core.errors import DamagedFile, DirectoryRefused, DiskFailed, Unavailable
from penstock.core.types import NO_INDEX, NO_NODE, NO_TERM, Index, Term
from penstock.storage.disk import Disk, File
from penstock.storage.envelope import replace_whole, seal
from penstock.storage.identity import FORMAT, IDENTITY_NAME, StoredIdentity
from penstock.storage.index import GrowingIndex
from penstock.storage.manifest import (
    MANIFEST_NAME,
    ActiveRow,
    Manifest,
    SegmentRow,
    load_manifest,
    store_manifest,
)
from penstock.storage.marker import MARKER_NAME, Marker, MarkerFile
from penstock.storage.names import segment_name
from penstock.storage.opener import make_directory
from penstock.storage.quarantine import load_quarantine
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, decode_segment_header
from penstock.storage.vote import VoteFile, read_vote

_ATTEMPTS = 20
_CHUNK_BYTES = 4 << 20


class CopiedFile(msgspec.Struct, frozen=True, kw_only=True):
    """A file of a copy, with its size and checksum."""

    name: str
    size_bytes: int
    crc32c: int


@dataclass(frozen=True, slots=True, kw_only=True)
class _Piece:
    """A file to copy, from its beginning."""

    name: str
    size_bytes: int


class HeldLog:
    """The files that made up a log at one moment, held open. Close it."""

    def __init__(
        self, disk: Disk, directory: str, manifest: Manifest, files: dict[str, File]
    ) -> None:
        self.manifest = manifest
        self.directory = directory
        self._files = files
        self._disk = disk
        self.index = NO_INDEX
        """The last entry of the copy, once it is planned."""
        self.term = NO_TERM
        self._pieces: list[_Piece] = []
        self._rows: list[SegmentRow] = []
        self._active = manifest.active

    @property
    def size_bytes(self) -> int:
        """The number of bytes to be copied, once it is planned."""
        return sum(piece.size_bytes for piece in self._pieces)

    def close(self) -> None:
        """Release the files."""
        for file in self._files.values():
            file.close()

    def plan(self, through: Index | None) -> None:
        """Decide what is copied: everything up to this entry, or all there is.

        Raises `Unavailable` if the log's snapshot is already of a later entry: ask again."""
        row = self.manifest.snapshot
        mark = row.mark.index if row is not None else NO_INDEX
        if through is not None and through < mark:
            raise Unavailable(
                f"{self.directory} has a snapshot at {mark} already, {through} was wanted"
            )
        self.index, self.term = mark, row.mark.term if row is not None else NO_TERM
        if row is not None:
            self._pieces.append(_Piece(name=row.name, size_bytes=self._files[row.name].size()))
        following = self.manifest.segments
        for number, segment in enumerate(following):
            if through is not None and segment.last > through:
                self._end_in(segment.number, segment.base, segment.end, through)
                return
            self._rows.append(segment)
            name = segment_name(segment.base, segment.number)
            self._pieces.append(_Piece(name=name, size_bytes=segment.end))
            self.index = max(self.index, segment.last)
            if segment.last == self.index:
                self.term = self._last_term(following, number)
        active = self.manifest.active
        end = self._files[segment_name(active.base, active.number)].size()
        self._end_in(active.number, active.base, end, through)

    def _last_term(self, following: list[SegmentRow], number: int) -> Term:
        """The term of a segment's last entry: the header of what follows it says so."""
        later = [(row.number, row.base) for row in following[number + 1 :]]
        later.append((self.manifest.active.number, self.manifest.active.base))
        next_number, base = later[0]
        if base != following[number].last + 1:
            return self.term  # Data below the snapshot, whose mark has the term.
        return self._segment(next_number, base).header.previous_term

    def _end_in(self, number: int, base: Index, end: int, through: Index | None) -> None:
        """The copy ends somewhere in this segment, which becomes its active one."""
        segment = self._segment(number, base)
        scan = segment.scan(self._files[segment.name], end=end)
        for found in scan:
            if through is not None and found.header.index > through:
                break
            segment.note(
                found.header.index, found.header.term, found.header.size, found.header.chain
            )
        if segment.last >= segment.base:
            self.index, self.term = segment.last, segment.last_term
        if through is not None and self.index != through:
            raise DamagedFile(
                path=os.path.join(self.directory, segment.name),
                position=segment.end,
                problem=scan.problem or f"entry {through} is not there, the last is {self.index}",
                way_out="Take the backup from another node, and restart this one",
            )
        self._active = ActiveRow(number=number, base=base)
        self._pieces.append(_Piece(name=segment.name, size_bytes=segment.end))

    def _segment(self, number: int, base: Index) -> Segment:
        name = segment_name(base, number)
        header = decode_segment_header(self._files[name].read(0, SEGMENT_HEADER_BYTES))
        if header is None or header.name != name:
            raise DamagedFile(
                path=os.path.join(self.directory, name),
                position=0,
                problem="the segment's header is damaged",
                way_out="Take the backup from another node, and restart this one",
            )
        return Segment(header, index=GrowingIndex(base), capacity=0)

    def copy_to(
        self, target: Disk, directory: str, on_bytes: Callable[[int], None] = lambda _count: None
    ) -> list[CopiedFile]:
        """Make the copy, durably; what each of its files must be."""
        assert self._pieces, "a copy is planned before it is made"
        make_directory(target, directory)
        for piece in self._pieces:
            self._copy(piece, target, os.path.join(directory, piece.name), on_bytes)
        known = read_vote(self._disk, self.directory)
        term = max(self.term, known.term if known else NO_TERM)
        _write_vote(target, directory, HardState(term, NO_NODE))
        marker = MarkerFile(target, os.path.join(directory, MARKER_NAME), create=True)
        marker.write(Marker(self.index, self.index))
        marker.close()
        manifest = msgspec.structs.replace(self.manifest, segments=self._rows, active=self._active)
        stored = StoredIdentity(format=FORMAT, identity=manifest.identity)
        replace_whole(target, os.path.join(directory, IDENTITY_NAME), seal(stored))
        store_manifest(target, directory, manifest)
        target.sync_directory(directory)
        return [_measure(target, directory, name) for name in target.list(directory)]

    def _copy(
        self, piece: _Piece, target: Disk, path: str, on_bytes: Callable[[int], None]
    ) -> None:
        source = self._files[piece.name]
        file = target.open(path, create=True)
        try:
            file.truncate(0)
            position = 0
            while position < piece.size_bytes:
                data = source.read(position, min(_CHUNK_BYTES, piece.size_bytes - position))
                if not data:
                    raise DamagedFile(
                        path=os.path.join(self.directory, piece.name),
                        position=position,
                        problem=f"it ends {piece.size_bytes - position} bytes early",
                        way_out="Take the backup from another node, and restart this one",
                    )
                file.write(position, [data])
                position += len(data)
                on_bytes(len(data))
            file.sync()
        finally:
            file.close()


def hold_log(disk: Disk, directory: str) -> HeldLog:
    """Hold the files of a log as it is now; a node may have it open."""
    for attempt in range(_ATTEMPTS):
        manifest = load_manifest(disk, directory)
        if manifest is None:
            raise DirectoryRefused(
                f"{os.path.join(directory, MANIFEST_NAME)} is missing or damaged; check the path,"
                " or run `penstock verify`"
            )
        known = load_quarantine(disk, directory)
        if known is not None and not known.repaired:
            raise DirectoryRefused(
                f"{directory} is damaged and waits for its leader ({known.describe()}); take the"
                " backup from another node"
            )
        files: dict[str, File] = {}
        try:
            for name in _names(manifest):
                files[name] = disk.open(os.path.join(directory, name))
        except DiskFailed:
            for file in files.values():
                file.close()
            now = load_manifest(disk, directory)
            moved = now is None or now.generation != manifest.generation
            if not moved or attempt == _ATTEMPTS - 1:
                raise
            continue
        return HeldLog(disk, directory, manifest, files)
    raise AssertionError("the last attempt raises or returns")


def _names(manifest: Manifest) -> list[str]:
    names = [segment_name(row.base, row.number) for row in manifest.segments]
    names.append(segment_name(manifest.active.base, manifest.active.number))
    return names + ([manifest.snapshot.name] if manifest.snapshot is not None else [])


def _write_vote(disk: Disk, directory: str, hard_state: HardState) -> None:
    vote = VoteFile(disk, directory)
    vote.write(hard_state)
    vote.close()


def _measure(disk: Disk, directory: str, name: str) -> CopiedFile:
    size, checksum = checksum_of(disk, os.path.join(directory, name))
    return CopiedFile(name=name, size_bytes=size, crc32c=checksum)


def checksum_of(disk: Disk, path: str) -> tuple[int, int]:
    """The size of a file and the CRC-32C of all of it."""
    file = disk.open(path)
    try:
        size, position, checksum = file.size(), 0, 0
        while position < size:
            data = file.read(position, min(_CHUNK_BYTES, size - position))
            if not data:
                break
            checksum = crc32c(data, checksum)
            position += len(data)
        return position, checksum
    finally:
        file.close()
