"""A backup: copies of a node's shards, each up to one entry, and a document that describes them.

    backup            the document, sealed; written last, so without it the backup is not finished
    shard-0/ …        the log of a shard, whole and closed (see `storage.log_copy`)

What a backup promises. Within a shard it is the log up to one committed entry: everything that was
acknowledged up to there, nothing after it, nothing torn. Across shards there are three kinds:

    moment     all shards stop at one moment of the cluster (see `cut`): if anything is in the
               backup, so is everything that its sender could have known of when it was sent
    stopped    the node does not run: all that its disk holds
    apart      every shard stops where it happened to be when its turn came; only for a node that
               runs and cannot be asked for a moment

A node that is one of several may hold a part of the shards, and, stopped or asked without a moment,
may be behind the others. Backups of several nodes are therefore put together when they are
restored: for each shard the one that reaches furthest counts, by Raft's rule (term, then index).

A backup is verified before it is called finished: each record of the copy is read again. What is
made of it later is `restore`.
"""

import os
from collections.abc import Callable, Iterable, Mapping
from typing import Literal

import msgspec

from penstock.core.errors import (
    DamagedFile,
    DirectoryRefused,
    DiskFull,
    NewerFormat,
    PenstockError,
)
from penstock.core.types import NO_INDEX, Index, NodeId, ShardId, Term
from penstock.core.version import __version__
from penstock.engine.cluster.node_file import NodeFile, load_node_file
from penstock.engine.replica.local_shards import PREFIX
from penstock.storage import Disk
from penstock.storage.envelope import read_whole, replace_whole, seal, sealed_format, unseal
from penstock.storage.log_copy import CopiedFile, HeldLog, checksum_of, hold_log
from penstock.storage.marker import MARKER_NAME, MarkerFile
from penstock.storage.repair import Finding, verify_directory

BACKUP_FILE = "backup"
FORMAT = 1
_SPARE_BYTES = 16 << 20

Kind = Literal["moment", "stopped", "apart"]
OnBytes = Callable[[int], None]


class ShardCopy(msgspec.Struct, frozen=True, kw_only=True):
    """The part of a backup that belongs to one shard, and its last entry."""

    shard: ShardId
    index: Index
    """The last entry that is in it."""
    term: Term
    size_bytes: int
    files: tuple[CopiedFile, ...]


class Backup(msgspec.Struct, frozen=True, kw_only=True):
    """The document that describes a backup."""

    format: int = FORMAT
    version: str
    """Of Penstock, when it was made."""
    made_at_ms: int
    kind: Kind
    cluster_id: str
    node: NodeId
    nodes: int
    """The number of nodes that founded the cluster; 0 if this node joined later."""
    data_shards: int
    shards: tuple[ShardCopy, ...]

    @property
    def missing(self) -> list[ShardId]:
        """The shards of the cluster that this node does not hold."""
        held = {one.shard for one in self.shards}
        return [ShardId(one) for one in range(self.data_shards + 1) if one not in held]

    @property
    def size_bytes(self) -> int:
        return sum(one.size_bytes for one in self.shards)


def shards_in(disk: Disk, directory: str) -> list[ShardId]:
    """Return the shards that have a directory with files here."""
    names = [name.removeprefix(PREFIX) for name in disk.list(directory) if PREFIX in name]
    numbers = sorted(ShardId(int(name)) for name in names if name.isdecimal())
    return [one for one in numbers if disk.list(shard_path(directory, one))]


def shard_path(directory: str, shard: ShardId) -> str:
    """The path of a shard in a data directory or a backup."""
    return os.path.join(directory, f"{PREFIX}{shard}")


class BackupRun:
    """A backup in progress: hold the logs, then copy them. It must be closed in any case."""

    def __init__(self, disk: Disk, data: str) -> None:
        self._disk = disk
        self._data = data
        self._held: dict[ShardId, HeldLog] = {}
        self.file = _node_file(disk, data)

    def hold(self, cut: Mapping[ShardId, Index] | None, *, running: bool) -> None:
        """Hold every shard of the node up to where `cut` says; without one, see the kinds.

        Raises `Unavailable` if a shard has moved on since the cut was made: make another."""
        self.close()
        for shard in shards_in(self._disk, self._data):
            path = shard_path(self._data, shard)
            through = cut.get(shard) if cut is not None else None
            if cut is not None and through is None:
                continue  # It has just come here, or is about to go.
            if cut is None and running:
                through = self._known_committed(path)
            held = self._held[shard] = hold_log(self._disk, path)
            held.plan(through)
        if not self._held:
            raise DirectoryRefused(f"{self._data} holds no shard yet; there is nothing to back up")

    def _known_committed(self, path: str) -> Index:
        """The last committed entry according to the marker; in a cluster of one, all durable
        entries are committed."""
        file = MarkerFile(self._disk, os.path.join(path, MARKER_NAME))
        marker = file.load()
        file.close()
        if marker is None:
            raise DirectoryRefused(f"{path} has no readable marker; run `penstock verify` on it")
        alone = self.file.founders.keys() == {self.file.node}
        return marker.durable if alone else min(marker.durable, marker.committed)

    @property
    def size_bytes(self) -> int:
        return sum(held.size_bytes for held in self._held.values())

    def copy_to(
        self,
        target: Disk,
        directory: str,
        *,
        kind: Kind,
        now_ms: int,
        on_bytes: OnBytes = lambda _count: None,
    ) -> Backup:
        """Make the backup in a directory that is empty or not there, and verify it."""
        _check_room(target, directory, self.size_bytes)
        copies = []
        for shard, held in sorted(self._held.items()):
            path = shard_path(directory, shard)
            files = held.copy_to(target, path, on_bytes)
            for found in verify_directory(target, path):
                raise DamagedFile(
                    path=os.path.join(held.directory, os.path.basename(found.path)),
                    position=found.position,
                    problem=f"{found.problem}; what was copied from it cannot be trusted",
                    way_out="Take the backup from another node, and restart this one, which repairs"
                    " it; if it is the only one, `penstock log repair` keeps what is whole",
                )
            _forget_lock(target, path)
            copies.append(
                ShardCopy(
                    shard=shard,
                    index=held.index,
                    term=held.term,
                    size_bytes=sum(one.size_bytes for one in files),
                    files=tuple(files),
                )
            )
        made = Backup(
            version=__version__,
            made_at_ms=now_ms,
            kind=kind,
            cluster_id=self.file.cluster_id,
            node=self.file.node,
            nodes=len(self.file.founders),
            data_shards=self.file.shards,
            shards=tuple(copies),
        )
        replace_whole(target, os.path.join(directory, BACKUP_FILE), seal(made))
        return made

    def close(self) -> None:
        """Release the files."""
        for held in self._held.values():
            held.close()
        self._held.clear()


