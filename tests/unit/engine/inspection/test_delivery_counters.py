"""A leader counts what happens while it leads, and nothing twice."""

from penstock.core.queue_rules import WorkRules
from penstock.core.request_times import OTHER
from penstock.core.types import PartitionId, ShardId
from penstock.engine.inspection.delivery_counters import DeliveryCounters
from penstock.machines.queue_commands import CloseWork
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard

SHARD = ShardId(1)


class Named:
    """The names of partitions; those that are gone have none."""

    def __init__(self) -> None:
        self.names = {ONE: "orders"}

    def topic_of(self, partition: PartitionId) -> str:
        return self.names.get(partition, "")

    def ledger(self) -> DeliveryCounters:
        return DeliveryCounters(self.topic_of, lambda name: name in self.names.values())


def work_off(shard: QueueShard, count: int) -> None:
    shard.send_plain(count)
    shard.ack(shard.acquire(count))


def acked(ledger: DeliveryCounters) -> dict[str, int]:
    return {topic: one.acked for topic, one in ledger.activity().items() if one.acked}


def test_only_what_happens_under_its_lead_is_counted() -> None:
    ledger, shard = Named().ledger(), QueueShard()
    work_off(shard, 5)
    assert acked(ledger) == {}
    ledger.leadership(SHARD, shard.machine.queues, True)
    assert acked(ledger) == {}
    work_off(shard, 3)
    assert acked(ledger) == {"orders": 3}
    ledger.leadership(SHARD, shard.machine.queues, False)
    work_off(shard, 7)
    assert acked(ledger) == {"orders": 3}
    ledger.leadership(SHARD, shard.machine.queues, True)
    work_off(shard, 1)
    assert acked(ledger) == {"orders": 4}
    assert acked(ledger) == {"orders": 4}, "to ask changes nothing"


def test_what_a_leader_and_its_successor_count_adds_up() -> None:
    """Two replicas apply the same entries; one hands over to the other."""
    named = Named()
    first, second = named.ledger(), named.ledger()
    one, other = QueueShard(), QueueShard()
    first.leadership(SHARD, one.machine.queues, True)
    for shard in (one, other):
        work_off(shard, 10)
    first.leadership(SHARD, one.machine.queues, False)
    second.leadership(SHARD, other.machine.queues, True)
    for shard in (one, other):
        work_off(shard, 20)
    assert acked(first) == {"orders": 10}
    assert acked(second) == {"orders": 20}


def test_what_a_deleted_topic_had_is_counted_among_the_others() -> None:
    named, shard = Named(), QueueShard()
    ledger = named.ledger()
    ledger.leadership(SHARD, shard.machine.queues, True)
    work_off(shard, 2)
    ledger.leadership(SHARD, shard.machine.queues, False)
    assert acked(ledger) == {"orders": 2}
    named.names.clear()
    assert acked(ledger) == {OTHER: 2}


def test_what_is_closed_or_deleted_under_its_lead_is_counted_once_and_stays() -> None:
    named, shard = Named(), QueueShard()
    ledger = named.ledger()
    work_off(shard, 100)
    ledger.leadership(SHARD, shard.machine.queues, True)
    work_off(shard, 3)
    assert acked(ledger) == {"orders": 3}
    shard.do(CloseWork(partition=ONE, group=GROUP))
    assert acked(ledger) == {"orders": 3}
    shard.open(WorkRules())
    shard.ack(shard.acquire(2))
    assert acked(ledger) == {"orders": 5}
    named.names.clear()
    shard.do(CloseWork(partition=ONE, group=""))
    assert acked(ledger) == {OTHER: 5}
    ledger.leadership(SHARD, shard.machine.queues, False)
    assert acked(ledger) == {OTHER: 5}
