"""`machines.catalog` against a model, in any order of commands: replicas stay equal, whether they
applied the whole log or a snapshot and its tail; what is refused changes nothing; and the ways to
find a topic agree with each other."""

from typing import Any

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from penstock.core.entries import Entry, EntryKind
from penstock.core.errors import PenstockError
from penstock.core.types import Index, NodeId, PartitionId, ShardId, Term, TopicId
from penstock.machines import (
    AddNode,
    AddPartitions,
    Catalog,
    CatalogCommand,
    ConfigureGroup,
    ConfigureTopic,
    ConfigureWorkGroup,
    CreateTopic,
    DeleteTopic,
    DrainNode,
    FoundCluster,
    KeepSecret,
    NodeReply,
    PlaceShard,
    ProducerIds,
    Propose,
    Refused,
    RegisterNode,
    RemoveNode,
    Reply,
    TakeProducerIds,
    Topic,
    TopicReply,
    UseCatalogVersion,
)

pytestmark = pytest.mark.slow

# What can be had comes up more often than what is refused.
NAMES = st.sampled_from(["a.b", "a.b", "c", "c", "a_b", ".."])
CONFIGS = st.sampled_from(
    [{}, {}, {"retention.ms": "5", "cleanup.policy": "compact"}, {"retention.ms": "x"}]
)
CHANGES = st.dictionaries(
    st.sampled_from(["retention.ms", "flush.ms"]), st.sampled_from([None, "5", "x"]), max_size=2
)
NODES = st.sampled_from([1, 2, 3, 4, 0]).map(NodeId)
SHARDS = st.sampled_from([1, 2, 3, 0, 4]).map(ShardId)
ADDRESSES = st.sampled_from(["a:1", "b:2", "c:3", "nowhere"])
HOLDERS = st.lists(NODES, max_size=3).map(tuple)
FOUNDING = FoundCluster(
    shards=3,
    nodes=((NodeId(1), "a:1"), (NodeId(2), "b:2")),
    placement=tuple((ShardId(shard), (NodeId(1), NodeId(2))) for shard in (1, 2, 3)),
)


