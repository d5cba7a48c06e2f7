"""Every command the catalog writes into its log, and their encoding.

The rules are those of `machines.commands`: a command is a request as it stands in the log, `plan`
stamps it, the encoding is strict, and a tag or an order of fields never changes.

Random values (a topic's id, a node's incarnation) are drawn by the caller and come in with the
command: a machine draws nothing.
"""

from penstock.core.limits import CATALOG_COMMAND_BYTES_MAX
from penstock.core.types import NO_TOPIC_ID, NodeId, ShardId, TopicId
from penstock.machines.command_codec import CommandCodec, Stamped, VersionCommand


class FoundCluster(Stamped, frozen=True, kw_only=True, tag="found_cluster"):
    """The first command: how many data shards, which nodes with which addresses, and who holds
    what. The number of shards never changes. A cluster that is founded already stays as it is."""

    shards: int
    nodes: tuple[tuple[NodeId, str], ...]
    placement: tuple[tuple[ShardId, tuple[NodeId, ...]], ...]
    incarnations: tuple[tuple[NodeId, str], ...] = ()
    """Of the founders' disks, as far as they are known."""


class CreateTopic(Stamped, frozen=True, kw_only=True, tag="create_topic"):
    """Create a topic. `topic_id` is new and was never used before."""

    name: str
    topic_id: TopicId
    partitions: int
    configs: dict[str, str]


class DeleteTopic(Stamped, frozen=True, kw_only=True, tag="delete_topic"):
    """Remove a topic with its partitions. With an id, only if it is still that topic: another may
    have come under the same name since the caller looked."""

    name: str
    topic_id: TopicId = NO_TOPIC_ID


class AddPartitions(Stamped, frozen=True, kw_only=True, tag="add_partitions"):
    """Give a topic more partitions, `total` in all. There is no way back: keys would move."""

    name: str
    total: int


class ConfigureTopic(Stamped, frozen=True, kw_only=True, tag="configure_topic"):
    """Set configs of a topic; None takes one back to its default. The others stay."""

    name: str
    changes: dict[str, str | None]


class AddNode(Stamped, frozen=True, kw_only=True, tag="add_node"):
    """Let a node join, under an id that was never used, at the address its peers will call."""

    node: NodeId
    peer: str


class RegisterNode(Stamped, frozen=True, kw_only=True, tag="register_node"):
    """What a node says of itself each time it starts.

    The incarnation is drawn when its data directory is made. The first one that registers under an
    id keeps it: a node that comes back with a wiped disk has forgotten votes and messages that
    others count on, and must not pass for the one it was (Raft §5.2: a vote is a promise)."""

    node: NodeId
    peer: str
    kafka: str
    http: str
    incarnation: str
    rack: str = ""


class DrainNode(Stamped, frozen=True, kw_only=True, tag="drain_node"):
    """Mark a node as leaving: nothing is placed on it any more, and its shards move away."""

    node: NodeId


class RemoveNode(Stamped, frozen=True, kw_only=True, tag="remove_node"):
    """Forget a node that holds no shard any more. Its id is not used again."""

    node: NodeId


class PlaceShard(Stamped, frozen=True, kw_only=True, tag="place_shard"):
    """Say which nodes should hold a shard, the one that should lead first."""

    shard: ShardId
    nodes: tuple[NodeId, ...]


class TakeProducerIds(Stamped, frozen=True, kw_only=True, tag="take_producer_ids"):
    """Reserve a run of producer ids for one node. Ids that are not used are lost."""

    count: int


class UseCatalogVersion(VersionCommand, frozen=True, kw_only=True, tag="use_catalog_version"):
    """Apply every entry after this one as the version does."""


class ConfigureGroup(Stamped, frozen=True, kw_only=True, tag="configure_group"):
    """Set configs of a group; None takes one back to its default. The others stay."""

    group: str
    changes: dict[str, str | None]


class ConfigureWorkGroup(Stamped, frozen=True, kw_only=True, tag="configure_work_group"):
    """Set configs of a work group of one topic; None lets it inherit one again. The others stay.
    From version 2 on."""

    topic: str
    group: str
    changes: dict[str, str | None]


class KeepSecret(Stamped, frozen=True, kw_only=True, tag="keep_secret"):
    """Keep random bytes that all nodes are to share. The first ones of a name stay."""

    name: str
    secret: bytes

    def __repr__(self) -> str:
        return f"KeepSecret(name={self.name!r})"


CatalogCommand = (
    FoundCluster
    | CreateTopic
    | DeleteTopic
    | AddPartitions
    | ConfigureTopic
    | AddNode
    | RegisterNode
    | DrainNode
    | RemoveNode
    | PlaceShard
    | TakeProducerIds
    | UseCatalogVersion
    | ConfigureGroup
    | KeepSecret
    | ConfigureWorkGroup
)

CATALOG_CODEC: CommandCodec[CatalogCommand] = CommandCodec(
    CatalogCommand, CATALOG_COMMAND_BYTES_MAX
)
encode_catalog_command = CATALOG_CODEC.encode
decode_catalog_command = CATALOG_CODEC.decode
