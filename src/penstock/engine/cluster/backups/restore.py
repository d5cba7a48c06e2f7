"""From backups to a new cluster.

What comes back is the old cluster's content under a new identity. It must be: the old one may still
run, or come back when its machines do, and two clusters that take each other for one would mix two
histories. So a new cluster id is drawn, and new incarnations for the disks; nodes of the old one
are refused by the new. Every shard's log is written anew for its new owner, from a backup that is
verified on the way.

    below the end        entries with messages, as sparse segments: they are data now
    at the end           a snapshot of the machine's state there: the backup's own snapshot, and the
                         entries after it applied
    members              who the new nodes are, in every shard's snapshot and in the catalog

Since the moment of the backup the old cluster may have gone on, and clients have seen it go on. So
that nothing they still hold is mistaken for something of the new cluster, its counters leap ahead:

    terms            leader epochs never go back: Kafka's clients would not believe such an answer
    producer ids     an idempotent producer of yesterday and one of today are never the same, so no
                     message of one is taken for a repetition of the other's
    lease epochs     a receipt of before settles the lease it was given for, if that is in the
                     backup, and otherwise none
    partition ids    whatever the shards know of is never given to a new topic

Leases that were running when the backup was made are in it, with their ends: a message comes back
to the queue when its lease ends, which by the time of a restore it mostly has. Members of groups
are forgotten when their sessions end. Retention counts by the clock: what is too old by now goes.
"""

import os
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from penstock.core.entries import Entry, EntryKind, HardState, SnapshotMark
from penstock.core.errors import DamagedFile, DirectoryRefused, DiskFailed
from penstock.core.types import CATALOG_SHARD, NO_NODE, Index, NodeId, ShardId, Term
from penstock.engine.cluster.backups.backup import Backup, ShardCopy, load_backup, shard_path
from penstock.engine.cluster.keys.key_store import store_keys
from penstock.engine.cluster.node_file import NodeFile, store_node_file
from penstock.engine.cluster.placement import found, founding_members
from penstock.engine.peers.cluster_key import ClusterKeys, draw_key
from penstock.machines.shard_machine import ShardMachine
from penstock.storage import Disk, Identity, LogSettings, ShardLog, run
from penstock.storage.index import GrowingIndex
from penstock.storage.manifest import Manifest, load_manifest
from penstock.storage.names import segment_name
from penstock.storage.segment import SEGMENT_HEADER_BYTES, Segment, decode_segment_header
from penstock.storage.snapshot import find_snapshot_damage, read_layout

TERMS_SKIPPED = 1 << 16
PRODUCER_IDS_SKIPPED = 1 << 40
EPOCHS_SKIPPED = 1 << 32
_STAGED_BYTES_MAX = 8 << 20


class Restored(msgspec.Struct, frozen=True, kw_only=True):
    cluster_id: str
    nodes: tuple[NodeId, ...]
    directories: tuple[str, ...]
    shards: int
    entries: int
    """Up to which the shards reach, added up."""
    topics: int
    partitions: int
    made_at_ms: int
    """The time of the oldest backup."""
    one_moment: bool
    """All shards are as of one moment of the old cluster."""


class _Source(msgspec.Struct, frozen=True, kw_only=True):
    """The backup of a shard that counts."""

    directory: str
    backup: Backup
    copy: ShardCopy


def choose(backups: Mapping[str, Backup]) -> dict[ShardId, _Source]:
    """For each shard the copy that reaches furthest; raises if they do not make up a cluster."""
    first = next(iter(backups.values()))
    sources: dict[ShardId, _Source] = {}
    for directory, backup in backups.items():
        if (backup.cluster_id, backup.data_shards) != (first.cluster_id, first.data_shards):
            raise DirectoryRefused(
                f"{directory} is a backup of cluster {backup.cluster_id} and another one of"
                f" {first.cluster_id}; give backups of one cluster"
            )
        for copy in backup.shards:
            known = sources.get(copy.shard)
            reach = copy.term, copy.index
            if known is None or reach > (known.copy.term, known.copy.index):
                sources[copy.shard] = _Source(directory=directory, backup=backup, copy=copy)
    missing = [str(one) for one in range(first.data_shards + 1) if one not in sources]
    if missing:
        raise DirectoryRefused(
            f"shards {' '.join(missing)} are in none of these backups; add a backup of a node that"
            " holds them"
        )
    return sources