class CatalogPlay(RuleBasedStateMachine):
    """A leader, a follower that plans nothing, and a replica restored over and over."""

    def __init__(self) -> None:
        super().__init__()
        self.leader, self.follower, self.restored = Catalog(), Catalog(), Catalog()
        self.log: list[Entry] = []
        self.under_way: list[Entry] = []
        self.now_ms = 1_000
        self.hurry = True
        self.drawn = 0
        self.topics: dict[str, list[Any]] = {}
        self.partitions_given = 0
        self.ids_given = 0
        self.retired: set[NodeId] = set()
        self.found()
        self.create("a.b", 2, {})
        self.create("c", 1, {})

    # What a caller may ask for.

    @rule()
    def found(self) -> None:
        self.ask(FOUNDING)

    @rule(name=NAMES, partitions=st.sampled_from([1, 2, 3, 0]), configs=CONFIGS)
    def create(self, name: str, partitions: int, configs: dict[str, str]) -> None:
        self.drawn += 1
        topic_id = TopicId(self.drawn.to_bytes(16, "big"))
        self.ask(CreateTopic(name=name, topic_id=topic_id, partitions=partitions, configs=configs))

    @rule(name=NAMES)
    def delete(self, name: str) -> None:
        self.ask(DeleteTopic(name=name))

    @rule(name=NAMES, total=st.integers(0, 9))
    def grow(self, name: str, total: int) -> None:
        self.ask(AddPartitions(name=name, total=total))

    @rule(name=NAMES, changes=CHANGES)
    def configure(self, name: str, changes: dict[str, str | None]) -> None:
        self.ask(ConfigureTopic(name=name, changes=changes))

    @rule(node=NODES, peer=ADDRESSES)
    def add_node(self, node: NodeId, peer: str) -> None:
        self.ask(AddNode(node=node, peer=peer))

    @rule(node=NODES, peer=ADDRESSES, incarnation=st.sampled_from(["i", "i", "j", ""]))
    def register_node(self, node: NodeId, peer: str, incarnation: str) -> None:
        self.ask(RegisterNode(node=node, peer=peer, kafka="", http=peer, incarnation=incarnation))

    @rule(node=NODES)
    def drain_node(self, node: NodeId) -> None:
        self.ask(DrainNode(node=node))

    @rule(node=NODES)
    def remove_node(self, node: NodeId) -> None:
        self.ask(RemoveNode(node=node))

    @rule(shard=SHARDS, nodes=HOLDERS)
    def place(self, shard: ShardId, nodes: tuple[NodeId, ...]) -> None:
        self.ask(PlaceShard(shard=shard, nodes=nodes))

    @rule(node=NODES)
    def move_everything_to(self, node: NodeId) -> None:
        for shard in (1, 2, 3):
            self.ask(PlaceShard(shard=ShardId(shard), nodes=(node,)))

    @rule(count=st.integers(0, 5))
    def take_producer_ids(self, count: int) -> None:
        self.ask(TakeProducerIds(count=count))

    @rule(group=st.sampled_from(["g", "h", ""]), limit=st.sampled_from([None, "5", "x"]))
    def configure_group(self, group: str, limit: str | None) -> None:
        changes = {"share.delivery.count.limit": limit}
        self.ask(ConfigureGroup(group=group, changes=changes))

    @rule()
    def use_version_2(self) -> None:
        self.ask(UseCatalogVersion(version=2))

    @rule(
        topic=NAMES,
        group=st.sampled_from(["g", "h", "queue", ""]),
        lease=st.sampled_from([None, "5000", "x"]),
    )
    def configure_work_group(self, topic: str, group: str, lease: str | None) -> None:
        changes = {"queue.lease.ms": lease}
        if self.leader.version >= 2:
            self.ask(ConfigureWorkGroup(topic=topic, group=group, changes=changes))
        self.ask(ConfigureGroup(group=group, changes=changes))

    @rule(name=st.sampled_from(["a", "b"]), secret=st.sampled_from([b"1" * 16, b"2" * 16, b""]))
    def keep_secret(self, name: str, secret: bytes) -> None:
        self.ask(KeepSecret(name=name, secret=secret))

    # What a shell does.

    @rule(step=st.sampled_from([-20, 1, 40]))
    def let_time_pass(self, step: int) -> None:
        self.now_ms += step

    @rule(hurry=st.booleans())
    def let_commands_pile_up(self, hurry: bool) -> None:
        """Several are planned before the first is applied, or each is applied at once."""
        self.hurry = hurry
        while self.under_way:
            self.apply_next()

    @precondition(lambda self: self.under_way)
    @rule(data=st.data())
    def change_leader(self, data: st.DataObject) -> None:
        """Some of what is under way was committed; the rest never was."""
        for _ in range(data.draw(st.integers(0, len(self.under_way)))):
            self.apply_next()
        self.under_way = []
        self.leader, self.follower = self.follower, self.leader
        self.leader.forget_plans()
        self.follower.forget_plans()

    @rule()
    def restore_from_snapshot(self) -> None:
        state = self.follower.snapshot()
        self.restored.restore(state)
        assert self.restored.snapshot() == state

    @rule()
    def replay_the_log(self) -> None:
        fresh = Catalog()
        for entry in self.log:
            fresh.apply(entry)
        assert fresh.snapshot() == self.leader.snapshot()

    # What must hold.

    @invariant()
    def replicas_are_equal(self) -> None:
        state = self.leader.snapshot()
        assert self.follower.snapshot() == state
        assert self.restored.snapshot() == state

    @invariant()
    def topics_are_those_of_the_answers(self) -> None:
        for catalog in (self.leader, self.restored):
            found = {
                name: [topic.topic_id, list(topic.partitions), topic.configs]
                for name, topic in catalog.topics.items()
            }
            assert found == self.topics
            assert catalog.next_partition == self.partitions_given + 1
            assert catalog.partition_count == sum(len(one[1]) for one in found.values())

    @invariant()
    def all_ways_to_a_topic_agree(self) -> None:
        for catalog in (self.leader, self.restored):
            owned: dict[PartitionId, tuple[Topic, int]] = {}
            for name, topic in catalog.topics.items():
                assert catalog.topic(name) is topic
                assert catalog.topic_by_id(topic.topic_id) is topic
                assert list(topic.configs) == sorted(topic.configs)
                owned |= {number: (topic, at) for at, number in enumerate(topic.partitions)}
            for number in map(PartitionId, range(self.partitions_given + 2)):
                assert catalog.owner(number) == owned.get(number)

    @invariant()
    def shards_have_a_place(self) -> None:
        for catalog in (self.leader, self.restored):
            assert catalog.retired == self.retired
            assert not self.retired & catalog.nodes.keys()
            assert set(range(1, catalog.shards + 1)) <= set(catalog.placement)
            for holders in catalog.placement.values():
                assert holders
                assert catalog.nodes.keys() >= set(holders)

    # The machinery.

    def ask(self, command: CatalogCommand) -> None:
        plan = self.leader.plan(command, now_ms=self.now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        assert plan.stamp_ms >= self.now_ms
        index = Index(len(self.log) + len(self.under_way) + 1)
        self.under_way.append(Entry(index, Term(1), EntryKind.COMMAND, plan.payload))
        if self.hurry:
            self.apply_next()

    def apply_next(self) -> None:
        entry = self.under_way.pop(0)
        self.log.append(entry)
        command = msgspec.msgpack.decode(entry.payload, type=CatalogCommand)
        before, revision = self.visible(), self.leader.revision
        foretold = None
        try:
            self.leader.check(command)
        except PenstockError as error:
            foretold = Refused(type(error).__name__, str(error))
        results = [one.apply(entry) for one in (self.leader, self.follower, self.restored)]
        assert results[0] == results[1] == results[2]
        (reply,) = results[0].replies
        assert (foretold is None) or reply == foretold
        assert (foretold is None) == (not isinstance(reply, Refused))
        assert self.leader.revision - revision == (self.visible() != before)
        self.remember(command, reply)

    def visible(self) -> object:
        """Everything of the leader that a reader can see, but the log time."""
        state = msgspec.msgpack.decode(self.leader.snapshot())
        return [state[0], *state[4:]]

    def remember(self, command: CatalogCommand, reply: Reply) -> None:
        match reply:
            case TopicReply(topic=topic):
                if isinstance(command, DeleteTopic):
                    del self.topics[topic.name]
                    return
                known = self.topics.get(topic.name, [None, [], {}])
                new = list(topic.partitions[len(known[1]) :])
                assert new == [self.partitions_given + 1 + step for step in range(len(new))]
                self.partitions_given += len(new)
                assert list(topic.partitions) == known[1] + new
                self.topics[topic.name] = [topic.topic_id, known[1] + new, topic.configs]
            case NodeReply(record=record) if record.removed:
                self.retired.add(record.node)
            case ProducerIds(first=first, count=count):
                assert first == self.ids_given
                self.ids_given += count
            case _:
                pass


TestCatalog = CatalogPlay.TestCase
TestCatalog.settings = settings(
    derandomize=True, deadline=None, database=None, max_examples=150, stateful_step_count=50
)
