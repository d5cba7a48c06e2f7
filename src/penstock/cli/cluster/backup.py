"""`penstock backup`, `penstock restore` and `penstock verify`.

A backup is taken where a node's files are, from the files themselves; a running node is only asked
for a moment at which all shards stop (see `engine.cluster.backups`).
"""

import os
import resource
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated

from cyclopts import Parameter
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TimeRemainingColumn

from penstock.cli.address_flags import HERE, BrokerAddress
from penstock.cli.admin import Json, ask_for, print_json
from penstock.core.errors import DirectoryInUse, DirectoryRefused, LocalError, Unavailable
from penstock.core.types import NodeId, ShardId
from penstock.engine.cluster.backups.backup import Backup, BackupRun, Kind, load_backup
from penstock.engine.cluster.backups.cut import Cut
from penstock.engine.cluster.backups.restore import Restored
from penstock.engine.cluster.backups.restore import restore as restore_backups
from penstock.engine.cluster.backups.verification import size_of
from penstock.engine.cluster.backups.verification import verify as verify_files
from penstock.engine.cluster.directory_lock import LOCK_FILE
from penstock.storage import RealDisk
from penstock.storage.disk import RealLock
from penstock.storage.reading_disk import ReadingDisk

EXIT_DAMAGED = 1
MOMENTS_MAX = 5
DAY_MS = 86_400_000
DataDirectory = Annotated[
    str, Parameter(metavar="PATH", help="The data directory of the node on this machine.")
]


def backup(
    target: Annotated[str, Parameter(help="The directory to create.")],
    /,
    *,
    data: DataDirectory = "./penstock-data",
    broker: BrokerAddress = HERE,
    apart: Annotated[
        bool,
        Parameter(
            negative="",
            show_default=False,
            help="Copy each shard by itself, without a consistent cut of the running cluster.",
        ),
    ] = False,
    json: Json = False,
) -> None:
    """Copy a node's data to another directory, whether the node runs or not, and verify the copy.

    A running node makes, over HTTP, a consistent cut of the whole cluster: requests wait for some
    milliseconds, then everything goes on while the files are copied. What was acknowledged before
    the command was started is in the backup. A stopped node's files are taken as they are.

    A node of three or fewer holds all shards. In a larger cluster take backups of several nodes and
    restore them together.

    Examples
    --------
    penstock backup /mnt/backups/monday --data /var/lib/penstock
    penstock backup ./copy --data ./penstock-data --url penstock://127.0.0.1:9092 --json
    """
    _allow_many_files()
    reading = ReadingDisk()
    taking = BackupRun(reading, data)
    lock = _lock_of(reading, data)
    try:
        kind, held_ms = _hold(taking, broker, running=lock is None, apart=apart)
        with _progress("copying", taking.size_bytes) as advance:
            made = taking.copy_to(RealDisk(), target, kind=kind, now_ms=_now_ms(), on_bytes=advance)
    finally:
        taking.close()
        if lock is not None:
            lock.release()
    if json:
        print_json({"directory": target, "held_ms": held_ms, "backup": made})
        return
    for line in _backup_lines(target, made, held_ms):
        print(line)


def restore(
    backups: Annotated[
        tuple[str, ...], Parameter(help="A backup, or the backups of several nodes of one cluster.")
    ],
    /,
    *,
    data: Annotated[
        str, Parameter(metavar="PATH", help="The data directory to create; it must not exist.")
    ],
    nodes: Annotated[
        str,
        Parameter(
            metavar="IDS",
            help="The nodes of the new cluster, such as 1,2,3. Of several, each gets a directory"
            " of its own below --data: node-1, node-2 and so on.",
        ),
    ] = "1",
    json: Json = False,
) -> None:
    """Create the data directories of a new cluster from a backup.

    Topics, messages, queues, groups and their offsets are as they were when the backup was made.
    The cluster has a new id, so the old one can neither disturb it nor be disturbed. The backup is
    verified as it is read, and is not changed.

    Examples
    --------
    penstock restore /mnt/backups/monday --data /var/lib/penstock
    penstock restore ./from-node-1 ./from-node-4 --data ./restored --nodes 1,2,3
    """
    _allow_many_files()
    wanted = _parse_nodes(nodes)
    directories = {
        node: data if len(wanted) == 1 else os.path.join(data, f"node-{node}") for node in wanted
    }
    reading = ReadingDisk()
    size = sum(load_backup(reading, one).size_bytes for one in backups) * len(wanted)
    with _progress("restoring", size) as advance:
        made = restore_backups(ReadingDisk(advance), backups, RealDisk(), directories)
    if json:
        print_json(made)
        return
    for line in _restored_lines(made):
        print(line)