def restore(
    reading: Disk,
    backups: Sequence[str],
    disk: Disk,
    directories: Mapping[NodeId, str],
    *,
    on_shard: Callable[[NodeId, ShardId], None] = lambda _node, _shard: None,
) -> Restored:
    """Make the data directories of a new cluster; each must be empty or not there."""
    sources = choose({directory: load_backup(reading, directory) for directory in backups})
    for directory in directories.values():
        if disk.exists(directory) and disk.list(directory):
            raise DirectoryRefused(
                f"{directory} is not empty; a restore makes new directories and changes none"
            )
    cluster_id = secrets.token_hex(8)
    key = ClusterKeys((draw_key(),))
    incarnations = {node: secrets.token_hex(8) for node in directories}
    shards = next(iter(sources.values())).backup.data_shards
    making = _Making(reading, disk, cluster_id, incarnations, shards)
    # The catalog comes last: it must know of every partition number that the others have seen.
    for shard in sorted(sources, key=lambda one: (one == CATALOG_SHARD, one)):
        for node, directory in directories.items():
            on_shard(node, shard)
            if node in founding_members(shard, shards, incarnations).everyone():
                making.make(sources[shard], node, directory)
    for node, directory in directories.items():
        # Last of all: without it no node starts, so none starts from half a directory.
        disk.make_directory(directory)
        store_keys(disk, directory, key)
        store_node_file(disk, directory, making.node_file(node))
    made = [source.backup for source in sources.values()]
    return Restored(
        cluster_id=cluster_id,
        nodes=tuple(directories),
        directories=tuple(directories.values()),
        shards=shards,
        entries=sum(source.copy.index for source in sources.values()),
        topics=making.topics,
        partitions=making.partitions,
        made_at_ms=min(one.made_at_ms for one in made),
        one_moment=len({source.directory for source in sources.values()}) == 1
        and made[0].kind == "moment",
    )


class _Making:
    """The new cluster under construction."""

    def __init__(
        self,
        reading: Disk,
        disk: Disk,
        cluster_id: str,
        incarnations: Mapping[NodeId, str],
        shards: int,
    ) -> None:
        self._reading = reading
        self._disk = disk
        self._cluster_id = cluster_id
        self._incarnations = incarnations
        self._shards = shards
        self._partitions_end = 0
        self.topics = 0
        self.partitions = 0

    def node_file(self, node: NodeId) -> NodeFile:
        """The identity that a node of the restored cluster starts with."""
        return NodeFile(
            node=node,
            incarnation=self._incarnations[node],
            cluster_id=self._cluster_id,
            shards=self._shards,
            founders=dict(self._incarnations),
            keyed=True,
        )

    def make(self, source: _Source, node: NodeId, directory: str) -> None:
        """Make one shard of one node."""
        copy = source.copy
        origin = ShardReader(self._reading, shard_path(source.directory, copy.shard), copy)
        mark = SnapshotMark(
            copy.index, copy.term, founding_members(copy.shard, self._shards, self._incarnations)
        )
        log = ShardLog.open(
            self._disk,
            shard_path(directory, copy.shard),
            identity=Identity(self._cluster_id, copy.shard, node),
            settings=LogSettings(ballast_bytes=0),
            solo=True,
        )
        try:
            term = Term(copy.term + TERMS_SKIPPED)
            log.stage(hard_state=HardState(term, NO_NODE))
            if copy.index:
                self._fill(log, origin, mark)
            else:
                job = log.take_job()
                assert job is not None, "a vote was staged"
                run(job)
                log.complete(job)
        finally:
            log.close()

    def _fill(self, log: ShardLog, origin: "ShardReader", mark: SnapshotMark) -> None:
        machine = ShardMachine()
        snapshot = origin.snapshot()
        if snapshot is not None:
            machine.restore(snapshot[1])
        applied = snapshot[0].index if snapshot is not None else Index(0)
        incoming = log.begin_install(mark, Index(0))
        incoming.erased_through = origin.erased_through
        staged: list[Entry] = []
        size = 0

        def write() -> None:
            incoming.stage(staged)
            job = incoming.take_job()
            if job is not None:
                run(job)
                log.complete(job)
            staged.clear()

        for entry in origin.entries():
            if entry.kind is EntryKind.APPEND:
                staged.append(entry)
                size += len(entry.payload)
            if entry.index > applied:
                machine.apply(entry)
            if size > _STAGED_BYTES_MAX:
                write()
                size = 0
        write()
        job = incoming.finish_job(self._move(machine, origin.shard))
        run(job)
        log.complete(job)

    def _move(self, machine: ShardMachine, shard: ShardId) -> bytes:
        """The state for the new cluster; see the top of this module."""
        machine.queues.skip_epochs(EPOCHS_SKIPPED)
        numbers = machine.log_starts().keys()
        self._partitions_end = max([self._partitions_end, *(number + 1 for number in numbers)])
        if shard == CATALOG_SHARD:
            machine.catalog.move(
                self._incarnations,
                found(self._shards, self._incarnations),
                next_partition=self._partitions_end,
                producer_ids_skipped=PRODUCER_IDS_SKIPPED,
            )
            self.topics = len(machine.catalog.topics)
            self.partitions = machine.catalog.partition_count
        return machine.snapshot()