def load_backup(disk: Disk, directory: str) -> Backup:
    """Read the document of a backup; raise an error if there is none or the backup was not
    finished."""
    path = os.path.join(directory, BACKUP_FILE)
    data = read_whole(disk, path)
    if data is None:
        unfinished = any(PREFIX in name for name in disk.list(directory))
        raise DirectoryRefused(
            f"{directory} is a backup that was never finished; remove it and take another"
            if unfinished
            else f"{directory} is no backup: there is no file {BACKUP_FILE!r} in it"
        )
    if (sealed_format(data) or 0) > FORMAT:
        raise NewerFormat(f"{path} was written by a later version of Penstock; use that one")
    found = unseal(data, Backup)
    if found is None:
        raise DamagedFile(
            path=path,
            position=0,
            problem="it does not match its checksum",
            way_out="Use another backup",
        )
    return found


def verify_backup(disk: Disk, directory: str) -> list[Finding]:
    """Read every byte of a backup. An empty list: all of it is what was written."""
    made = load_backup(disk, directory)
    findings: list[Finding] = []
    for copy in made.shards:
        path = shard_path(directory, copy.shard)
        missing = [one.name for one in copy.files if not disk.exists(os.path.join(path, one.name))]
        findings += [
            Finding(os.path.join(path, name), 0, "the file is missing") for name in missing
        ]
        wrong = [
            finding
            for one in copy.files
            if one.name not in missing
            for finding in _compare(disk, path, one)
        ]
        # The log's own checks tell where in a file and in which entry; where they see nothing,
        # as in a spare copy, the checksum of the file still does.
        inner = _look_inside(disk, path) if wrong or missing else []
        reported = {finding.path for finding in inner}
        findings += inner + [finding for finding in wrong if finding.path not in reported]
    return findings


def backup_bytes(made: Iterable[Backup]) -> int:
    """The total size of these backups."""
    return sum(one.size_bytes for one in made)


def _look_inside(disk: Disk, path: str) -> list[Finding]:
    try:
        return verify_directory(disk, path)
    except PenstockError as error:
        return [Finding(path, 0, str(error))]


def _compare(disk: Disk, directory: str, wanted: CopiedFile) -> list[Finding]:
    path = os.path.join(directory, wanted.name)
    size, checksum = checksum_of(disk, path)
    if size != wanted.size_bytes:
        problem = f"it has {size} bytes, and {wanted.size_bytes} were written"
        return [Finding(path, min(size, wanted.size_bytes), problem)]
    if checksum != wanted.crc32c:
        return [Finding(path, 0, "it does not match the CRC-32C that the backup has of it")]
    return []


def _node_file(disk: Disk, data: str) -> NodeFile:
    if not disk.exists(data):
        raise DirectoryRefused(f"there is no directory {data}; give the data directory of the node")
    found = load_node_file(disk, data)
    if found is None or not found.cluster_id:
        raise DirectoryRefused(
            f"{data} is not the data directory of a node that belongs to a cluster"
        )
    return found


def _check_room(disk: Disk, directory: str, size_bytes: int) -> None:
    if disk.exists(directory) and disk.list(directory):
        raise DirectoryRefused(f"{directory} is not empty; name a directory that is not there yet")
    disk.make_directory(directory)
    free = disk.free_bytes(directory)
    if free < size_bytes + _SPARE_BYTES:
        raise DiskFull(
            f"the backup has {size_bytes:,} bytes and {directory} has room for {free:,}; free some"
            " space, or name another disk"
        )


def _forget_lock(disk: Disk, directory: str) -> None:
    """Verifying has locked the copy; a backup has no lock of its own."""
    lock = os.path.join(directory, "LOCK")
    if disk.exists(lock):
        disk.remove(lock)


__all__ = [
    "BACKUP_FILE",
    "NO_INDEX",
    "Backup",
    "BackupRun",
    "Kind",
    "ShardCopy",
    "backup_bytes",
    "load_backup",
    "shard_path",
    "shards_in",
    "verify_backup",
]
