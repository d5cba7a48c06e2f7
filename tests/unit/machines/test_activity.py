"""What happens in a work group is counted, by stretches, and nobody's decisions depend on it."""

from penstock.core.queue_rules import Dead, WorkRules
from penstock.core.types import Offset
from penstock.machines.activity import (
    DIED_IN_READING,
    DIED_OF_DELIVERIES,
    DIED_OF_REJECTION,
    Activity,
)
from penstock.machines.queue_commands import CloseWork, CumulativeAck, ResetWork
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard


def activity(shard: QueueShard) -> Activity:
    return shard.work.activity


def test_leases_acks_and_their_times_are_counted() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    lease = shard.acquire(10)
    shard.now_ms += 250
    shard.ack(lease)
    counted = activity(shard)
    assert (counted.delivered, counted.redelivered, counted.acked, counted.failed) == (10, 0, 10, 0)
    times = counted.times.statistics()
    assert times.count == 10
    assert times.quantile(0.5) <= 0.25 <= times.sum / 10 + 0.001


def test_a_second_delivery_is_a_redelivery_and_says_nothing_of_the_time() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.release(lease)
    again = shard.acquire(2)
    shard.ack(again)
    counted = activity(shard)
    assert (counted.delivered, counted.redelivered, counted.failed, counted.acked) == (4, 2, 2, 2)
    assert counted.times.statistics().count == 0


def test_a_lease_that_is_over_is_a_failure() -> None:
    shard = QueueShard(work=WorkRules(lease_ms=1_000))
    shard.send_plain(3)
    shard.acquire(3)
    shard.wait(2_000)
    assert activity(shard).failed == 3


def test_the_dead_are_counted_by_what_they_died_of() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=1))
    shard.send_plain(6)
    lease = shard.acquire(3)
    shard.release(lease, *lease.offsets[:1])
    shard.reject(lease, *lease.offsets[1:])
    shard.do(
        CumulativeAck(
            partition=ONE,
            group=GROUP,
            first=Offset(3),
            end=Offset(6),
            dead=((Offset(4), "no number"),),
        )
    )
    counted = activity(shard)
    assert counted.dead == {DIED_OF_DELIVERIES: 1, DIED_OF_REJECTION: 2, DIED_IN_READING: 1}
    assert counted.failed == 4
    assert counted.acked == 2


def test_what_is_thrown_away_is_no_dead_letter() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=1, dead=Dead.DISCARD))
    shard.send_plain(1)
    lease = shard.acquire(1)
    shard.release(lease)
    assert activity(shard).discarded == 1
    assert not activity(shard).dead


def test_a_group_that_starts_again_goes_on_counting_and_a_closed_one_is_not_forgotten() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.ack(lease)
    shard.do(ResetWork(partition=ONE, group=GROUP, start=Offset(0)))
    assert activity(shard).acked == 2
    shard.do(CloseWork(partition=ONE, group=GROUP))
    assert shard.machine.queues.partitions[ONE].past.acked == 2


def test_a_snapshot_has_nothing_of_it() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.ack(lease)
    shard.restart()
    assert activity(shard).is_empty
    assert shard.work.tally.acked == 2


def test_copies_can_be_added_and_taken_off() -> None:
    one = Activity()
    assert one.is_empty
    one.delivered, one.acked = 5, 4
    one.dead["deliveries"] = 1
    one.times.observe(0.1, 4)
    before = one.copy()
    one.delivered += 2
    one.dead["rejected"] += 3
    since = one.copy()
    since.remove(before)
    assert (since.delivered, since.acked) == (2, 0)
    assert {reason: count for reason, count in since.dead.items() if count} == {"rejected": 3}
    assert since.times.statistics().count == 0
    before.add(since)
    assert (before.delivered, before.dead) == (7, one.dead)
