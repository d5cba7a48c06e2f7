"""Is every byte of a directory what was written? Of a node's data, of one shard, or of a backup.

It changes nothing, and reads everything there is a checksum of: records and their chain, snapshots,
the small files and the spare copies of them, side indexes. A node must not be running on it: its
last records are not settled yet, and would be taken for damage.
"""

import os
from collections.abc import Callable
from typing import Literal

from penstock.core.errors import DamagedFile, DirectoryRefused
from penstock.core.types import ShardId
from penstock.engine.cluster.backups.backup import (
    BACKUP_FILE,
    load_backup,
    shard_path,
    shards_in,
    verify_backup,
)
from penstock.engine.cluster.directory_lock import LOCK_FILE
from penstock.engine.cluster.keys.key_store import KEY_FILE, load_keys
from penstock.engine.cluster.node_file import NODE_FILE, load_node_file
from penstock.engine.replica.local_shards import PREFIX
from penstock.storage import Disk
from penstock.storage.identity import IDENTITY_NAME
from penstock.storage.manifest import MANIFEST_NAME
from penstock.storage.redundant_copies import spare_findings
from penstock.storage.repair import Finding, verify_directory

Sort = Literal["backup", "data", "log"]


def sort_of(disk: Disk, directory: str) -> Sort:
    """The kind of a directory."""
    if not disk.exists(directory):
        raise DirectoryRefused(f"there is no directory {directory}")
    names = set(disk.list(directory))
    if NODE_FILE in names:
        return "data"
    if BACKUP_FILE in names or any(name.startswith(PREFIX) for name in names):
        return "backup"
    if {IDENTITY_NAME, MANIFEST_NAME} & names:
        return "log"
    raise DirectoryRefused(
        f"{directory} is neither a backup nor the data of a node nor the log of a shard"
    )


def size_of(disk: Disk, directory: str) -> int:
    """About how many bytes there are to read."""
    if sort_of(disk, directory) == "backup":
        return load_backup(disk, directory).size_bytes
    total = 0
    for path in _logs(disk, directory):
        for name in disk.list(path):
            file = disk.open(os.path.join(path, name))
            total += file.size()
            file.close()
    return total


def verify(
    disk: Disk, directory: str, on_log: Callable[[str], None] = lambda _path: None
) -> list[Finding]:
    """Everything in it that is not what was written; nothing if all is well."""
    sort = sort_of(disk, directory)
    if sort == "backup":
        return verify_backup(disk, directory)
    lock = disk.lock(os.path.join(directory, LOCK_FILE))
    try:
        findings = _node_findings(disk, directory) if sort == "data" else []
        for path in _logs(disk, directory):
            on_log(path)
            found = verify_directory(disk, path)
            reported = {one.path for one in found}
            findings += found
            findings += [one for one in spare_findings(disk, path) if one.path not in reported]
        return findings
    finally:
        lock.release()


def _logs(disk: Disk, directory: str) -> list[str]:
    if sort_of(disk, directory) == "log":
        return [directory]
    return [shard_path(directory, ShardId(one)) for one in shards_in(disk, directory)]


def _node_findings(disk: Disk, directory: str) -> list[Finding]:
    findings: list[Finding] = []
    for name, load in ((NODE_FILE, load_node_file), (KEY_FILE, load_keys)):
        try:
            load(disk, directory)
        except DamagedFile as error:
            path = os.path.join(directory, name)
            findings.append(Finding(path, 0, f"it does not match its checksum; {error.way_out}"))
    return findings
