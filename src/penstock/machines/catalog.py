"""The catalog: which topics, nodes and shards there are. One per cluster, a copy on every node.

The catalog's shard has every node as a member, so every node answers "what is this topic?" from its
own memory, for each request of each client. That is why reading is made of dictionary lookups, and
why a change touches what it changes and copies nothing else (`machines.topics`, `machines.nodes`).

A partition has one number in the whole cluster, its `PartitionId`, from a counter that never goes
back: what is stored under a number belongs to one topic for ever, and a topic that is deleted and
made again starts with nothing. Inside its topic a partition goes by its index, as in Kafka. The
shard that holds it follows from its number and the number of shards, which never changes.

Changes are rare, so they are decided while they are applied (see `machines.machine`): `plan` only
stamps and encodes, `apply` carries out or answers `Refused`. All rules are behind `check`, which
can be asked without writing anything. Rules, bounds and the table of topic configs belong to the
version: a build that changes one of them writes a new version, or replicas decide differently.

Rules that hold here:

- A topic's name follows Kafka's rules. Two names that differ in `.` and `_` only cannot both exist:
  metrics would make them one.
- Partitions are added, never removed. Their ids ascend within a topic.
- A node's id is used once. The first data directory that registers under it keeps it.
- Every data shard is placed on at least one node of the cluster.
- `revision` grows by one with every change that can be seen here. Taking producer ids is none.

Readers get the living tables: look things up, but do not hold a table while the loop turns.
"""

from collections.abc import Iterator, Mapping

import msgspec

from penstock.core.errors import (
    CatalogFull,
    InvalidConfig,
    InvalidRequest,
    StateFull,
    UnsupportedVersion,
)
from penstock.core.group_configs import SHARE_DEFAULTS, GroupSettings
from penstock.core.limits import PARTITIONS_MAX, PRODUCER_IDS_TAKEN_MAX
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.topic_configs import catalog_version_of
from penstock.core.types import NodeId, PartitionId, ProducerId, ShardId, TopicId
from penstock.core.work_settings import NO_OVERRIDES, WorkSettings, settled
from penstock.machines.catalog_commands import (
    CATALOG_CODEC,
    AddNode,
    AddPartitions,
    CatalogCommand,
    ConfigureGroup,
    ConfigureTopic,
    ConfigureWorkGroup,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    FoundCluster,
    KeepSecret,
    PlaceShard,
    RegisterNode,
    RemoveNode,
    TakeProducerIds,
    UseCatalogVersion,
)
from penstock.machines.command_machine import CommandMachine, SnapshotLayout
from penstock.machines.group_configs import GroupConfigTable, WorkGroupRow
from penstock.machines.machine import Applied, Refused, Reply
from penstock.machines.nodes import NodeRecord, NodeTable, Placement
from penstock.machines.secrets import Secrets
from penstock.machines.state_bytes import DEFAULT_BUDGET, StateBudget, StateKind
from penstock.machines.state_pieces import (
    PIECE_ROWS,
    Restoring,
    array_header,
    array_items,
    encoded,
)
from penstock.machines.topics import TopicRow, TopicTable, topic_row

CATALOG_NEWEST_VERSION = 2
"""The newest behaviour this build knows. It knows all before it, too.

    1   release 0.1
    2   work groups have `queue.*` settings of their own: on all topics (`ConfigureGroup`) and on
        one (`ConfigureWorkGroup`); topics have `penstock.validate.records` and the configs of
        Kafka 4.3 that they lacked, groups, too, and `cleanup.policy` may be empty

A version is put into use when its first new command is needed and every node knows it, not before:
until then nodes of the release before can come back (see `engine.topics.catalog_versions`)."""
WORK_GROUP_CONFIGS_VERSION = 2

_PRODUCER_IDS = 1 << 63
_UNKNOWN_PEER = "localhost:1"
"""An address where nothing listens; a node registers its own when it starts."""


class TopicReply(Reply, frozen=True, tag="topic_reply"):
    """The topic as it is now, or as it was when it was deleted."""

    topic: Topic


class NodeReply(Reply, frozen=True, tag="node_reply"):
    """The node as it is now."""

    record: NodeRecord