class ShardReader:
    """The backup of one shard, read and verified record by record."""

    def __init__(self, disk: Disk, directory: str, copy: ShardCopy) -> None:
        self._disk = disk
        self._directory = directory
        self.shard = copy.shard
        self._index = copy.index
        manifest = load_manifest(disk, directory)
        if manifest is None:
            raise self._damaged("manifest", 0, "both copies are damaged")
        self._manifest: Manifest = manifest

    @property
    def erased_through(self) -> Index:
        """See `storage.compaction`."""
        compaction = self._manifest.compaction
        return Index(0) if isinstance(compaction, msgspec.UnsetType) else compaction.erased_through

    def snapshot(self) -> tuple[SnapshotMark, bytes] | None:
        """The newest snapshot's mark and state."""
        row = self._manifest.snapshot
        if row is None:
            return None
        try:
            file = self._disk.open(os.path.join(self._directory, row.name))
        except DiskFailed as error:
            raise self._damaged(row.name, 0, "the file is missing") from error
        try:
            damage = find_snapshot_damage(file, row.mark)
            layout = read_layout(file)
            if damage is not None or layout is None:
                raise self._damaged(row.name, *(damage or (0, "its header is damaged")))
            return row.mark, file.read(layout.start, layout.length)
        finally:
            file.close()

    def entries(self) -> Iterator[Entry]:
        """Yield all entries in order."""
        manifest = self._manifest
        for row in manifest.segments:
            yield from self._segment(row.number, row.base, row.last, row.end)
        yield from self._segment(manifest.active.number, manifest.active.base, self._index, None)

    def _segment(self, number: int, base: Index, last: Index, end: int | None) -> Iterator[Entry]:
        name = segment_name(base, number)
        try:
            file = self._disk.open(os.path.join(self._directory, name))
        except DiskFailed as error:
            raise self._damaged(name, 0, "the file is missing") from error
        try:
            header = decode_segment_header(file.read(0, SEGMENT_HEADER_BYTES))
            if header is None or header.name != name:
                raise self._damaged(name, 0, "the segment's header is damaged")
            segment = Segment(header, index=GrowingIndex(base), capacity=0)
            scan = segment.scan(file, end=file.size() if end is None else end)
            for _, found_header, payload in scan:
                yield Entry(
                    found_header.index,
                    found_header.term,
                    EntryKind(found_header.kind),
                    payload.tobytes(),
                )
            if scan.last < last:
                problem = scan.problem or f"it ends with entry {scan.last} and not with {last}"
                raise self._damaged(name, scan.position, problem)
        finally:
            file.close()

    def _damaged(self, name: str, position: int, problem: str) -> DamagedFile:
        return DamagedFile(
            path=os.path.join(self._directory, name),
            position=position,
            problem=problem,
            way_out="Use another backup; `penstock verify` tells which are whole",
        )
