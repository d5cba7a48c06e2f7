"""A catalog without Raft or disk: what is asked for is written and applied at once."""

import msgspec

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import PenstockError
from penstock.core.types import Index, NodeId, ShardId, Term, TopicId
from penstock.machines import (
    Catalog,
    CatalogCommand,
    CatalogReply,
    CreateTopic,
    FoundCluster,
    NodeRecord,
    NodeReply,
    Propose,
    Refused,
    RegisterNode,
    Topic,
    TopicReply,
    refusal_error,
)

ONE, TWO, THREE = NodeId(1), NodeId(2), NodeId(3)


class Cluster:
    """A catalog and its log."""

    def __init__(self, catalog: Catalog | None = None) -> None:
        self.catalog = Catalog() if catalog is None else catalog
        self.log: list[Entry] = []
        self.now_ms = 1_000

    def do(self, command: CatalogCommand) -> CatalogReply:
        """Plan, write and apply; raises the error of a refusal.

        Also makes sure that `check` foretells it, and that a refusal changes nothing."""
        catalog = self.catalog
        foretold = self.check(command)
        before = self.state()
        plan = catalog.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        entry = Entry(Index(len(self.log) + 1), Term(1), EntryKind.COMMAND, plan.payload)
        self.log.append(entry)
        (reply,) = catalog.apply(entry).replies
        if isinstance(reply, Refused):
            error = refusal_error(reply)
            assert (type(error), str(error)) == (type(foretold), str(foretold))
            assert self.state() == before
            raise error
        assert foretold is None
        assert isinstance(reply, CatalogReply)
        return reply

    def check(self, command: CatalogCommand) -> PenstockError | None:
        try:
            self.catalog.check(command)
        except PenstockError as error:
            return error
        return None

    def state(self) -> object:
        """Everything but the log time."""
        state = msgspec.msgpack.decode(self.catalog.snapshot())
        return [*state[:1], *state[2:]]

    def found(self, *nodes: int, shards: int = 4) -> None:
        """A cluster of these nodes, each of which holds everything."""
        ids = tuple(NodeId(node) for node in nodes or (1,))
        self.do(
            FoundCluster(
                shards=shards,
                nodes=tuple((node, f"host{node}:9000") for node in ids),
                placement=tuple((ShardId(shard), ids) for shard in range(1, shards + 1)),
            )
        )

    def create(self, name: str = "orders", partitions: int = 1, **configs: str) -> Topic:
        """Create a topic; `retention_ms="5"` sets retention.ms."""
        wanted = {key.replace("_", "."): value for key, value in configs.items()}
        reply = self.do(
            CreateTopic(name=name, topic_id=topic_id(name), partitions=partitions, configs=wanted)
        )
        assert isinstance(reply, TopicReply)
        return reply.topic

    def topic(self, command: CatalogCommand) -> Topic:
        """Do something to a topic."""
        reply = self.do(command)
        assert isinstance(reply, TopicReply)
        return reply.topic

    def node(self, command: CatalogCommand) -> NodeRecord:
        """Do something to a node."""
        reply = self.do(command)
        assert isinstance(reply, NodeReply)
        return reply.record


def topic_id(name: str) -> TopicId:
    """The id that tests give to a topic of this name."""
    return TopicId(name.encode()[:16].rjust(16, b"*"))


def create(name: str = "orders", **changes: object) -> CreateTopic:
    """To create a topic of one partition, but for what is changed."""
    command = CreateTopic(name=name, topic_id=topic_id(name), partitions=1, configs={})
    return msgspec.structs.replace(command, **changes)


def register(node: NodeId = TWO, **changes: object) -> RegisterNode:
    """What node 2 says of itself, but for what is changed."""
    command = RegisterNode(
        node=node, peer="b:9000", kafka="b:9092", http="b:8080", incarnation="first", rack="west"
    )
    return msgspec.structs.replace(command, **changes)