class ClusterFounded(Reply, frozen=True, tag="cluster_founded"):
    """How many data shards the cluster has, whichever attempt founded it."""

    shards: int


class ShardPlaced(Reply, frozen=True, tag="shard_placed"):
    """These nodes should hold the shard."""

    shard: ShardId
    nodes: Placement


class ProducerIds(Reply, frozen=True, tag="producer_ids"):
    """The ids from `first` on, `count` of them, are the caller's."""

    first: ProducerId
    count: int


class CatalogVersionInUse(Reply, frozen=True, tag="catalog_version_in_use"):
    """From here on, the catalog's entries are applied as this version does."""

    version: int


class GroupConfigured(Reply, frozen=True, tag="group_configured"):
    """What is set on the group now."""

    group: str
    configs: dict[str, str]


class WorkGroupConfigured(Reply, frozen=True, tag="work_group_configured"):
    """What is set on the work group of this topic now."""

    topic: str
    group: str
    configs: dict[str, str]


class SecretKept(Reply, frozen=True, tag="secret_kept"):
    """The secret that counts, whichever node drew it."""

    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"SecretKept(name={self.name!r})"


CatalogReply = (
    TopicReply
    | NodeReply
    | ClusterFounded
    | ShardPlaced
    | ProducerIds
    | CatalogVersionInUse
    | GroupConfigured
    | SecretKept
    | WorkGroupConfigured
    | Refused
)
"""All that the catalog may answer. The tags let a peer tell the answers apart."""


class _Snapshot(SnapshotLayout):
    revision: int
    next_producer_id: int
    next_partition: int
    topics: list[TopicRow]
    shards: int
    nodes: list[NodeRecord]
    retired: list[NodeId]
    placement: list[tuple[ShardId, Placement]]
    group_configs: list[tuple[str, dict[str, str]]] = msgspec.field(default_factory=list)
    secrets: list[tuple[str, bytes]] = msgspec.field(default_factory=list)


class _Snapshot2(_Snapshot):
    """Of version 2: the configs of work groups of topics are behind the rest."""

    work_configs: list[WorkGroupRow] = msgspec.field(default_factory=list)


