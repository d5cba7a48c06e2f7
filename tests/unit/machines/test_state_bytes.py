"""`machines.state_bytes`: what state counts for, and what is refused when there is no room."""

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import GroupFull, StateFull, TopicExists
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, Priorities, QueueRules, WorkRules
from penstock.core.types import (
    EARLIEST,
    NodeId,
    Offset,
    PartitionId,
    ProducerId,
    ShardId,
    Term,
    TopicId,
)
from penstock.core.verdicts import Verdict
from penstock.machines import (
    AppendBatch,
    CreatePartition,
    DeletePartition,
    Refused,
    Reply,
    Request,
)
from penstock.machines.catalog_commands import (
    AddPartitions,
    ConfigureGroup,
    ConfigureTopic,
    ConfigureWorkGroup,
    CreateTopic,
    DeleteTopic,
    FoundCluster,
    TakeProducerIds,
    UseCatalogVersion,
)
from penstock.machines.group_commands import CompleteJoin, DeleteGroup, RemoveMembers, StoreOffsets
from penstock.machines.queue_commands import (
    Acquire,
    CloseWork,
    ConfigureQueue,
    OpenWork,
    Settle,
    Settlement,
)
from penstock.machines.queues import Acquired
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_bytes import SHARES, StateBudget, StateKind
from tests.batches import build_batch
from tests.groups import ORDERS, assign, join
from tests.planned_entry import planned_entry

ONE = PartitionId(1)


class Shard:
    """A machine with a small budget and one partition."""

    def __init__(self, bytes_max: int) -> None:
        self.machine = ShardMachine(StateBudget(bytes_max))
        self.index = 0
        self.now_ms = 1_000
        self.do(CreatePartition(partition=ONE))

    def do(self, request: Request) -> Reply:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        self.index += 1
        entry = planned_entry(plan, self.index)
        reply = self.machine.apply(entry).replies[0]
        assert not isinstance(reply, Refused), reply
        return reply

    def bytes(self, kind: StateKind) -> int:
        return self.machine.state_bytes()[kind]

    def send(
        self,
        count: int,
        *,
        group: str | None = None,
        dedup: str | None = None,
        priority: int | None = None,
    ) -> None:
        headers = []
        if priority is not None:
            headers.append((delivery_headers.PRIORITY, str(priority).encode()))
        if group is not None:
            headers.append((delivery_headers.GROUP, group.encode()))
        if dedup is not None:
            headers.append((delivery_headers.DEDUP_ID, dedup.encode()))
        messages = [NewMessage(b"body", None, tuple(headers))] * count
        batch = bytearray(build_messages(messages, self.now_ms))
        self.do(AppendBatch(ONE, batch))


def store(name: str, count: int, metadata: str = "", *, generation: int = -1) -> StoreOffsets:
    offsets = tuple((ORDERS, partition, 7, -1, metadata) for partition in range(count))
    return StoreOffsets(
        group=name, member="", instance=None, generation=generation, offsets=offsets
    )


def test_the_shares_are_the_whole() -> None:
    assert set(SHARES) == set(StateKind)
    assert sum(SHARES.values()) - SHARES[StateKind.CATALOG] == 1  # It has a shard of its own.


def test_offsets_count_by_their_metadata_and_are_refused_when_there_is_no_room() -> None:
    shard = Shard(100_000)  # of which groups may take 25,000
    shard.do(store("g", 10, "x" * 1_000))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1 + 10 * (24 + 1_000)
    with pytest.raises(StateFull, match="delete consumer groups or offsets"):
        shard.do(store("other", 20, "x" * 1_000))
    shard.do(store("other", 10))
    shard.do(DeleteGroup(group="g"))
    shard.do(store("other", 20, "x" * 1_000))


def test_a_commit_that_adds_nothing_is_never_refused() -> None:
    shard = Shard(100_000)
    shard.do(store("g", 24, "x" * 1_000))
    with pytest.raises(StateFull):
        shard.do(store("g", 24, "x" * 1_100))
    shard.do(store("g", 24, "y" * 1_000))
    shard.do(store("g", 24))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1 + 24 * 24