def verify(
    directories: Annotated[
        tuple[str, ...],
        Parameter(help="A backup, the data directory of a stopped node, or the log of a shard."),
    ],
    /,
    *,
    json: Json = False,
) -> int:
    """Verify the checksum of every byte, and list the files that are damaged.

    Nothing is changed. The exit code is 0 if every byte is as it was written, and 1 otherwise.

    Examples
    --------
    penstock verify /mnt/backups/monday
    penstock verify /var/lib/penstock
    penstock verify ./monday ./tuesday --json
    """
    size = sum(size_of(ReadingDisk(), one) for one in directories)
    begun = time.monotonic()
    with _progress("verifying", size) as advance:
        disk = ReadingDisk(advance)
        findings = {one: verify_files(disk, one) for one in directories}
    seconds = time.monotonic() - begun
    damaged = sum(map(len, findings.values()))
    if json:
        print_json({"whole": not damaged, "bytes": size, "findings": findings})
        return EXIT_DAMAGED if damaged else 0
    for directory, found in findings.items():
        for one in found:
            print(f"damaged: {one.path} at byte {one.position}: {one.problem}")
        if not found:
            print(f"{directory} is whole")
    print(f"{_bytes(size)} in {seconds:.1f} s, {damaged} damaged", file=sys.stderr)
    if damaged:
        print(
            "A damaged backup: use another. A damaged node of a cluster: start it, and it repairs"
            " itself from the leader.\nThe only copy: restore a backup, or keep what is whole with"
            " `penstock log repair`.",
            file=sys.stderr,
        )
    return EXIT_DAMAGED if damaged else 0


def _hold(
    taking: BackupRun, broker: BrokerAddress, *, running: bool, apart: bool
) -> tuple[Kind, int]:
    """Hold the files; how, and how long requests had to wait for it."""
    if not running or apart:
        taking.hold(None, running=running)
        return ("apart" if running else "stopped"), 0
    http = str(broker.address(taking.file.node))
    for attempt in range(1, MOMENTS_MAX + 1):
        cut = ask_for(http, "POST", "/v1/backup/cut", Cut, {})
        if (cut.cluster_id, cut.node) != (taking.file.cluster_id, taking.file.node):
            raise LocalError(
                f"what answers at {http} is node {cut.node} of cluster {cut.cluster_id}, and the"
                f" data is of node {taking.file.node} of {taking.file.cluster_id}; say where that"
                " cluster is with --url URL, or take each shard by itself with --apart"
            )
        here = {ShardId(shard): cut.shards[shard] for shard in cut.here}
        try:
            taking.hold(here, running=True)
        except Unavailable:
            if attempt == MOMENTS_MAX:
                raise
        else:
            return "moment", cut.held_ms
    raise AssertionError("the last attempt raises or returns")


def _lock_of(disk: ReadingDisk, data: str) -> RealLock | None:
    """Keeps a node from starting on the data meanwhile; None if one runs there."""
    try:
        return disk.lock(os.path.join(data, LOCK_FILE))
    except DirectoryInUse:
        return None


def _parse_nodes(text: str) -> list[NodeId]:
    parts = text.split(",")
    if not all(part.isascii() and part.isdecimal() and int(part) > 0 for part in parts):
        raise DirectoryRefused(f'--nodes = "{text}" must be ids of nodes, such as 1 or 1,2,3')
    wanted = sorted({NodeId(int(part)) for part in parts})
    if len(wanted) < len(parts):
        raise DirectoryRefused(f'--nodes = "{text}" names a node twice')
    return wanted


def _backup_lines(target: str, made: Backup, held_ms: int) -> Iterator[str]:
    kinds = {
        "moment": f"one moment of the cluster; requests waited for {held_ms} ms",
        "stopped": "the node is stopped; all that its disk holds",
        "apart": "each shard by itself, not at one moment",
    }
    yield f"{target}: {len(made.shards)} shards, {_bytes(made.size_bytes)}, verified"
    yield f"  {kinds[made.kind]}"
    for one in made.shards:
        yield f"  shard {one.shard} up to entry {one.index}, term {one.term}"
    if made.missing:
        listed = " ".join(map(str, made.missing))
        yield f"  this node does not hold shards {listed}: back up a node that does, too"
    if made.kind != "moment" and made.nodes != 1:
        yield "  other nodes may have more: back up a majority of them, and restore all together"


def _restored_lines(made: Restored) -> Iterator[str]:
    yield (
        f"cluster {made.cluster_id}: {made.topics} topics, {made.partitions} partitions,"
        f" {made.shards} shards"
    )
    age_days = (_now_ms() - made.made_at_ms) / DAY_MS
    moment = "one moment" if made.one_moment else "each shard by itself"
    yield f"  as of {age_days:.1f} days ago, {moment}"
    if age_days >= 1:
        yield "  retention counts by the clock: what is older than a topic keeps goes at the start"
    for node, directory in zip(made.nodes, made.directories, strict=True):
        if len(made.nodes) == 1:
            yield f"  start it: penstock serve --node-id {node} --data {directory}"
        else:
            yield (
                f"  node {node}: penstock serve --node-id {node} --cluster {_list(made.nodes)}"
                f" --data {directory}"
            )


def _list(nodes: tuple[NodeId, ...]) -> str:
    return ",".join(f"{node}@HOST{node}:9094" for node in nodes)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[int], None]]:
    """A bar on a terminal, nothing elsewhere."""
    talk = Console(stderr=True)
    columns = ("{task.description}", BarColumn(), DownloadColumn(), TimeRemainingColumn())
    with Progress(*columns, console=talk, disable=not talk.is_terminal, transient=True) as progress:
        task = progress.add_task(what, total=total or 1)
        yield lambda count: progress.advance(task, count)


def _allow_many_files() -> None:
    """A held log has all its segments open."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _bytes(count: int) -> str:
    size = float(count)
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.2f} GiB"