class Catalog(CommandMachine[CatalogCommand, _Snapshot]):
    """The machine of the catalog's shard."""

    __slots__ = (
        "_budget",
        "_groups",
        "_next_producer_id",
        "_nodes",
        "_revision",
        "_secrets",
        "_topics",
    )

    name = "a catalog"
    codec = CATALOG_CODEC
    layout = _Snapshot

    def __init__(
        self,
        budget: StateBudget = DEFAULT_BUDGET,
        *,
        newest_version: int = CATALOG_NEWEST_VERSION,
    ) -> None:
        super().__init__(newest_version)
        self._budget = budget
        self._revision = 0
        self._next_producer_id = 0
        self._topics = TopicTable()
        self._nodes = NodeTable()
        self._groups = GroupConfigTable()
        self._secrets = Secrets()

    # Reading: on every node, all the time.

    @property
    def revision(self) -> int:
        """Grows by one with every change; the same revision is the same catalog."""
        return self._revision

    @property
    def topics(self) -> Mapping[str, Topic]:
        """Every topic by name, in no order."""
        return self._topics.by_name

    def topic(self, name: str) -> Topic | None:
        """The topic of this name."""
        return self._topics.by_name.get(name)

    def topic_by_id(self, topic_id: TopicId) -> Topic | None:
        """The topic of this id, if it is the living one."""
        return self._topics.by_id.get(topic_id)

    def owner(self, partition: PartitionId) -> tuple[Topic, int] | None:
        """The topic that a partition belongs to, and its index there."""
        return self._topics.owner(partition)

    @property
    def partition_count(self) -> int:
        """Of all topics together."""
        return self._topics.partition_count

    @property
    def next_partition(self) -> int:
        """The id of the partition that is made next; no partition has this or a higher one."""
        return self._topics.next_partition

    @property
    def shards(self) -> int:
        """How many data shards there are, numbered from 1; 0 before the cluster is founded."""
        return self._nodes.shards

    @property
    def nodes(self) -> Mapping[NodeId, NodeRecord]:
        """Every node that belongs to the cluster, whether it is up or not."""
        return self._nodes.nodes

    @property
    def retired(self) -> frozenset[NodeId]:
        """Ids of nodes that were removed: never to be used again."""
        return self._nodes.retired

    @property
    def placement(self) -> Mapping[ShardId, Placement]:
        """Which nodes should hold a shard, the one that should lead first."""
        return self._nodes.placement

    @property
    def group_configs(self) -> Mapping[str, Mapping[str, str]]:
        """What was set on groups, of those on which anything is."""
        return self._groups.configs

    def group_settings(self, group: str) -> GroupSettings:
        """What a group's configs come to; the defaults if it has none."""
        return self._groups.settings(group)

    def work_configs(self, topic: Topic, group: str) -> Mapping[str, str]:
        """What was set on a work group of one topic; empty for most."""
        return self._groups.work_configs(topic.topic_id, group)

    def work_settings(self, topic: Topic, group: str) -> WorkSettings:
        """What a work group of a topic goes by; see `core.work_settings` for the order."""
        queue = topic.settings.queue
        if group == DEFAULT_WORK_GROUP:
            return WorkSettings(queue.work_rules, queue.dead_letter_topic)
        for_all = self._groups.settings(group).overrides
        own = self._groups.overrides(topic.topic_id, group)
        if not queue.is_queue:
            inherited = SHARE_DEFAULTS
        elif for_all is own is NO_OVERRIDES:
            return WorkSettings(queue.work_rules, queue.dead_letter_topic)
        else:
            rules = msgspec.structs.replace(queue.work_rules, dead=queue.dead_letter_policy)
            inherited = WorkSettings(rules, queue.dead_letter_topic)
        return settled(own.apply(for_all.apply(inherited)))

    @property
    def secrets(self) -> Mapping[str, bytes]:
        """Random bytes that all nodes share, by name; they never leave the nodes."""
        return self._secrets.by_name

    def state_bytes(self) -> dict[StateKind, int]:
        # Nodes, shards and secrets have bounds that keep them small.
        return {StateKind.CATALOG: self._topics.size_bytes + self._groups.size_bytes}

    def describe(self) -> str:
        """`version 1 time 1700 revision 4 topics 2 partitions 8 nodes 3`."""
        return (
            f"version {self._version} time {self._time_ms} revision {self._revision}"
            f" topics {len(self.topics)} partitions {self.partition_count} nodes {len(self.nodes)}"
        )

    # Planning: on the leader.

    def _admit(self, command: CatalogCommand) -> CatalogCommand:
        if isinstance(command, ConfigureWorkGroup):
            self._check_in_use(WORK_GROUP_CONFIGS_VERSION)  # Older nodes cannot read it.
        elif isinstance(command, CreateTopic):
            self._check_in_use(catalog_version_of(command.configs))
        elif isinstance(command, ConfigureTopic):
            self._check_in_use(catalog_version_of(command.changes))
        self._check_room(command)
        return command

    def _check_room(self, command: CatalogCommand) -> None:
        match command:
            case CreateTopic() | AddPartitions() | ConfigureTopic():
                more = self._topics.growth(command)
            case ConfigureGroup(group=group, changes=changes):
                more = self._groups.growth(None, group, changes)
            case ConfigureWorkGroup(topic=name, group=group, changes=changes):
                topic = self.topic(name)
                more = 0 if topic is None else self._groups.growth(topic.topic_id, group, changes)
            case _:
                return
        if more <= 0:
            return
        try:
            used = self._topics.size_bytes + self._groups.size_bytes
            self._budget.check(StateKind.CATALOG, used, more)
        except StateFull:
            self.check(command)  # A topic that exists already is more to the point.
            raise

    # Applying: on every replica; the only code that changes state.

    def _carry_out(self, command: CatalogCommand) -> Applied:
        self.check(command)
        return Applied((self._change(command),))

    def check(self, command: CatalogCommand) -> None:
        """Raise what the command would be refused with, were it applied now; change nothing."""
        match command:
            case FoundCluster():
                self._nodes.check_found(command)
            case CreateTopic():
                self._nodes.check_founded()
                self._topics.check_create(command)
            case DeleteTopic(name=name, topic_id=topic_id):
                self._topics.check_delete(name, topic_id)
            case AddPartitions(name=name, total=total):
                self._topics.check_grow(name, total)
            case ConfigureTopic(name=name, changes=changes):
                self._topics.check_configure(name, changes)
            case AddNode():
                self._nodes.check_add(command)
            case RegisterNode():
                self._nodes.check_register(command)
            case DrainNode(node=node):
                self._nodes.check_drain(node)
            case RemoveNode(node=node):
                self._nodes.check_remove(node)
            case PlaceShard(shard=shard, nodes=holders):
                self._nodes.check_place(shard, holders)
            case ConfigureGroup(group=group, changes=changes):
                first = self._version < WORK_GROUP_CONFIGS_VERSION
                self._groups.check_configure(group, changes, first_version=first)
            case ConfigureWorkGroup(topic=name, group=group, changes=changes):
                self._check_in_use(WORK_GROUP_CONFIGS_VERSION)
                topic = self._topics.known(name)
                self._groups.check_configure_work(topic, group, changes)
            case KeepSecret(name=name, secret=secret):
                self._secrets.check_keep(name, secret)
            case TakeProducerIds(count=count):
                self._check_producer_ids(count)
            case UseCatalogVersion(version=version):
                self._check_version(version)
                if version < self._version:
                    raise UnsupportedVersion(
                        f"the catalog is at version {self._version} and never goes back to"
                        f" {version}"
                    )

    def _change(self, command: CatalogCommand) -> CatalogReply:
        """Do what `check` has nothing against. Asking for what is there already is no change."""
        changed = True
        reply: CatalogReply
        match command:
            case FoundCluster():
                changed = self._nodes.found(command)
                reply = ClusterFounded(self.shards)
            case CreateTopic():
                reply = TopicReply(self._topics.create(command))
            case DeleteTopic(name=name):
                reply = TopicReply(self._topics.delete(name))
                self._groups.forget_topic(reply.topic.topic_id)
            case AddPartitions(name=name, total=total):
                reply = TopicReply(self._topics.grow(name, total))
            case ConfigureTopic(name=name, changes=changes):
                before = self.topics[name]
                reply = TopicReply(self._topics.configure(name, changes))
                changed = reply.topic is not before
            case AddNode():
                reply = NodeReply(self._nodes.add(command))
            case RegisterNode(node=node):
                known = self.nodes[node]
                reply = NodeReply(self._nodes.register(command))
                changed = reply.record is not known
            case DrainNode(node=node):
                known = self.nodes[node]
                reply = NodeReply(self._nodes.drain(node))
                changed = reply.record is not known
            case RemoveNode(node=node):
                reply = NodeReply(self._nodes.remove(node))
            case PlaceShard(shard=shard, nodes=holders):
                changed = self._nodes.place(shard, holders)
                reply = ShardPlaced(shard, holders)
            case ConfigureGroup(group=group, changes=changes):
                changed = self._groups.configure(group, changes)
                reply = GroupConfigured(group, dict(self.group_configs.get(group, {})))
            case ConfigureWorkGroup(topic=name, group=group, changes=changes):
                topic_id = self.topics[name].topic_id
                changed = self._groups.configure_work(topic_id, group, changes)
                configs = self._groups.work_configs(topic_id, group)
                reply = WorkGroupConfigured(name, group, dict(configs))
            case KeepSecret(name=name, secret=secret):
                changed = self._secrets.keep(name, secret)
                reply = SecretKept(name, self.secrets[name])
            case TakeProducerIds(count=count):
                reply = ProducerIds(ProducerId(self._next_producer_id), count)
                self._next_producer_id += count
                changed = False  # No reader depends on it, so none has to wake up.
            case UseCatalogVersion(version=version):
                changed = version != self._version
                self._version = version
                reply = CatalogVersionInUse(version)
        self._revision += changed
        return reply

    def _check_producer_ids(self, count: int) -> None:
        if not 1 <= count <= PRODUCER_IDS_TAKEN_MAX:
            raise InvalidRequest(
                f"{count} producer ids are asked for; take from 1 to {PRODUCER_IDS_TAKEN_MAX}"
            )
        if self._next_producer_id + count > _PRODUCER_IDS:
            raise CatalogFull("all producer ids are used up; move to a new cluster")

    def _check_in_use(self, version: int) -> None:
        if self._version < version:
            raise UnsupportedVersion(
                f"the catalog is at version {self._version}, and this needs version {version}: some"
                " nodes may still run an older version of Penstock"
            )

    # Snapshots.

    def _pieces(self) -> Iterator[bytes]:
        topics = self._topics.in_order()
        has_work_configs = self._version >= WORK_GROUP_CONFIGS_VERSION
        layout = _Snapshot2 if has_work_configs else _Snapshot
        head = array_header(len(layout.__struct_fields__)) + encoded(
            self._version,
            self._time_ms,
            self._revision,
            self._next_producer_id,
            self.next_partition,
        )
        tail = encoded(
            self.shards,
            [self.nodes[node] for node in sorted(self.nodes)],
            sorted(self.retired),
            sorted(self.placement.items()),
            sorted((group, dict(one)) for group, one in self.group_configs.items()),
            sorted(self.secrets.items()),
        )
        if has_work_configs:
            tail += encoded(self._groups.work_rows())
        yield head + array_header(len(topics))
        for start in range(0, len(topics), PIECE_ROWS):
            yield array_items([topic_row(one) for one in topics[start : start + PIECE_ROWS]])
        yield tail

    def move(
        self,
        nodes: Mapping[NodeId, str],
        placement: Mapping[ShardId, Placement],
        *,
        next_partition: int,
        producer_ids_skipped: int,
    ) -> None:
        """In a restored backup, before any entry: the cluster is on other nodes now, given with
        the incarnations of their disks.

        No partition and no producer gets a number that may have been given out before: not one that
        a shard of the backup knows and its catalog does not, and none that the cluster which was
        backed up has given out since."""
        table = NodeTable()
        table.shards = self._nodes.shards
        table.nodes = {
            node: NodeRecord(node, _UNKNOWN_PEER, incarnation=incarnation)
            for node, incarnation in nodes.items()
        }
        table.placement = dict(placement)
        self._nodes = table
        self._topics.next_partition = max(self._topics.next_partition, next_partition)
        self._next_producer_id += producer_ids_skipped
        self._revision += 1

    def _layout_of(self, version: int) -> type[_Snapshot]:
        return _Snapshot if version < WORK_GROUP_CONFIGS_VERSION else _Snapshot2

    def _load(self, state: _Snapshot) -> Restoring:
        try:
            rows = state.work_configs if isinstance(state, _Snapshot2) else []
            groups = GroupConfigTable(dict(state.group_configs), rows)
        except InvalidConfig as error:
            raise self._unreadable(str(error)) from error
        count = sum(row.partition_count() for row in state.topics)
        if count > PARTITIONS_MAX:
            raise self._unreadable(f"it speaks of {count} partitions, {PARTITIONS_MAX} at most")
        topics, nodes = TopicTable(state.next_partition), NodeTable()
        topics.restore(state.topics)
        yield
        nodes.shards = state.shards
        nodes.nodes = {record.node: record for record in state.nodes}
        nodes.retired = frozenset(state.retired)
        nodes.placement = dict(state.placement)

        def adopt() -> None:
            self._revision = state.revision
            self._next_producer_id = state.next_producer_id
            self._topics, self._nodes = topics, nodes
            self._groups, self._secrets = groups, Secrets(dict(state.secrets))

        return adopt


__all__ = [
    "CATALOG_NEWEST_VERSION",
    "Catalog",
    "CatalogReply",
    "CatalogVersionInUse",
    "ClusterFounded",
    "GroupConfigured",
    "NodeRecord",
    "NodeReply",
    "Placement",
    "ProducerIds",
    "SecretKept",
    "ShardPlaced",
    "Topic",
    "TopicReply",
    "WorkGroupConfigured",
]