def test_one_group_has_a_bound_of_its_own() -> None:
    shard = Shard(1 << 30)
    with pytest.raises(StateFull, match="group g takes"):
        shard.do(store("g", 9_000, "x" * 4_096))


def test_a_new_member_finds_no_room_and_an_old_one_may_join_again() -> None:
    shard = Shard(100_000)
    shard.do(join("a", new=True, protocols=(("range", b"m" * 20_000),)))
    with pytest.raises(GroupFull):
        shard.do(join("b", new=True, protocols=(("range", b"m" * 20_000),)))
    shard.do(join("a", new=False, protocols=(("range", b"m" * 30_000),)))
    shard.do(RemoveMembers(group="g", members=(("a", None),)))
    assert shard.bytes(StateKind.GROUPS) == 64 + 1


def test_assignments_count_while_their_generation_lasts() -> None:
    shard = Shard(1 << 20)
    shard.do(join("a", new=True))
    machine = shard.machine.groups
    assert machine.groups["g"].round_open(1)
    shard.do(CompleteJoin(group="g", rebalance=1))
    before = shard.bytes(StateKind.GROUPS)
    shard.do(assign("a", 1, {"a": b"w" * 500}))
    assert shard.bytes(StateKind.GROUPS) == before + 500
    shard.do(join("a", new=False, protocols=(("range", b"other"),)))
    assert shard.bytes(StateKind.GROUPS) < before + 500


def test_new_producers_are_refused_and_known_ones_are_not() -> None:
    shard = Shard(8 * 1_000)  # producers may take 1,000 bytes: eight of them
    for producer in range(8):
        batch = build_batch(producer_id=ProducerId(producer), epoch=0, sequence=0)
        shard.do(AppendBatch(ONE, batch))
    assert shard.bytes(StateKind.PRODUCERS) == 8 * 120
    with pytest.raises(StateFull, match="idempotent producers"):
        shard.do(AppendBatch(ONE, build_batch(producer_id=ProducerId(8), epoch=0, sequence=0)))
    shard.do(AppendBatch(ONE, build_batch(producer_id=ProducerId(3), epoch=0, sequence=1)))
    shard.do(AppendBatch(ONE, build_batch()))


def test_a_full_group_table_does_not_stop_the_queue() -> None:
    shard = Shard(100_000)
    shard.do(store("g", 24, "x" * 1_000))
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    shard.send(3)
    reply = shard.do(Acquire(partition=ONE, group="queue", messages_max=3))
    assert isinstance(reply, Acquired)
    assert reply.runs


def fifo(bytes_max: int) -> Shard:
    shard = Shard(bytes_max)
    shard.do(ConfigureQueue(partition=ONE, rules=QueueRules(fifo=True, delivery_headers=True)))
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    return shard


def test_a_fifo_queue_is_full_and_is_worked_off() -> None:
    shard = fifo(4 * 2_000)  # messages may take 2,000 bytes
    shard.send(40, group="g")
    assert shard.bytes(StateKind.MESSAGES) == 40 * (48 + 1)
    shard.send(1, group="g")
    with pytest.raises(StateFull, match="let workers settle"):
        shard.send(1, group="g")
    reply = shard.do(Acquire(partition=ONE, group="queue", messages_max=5))
    assert isinstance(reply, Acquired)
    settled = tuple(Settlement(run[0], run[1], reply.epoch, Verdict.ACK) for run in reply.runs)
    shard.do(Settle(partition=ONE, group="queue", settlements=settled))
    shard.send(1, group="g")


def test_leases_of_a_standard_queue_are_refused_only_if_they_add_state() -> None:
    shard = Shard(4 * 2_400)  # messages may take 2,400 bytes: fifty runs
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    shard.send(70)
    acquire = Acquire(partition=ONE, group="queue", messages_max=1, lease_ms=1_000)
    for _ in range(50):
        shard.do(acquire)
    with pytest.raises(StateFull):
        shard.do(acquire)
    with pytest.raises(StateFull, match="of messages"):
        shard.do(OpenWork(partition=ONE, group="other", start=EARLIEST, rules=WorkRules()))
    shard.send(1)  # A message like all others costs nothing.
    shard.now_ms += 5_000
    settlement = Settlement(Offset(0), Offset(1), 1, Verdict.ACK)
    shard.do(Settle(partition=ONE, group="queue", settlements=(settlement,)))
    shard.do(acquire)  # Leases that have ended are delivered again, and shrink the state.


def priorities(bytes_max: int) -> Shard:
    shard = Shard(bytes_max)
    rules = QueueRules(delivery_headers=True, priorities=Priorities.STRICT)
    shard.do(ConfigureQueue(partition=ONE, rules=rules))
    shard.do(OpenWork(partition=ONE, group="queue", start=EARLIEST, rules=WorkRules()))
    return shard


def test_what_the_cursor_skips_counts_until_it_gets_there() -> None:
    shard = priorities(1 << 20)
    for _ in range(10):
        shard.send(1)
        shard.send(1, priority=9)
    acquired = shard.do(Acquire(partition=ONE, group="queue", messages_max=10))
    assert isinstance(acquired, Acquired)
    assert [run[0] % 2 for run in acquired.runs] == [1] * 10
    settled = tuple(Settlement(run[0], run[1], 1, Verdict.ACK) for run in acquired.runs)
    shard.do(Settle(partition=ONE, group="queue", settlements=settled))
    assert shard.bytes(StateKind.MESSAGES) == 10 * 18
    restored = ShardMachine(StateBudget(1 << 20))
    restored.restore(shard.machine.snapshot())
    assert restored.state_bytes() == shard.machine.state_bytes()
    acquired = shard.do(Acquire(partition=ONE, group="queue", messages_max=10))
    assert isinstance(acquired, Acquired)
    settled = tuple(Settlement(run[0], run[1], 2, Verdict.ACK) for run in acquired.runs)
    shard.do(Settle(partition=ONE, group="queue", settlements=settled))
    assert shard.bytes(StateKind.MESSAGES) == 0


def test_a_queue_full_of_skips_is_worked_off() -> None:
    shard = priorities(4 * 1_200)  # messages may take 1,200 bytes
    for _ in range(70):
        shard.send(1)
        shard.send(1, priority=9)
        acquired = shard.do(Acquire(partition=ONE, group="queue", messages_max=1))
        assert isinstance(acquired, Acquired)
        ((first, end, _, _),) = acquired.runs
        done = Settlement(first, end, acquired.epoch, Verdict.ACK)
        shard.do(Settle(partition=ONE, group="queue", settlements=(done,)))
        if shard.bytes(StateKind.MESSAGES) >= 1_200:
            break
    with pytest.raises(StateFull):
        shard.send(1, priority=9)
    shard.do(Acquire(partition=ONE, group="queue", messages_max=20))


def test_work_groups_count_and_are_refused_when_there_is_no_room() -> None:
    shard = Shard(16 * 1_000)  # work groups may take 1,000 bytes
    for number in range(3):
        name = f"{number}" * 40
        shard.do(OpenWork(partition=ONE, group=name, start=EARLIEST, rules=WorkRules()))
    assert shard.bytes(StateKind.WORK_GROUPS) == 3 * (256 + 40)
    another = OpenWork(partition=ONE, group="another", start=EARLIEST, rules=WorkRules())
    with pytest.raises(StateFull, match="delete share groups, or queues"):
        shard.do(another)
    known = OpenWork(partition=ONE, group="0" * 40, start=EARLIEST, rules=WorkRules(lease_ms=1))
    shard.do(known)
    restored = ShardMachine(StateBudget(16 * 1_000))
    restored.restore(shard.machine.snapshot())
    assert restored.state_bytes() == shard.machine.state_bytes()
    shard.do(CloseWork(partition=ONE, group="0" * 40))
    shard.do(another)
    assert shard.bytes(StateKind.WORK_GROUPS) == 3 * 256 + 2 * 40 + 7


def founded(bytes_max: int) -> Shard:
    shard = Shard(bytes_max)
    nodes = ((NodeId(1), "localhost:1"),)
    placement = ((ShardId(1), (NodeId(1),)),)
    shard.do(FoundCluster(shards=1, nodes=nodes, placement=placement))
    return shard


def create(name: str, configs: dict[str, str]) -> CreateTopic:
    topic_id = TopicId(name.encode().rjust(16, b"-"))
    return CreateTopic(name=name, topic_id=topic_id, partitions=2, configs=configs)


def test_the_catalog_counts_configs_and_is_refused_more_when_it_is_full() -> None:
    shard = founded(2 * 40_000)
    text = {"queue.sqs": "x" * 16_000}
    shard.do(create("a", text))
    shard.do(create("b", text))
    assert shard.bytes(StateKind.CATALOG) == 2 * (64 + 1 + 2 * 8 + 4 + 9 + 16_000)
    with pytest.raises(StateFull, match="delete topics"):
        shard.do(create("c", text))
    shard.do(create("c", {}))
    with pytest.raises(StateFull):
        shard.do(ConfigureTopic(name="c", changes=dict(text)))
    with pytest.raises(StateFull):
        shard.do(AddPartitions(name="c", total=2_000))
    with pytest.raises(TopicExists):
        shard.do(create("a", text))
    restored = ShardMachine(StateBudget(2 * 40_000))
    restored.restore(shard.machine.snapshot())
    assert restored.state_bytes() == shard.machine.state_bytes()
    # What keeps it or makes room goes on, and so does what the cluster itself needs.
    shard.do(ConfigureTopic(name="a", changes={"queue.sqs": "y" * 16_000}))
    shard.do(ConfigureTopic(name="a", changes={"queue.sqs": None}))
    shard.do(TakeProducerIds(count=10))
    shard.do(DeleteTopic(name="b"))
    shard.do(ConfigureTopic(name="c", changes=dict(text)))


def test_the_catalog_counts_groups_that_have_configs() -> None:
    shard = founded(2 * 1_000)
    shard.do(UseCatalogVersion(version=2))
    shard.do(create("t", {}))
    before = shard.bytes(StateKind.CATALOG)
    changes: dict[str, str | None] = {"share.auto.offset.reset": "earliest"}
    shard.do(ConfigureGroup(group="g" * 200, changes=changes))
    assert shard.bytes(StateKind.CATALOG) == before + 32 + 200 + 4 + 23 + 8
    with pytest.raises(StateFull, match="catalog"):
        shard.do(ConfigureGroup(group="h" * 900, changes=changes))
    work: dict[str, str | None] = {"queue.retry.delay.ms": "100"}
    shard.do(ConfigureWorkGroup(topic="t", group="g", changes=work))
    with pytest.raises(StateFull, match="catalog"):
        shard.do(ConfigureWorkGroup(topic="t", group="h" * 900, changes=work))
    restored = ShardMachine(StateBudget(2 * 1_000))
    restored.restore(shard.machine.snapshot())
    assert restored.state_bytes() == shard.machine.state_bytes()
    shard.do(ConfigureGroup(group="g" * 200, changes=dict.fromkeys(changes)))
    shard.do(DeleteTopic(name="t"))
    assert shard.bytes(StateKind.CATALOG) == 0


def test_ids_fill_their_share_and_leave_with_their_window() -> None:
    shard = Shard(4 * 300)  # ids may take 300 bytes: ten of them
    rules = QueueRules(deduplication=Deduplication.ID, deduplication_ms=1_000)
    shard.do(ConfigureQueue(partition=ONE, rules=rules))
    for number in range(10):
        shard.send(1, dedup=f"id {number}")
    assert shard.bytes(StateKind.DEDUPLICATION) == 300
    with pytest.raises(StateFull, match="deduplication window"):
        shard.send(1, dedup="another")
    shard.do(CreatePartition(partition=PartitionId(2)))
    shard.do(AppendBatch(PartitionId(2), build_batch()))


def test_what_is_gone_counts_no_more() -> None:
    shard = fifo(1 << 20)
    shard.send(20, group="g")
    shard.do(DeletePartition(partition=ONE))
    assert not any(shard.machine.state_bytes().values())
