"""`machines.work`: in which order, when, and within which bounds messages are delivered."""

import msgspec

from penstock.core.limits import TURN_STEPS_MAX
from penstock.core.queue_rules import Priorities, QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines.queue_commands import Cancel, RequeueDead, Settlement
from penstock.machines.run import Run, State
from penstock.machines.work import WorkGroup
from tests.unit.machines.queue_shard import GROUP, ONE, Lease, QueueShard, message

CARDS = QueueRules(delivery_headers=True)
FIFO = QueueRules(delivery_headers=True, fifo=True)
STRICT = QueueRules(delivery_headers=True, priorities=Priorities.STRICT)
WEIGHTED = QueueRules(delivery_headers=True, priorities=Priorities.WEIGHTED)
DONE, STALE = Outcome.DONE, Outcome.STALE
LEASE_MS = 30_000


# Lines.


def test_a_line_gives_a_batch_in_order_and_then_waits() -> None:
    shard = QueueShard(FIFO)
    shard.send(*[message(group=group) for group in (b"a", b"b", b"a", b"a", b"b")])
    lease = shard.acquire(2)
    assert lease.offsets == [0, 2]
    assert shard.offsets(9) == [1, 4], "other groups are not held up"
    assert shard.offsets(9) == []
    shard.ack(lease, 0)
    assert shard.offsets(9) == [], "2 is leased"
    shard.ack(lease, 2)
    assert shard.offsets(9) == [3]


def test_order_is_restored_after_a_timeout() -> None:
    shard = QueueShard(FIFO)
    shard.send(*[message(group=b"a")] * 3)
    lease = shard.acquire(2)
    shard.extend(lease, 1, by_ms=LEASE_MS * 2)
    shard.wait(LEASE_MS)
    assert shard.offsets(9) == [], "1 is still leased"
    shard.wait(LEASE_MS)
    assert shard.offsets(9) == [0, 1, 2]


def test_a_failed_head_that_is_delayed_holds_up_its_line() -> None:
    shard = QueueShard(FIFO)
    shard.send(message(group=b"a"), message(group=b"a"), message(group=b"b"))
    shard.release(shard.acquire(1), delay_ms=50)
    assert shard.offsets(9) == [2]
    shard.wait(49)
    assert shard.offsets(9) == []
    shard.wait(1)
    assert shard.offsets(9) == [0, 1]


def test_a_dead_head_lets_its_line_go_on() -> None:
    shard = QueueShard(FIFO, WorkRules(deliveries_max=1))
    shard.send(*[message(group=b"a")] * 3)
    lease = shard.acquire(1)
    assert shard.offsets(9) == []
    shard.release(lease)
    assert shard.work.dead == 1
    assert shard.offsets(9) == [1, 2]


def test_a_head_that_expires_or_is_called_off_lets_its_line_go_on() -> None:
    shard = QueueShard(FIFO)
    shard.send(
        message(group=b"a", delay_ms=900, ttl_ms=50),
        message(group=b"a", delay_ms=900),
        message(group=b"a"),
    )
    assert shard.offsets(9) == []
    shard.wait(50)
    assert shard.offsets(9) == []
    shard.do(Cancel(partition=ONE, group=GROUP, offsets=(Offset(1),)))
    assert shard.offsets(9) == [2]


def test_a_revived_message_goes_before_those_that_came_after_it() -> None:
    shard = QueueShard(FIFO)
    shard.send(*[message(group=b"a")] * 3)
    shard.reject(shard.acquire(1))
    shard.do(RequeueDead(partition=ONE, group=GROUP))
    assert shard.offsets(9) == [0, 1, 2]


def test_keys_are_groups() -> None:
    shard = QueueShard(FIFO)
    shard.send(message(key=b"a"), message(key=b"b"), message(), message(key=b"a"), message())
    assert shard.offsets(1) == [0]
    assert shard.offsets(1) == [1]
    assert shard.offsets(1) == [2], "those without a key are one group"
    assert shard.offsets(9) == []


# Priorities.


def test_strict_priority_is_the_highest_first_always() -> None:
    shard = QueueShard(STRICT)
    shard.send(*[message(priority=one) for one in (0, 9, 5, 9)], message())
    assert shard.offsets(3) == [1, 3, 2]
    shard.send(message(priority=8))
    assert shard.offsets(9) == [5, 4, 0]


def test_weighted_priority_gives_everybody_a_share() -> None:
    shard = QueueShard(WEIGHTED)
    for level in (0, 9):
        shard.send(*[message(priority=level)] * 100)
    taken = shard.offsets(110)
    assert sum(offset < 100 for offset in taken) == 10
    for first in range(0, 110, 11):
        served = [offset for offset in taken[first : first + 11] if offset < 100]
        assert len(served) == 1, "nobody waits for longer than everybody's shares"


def test_shares_are_kept_across_receives_and_restarts() -> None:
    shard = QueueShard(WEIGHTED)
    for level in (0, 9):
        shard.send(*[message(priority=level)] * 50)
    taken: list[int] = []
    for _ in range(44):
        taken += shard.offsets(1)
        shard.restart()
    assert [number for number, offset in enumerate(taken) if offset < 50] == [5, 16, 27, 38]


# Delay and expiry.


def test_a_delayed_message_is_never_early() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(delay_ms=500), message(deliver_at_ms=2_000), message())
    assert shard.counts() == (1, 0, 2, 0)
    assert shard.offsets(9) == [2]
    shard.wait(499)
    assert shard.offsets(9) == []
    shard.wait(1)
    assert shard.offsets(9) == [0]
    shard.wait(499)
    assert shard.offsets(9) == []
    shard.wait(1)
    assert shard.offsets(9) == [1]


def test_a_queue_may_delay_everything() -> None:
    shard = QueueShard(QueueRules(delay_ms=300))
    shard.send_plain(1_000)
    assert len(list(shard.work.runs_from(Offset(0)))) == 1
    shard.wait(300)
    assert shard.offsets(2) == [0, 1]


def test_a_message_expires_when_its_time_is_over_and_not_before() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(ttl_ms=100), message())
    shard.wait(99)
    assert shard.counts() == (2, 0, 0, 0)
    shard.wait(1)
    assert shard.counts() == (1, 0, 0, 0)
    assert shard.work.tally.expired == 1


def test_a_message_somebody_has_does_not_expire_under_them() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(ttl_ms=100), message(ttl_ms=100))
    lease = shard.acquire(2)
    shard.wait(LEASE_MS - 1)
    assert shard.ack(lease, 0) == [DONE]
    shard.wait(1)
    assert shard.counts() == (0, 0, 0, 0), "given back too late"
    assert shard.work.tally.expired == 1


def test_a_message_may_expire_before_it_was_due() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(delay_ms=100, ttl_ms=60))
    shard.wait(60)
    assert shard.counts() == (0, 0, 0, 0)


# Bounds.


def test_tenants_take_turns() -> None:
    shard = QueueShard(CARDS)
    shard.send(*[message(group=b"busy")] * 50, *[message(group=b"calm")] * 3)
    assert shard.offsets(6) == [0, 50, 1, 51, 2, 52]
    lease = shard.acquire(4)
    assert lease.offsets == [3, 4, 5, 6]
    shard.send(message(group=b"late"))
    assert shard.offsets(2) == [53, 7]


def test_only_so_many_messages_are_leased() -> None:
    shard = QueueShard(work=WorkRules(in_flight_max=3))
    shard.send_plain(10)
    lease = shard.acquire(2)
    assert shard.offsets(5) == [2]
    assert shard.offsets(5) == []
    assert not shard.work.has_ready()
    shard.ack(lease, 0)
    assert shard.work.has_ready()
    assert shard.offsets(5) == [3]


def test_a_full_queue_drops_its_oldest() -> None:
    shard = QueueShard(QueueRules(drops_oldest=True, length_max=5))
    shard.send_plain(4)
    lease = shard.acquire(1)
    shard.send_plain(4)
    assert shard.counts() == (4, 1, 0, 0)
    assert shard.work.tally.dropped == 3
    assert shard.ack(lease) == [DONE], "what somebody has is not dropped"
    assert shard.offsets(9) == [4, 5, 6, 7]


def test_a_queue_with_everything_leased_drops_nothing_that_is() -> None:
    shard = QueueShard(QueueRules(drops_oldest=True, length_max=2))
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.send_plain(3)
    assert shard.counts() == (0, 2, 0, 0)
    assert shard.release(lease) == [DONE, DONE]
    assert shard.offsets(9) == [0, 1]


def test_drop_oldest_goes_by_age_whatever_messages_say() -> None:
    rules = msgspec.structs.replace(STRICT, drops_oldest=True, length_max=3)
    shard = QueueShard(rules)
    shard.send(message(priority=9), message(delay_ms=99), message(), message(priority=0))
    shard.send(message())
    assert shard.offsets(9) == [2, 4, 3]
    assert shard.work.tally.dropped == 2


def test_a_paused_queue_delivers_nothing_and_settles_everything() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    lease = shard.acquire(1)
    shard.configure(QueueRules(paused=True))
    assert shard.offsets(9) == []
    assert not shard.work.has_ready()
    assert shard.ack(lease) == [DONE]
    shard.configure(QueueRules())
    assert shard.offsets(9) == [1, 2]


# A great many at once.


def test_a_turn_takes_a_bounded_number_of_steps() -> None:
    shard = QueueShard(CARDS)
    extra = 25
    for count in [1_000] * (TURN_STEPS_MAX // 1_000) + [extra]:
        shard.send(*[message(group=b"g", ttl_ms=10)] * count)
    shard.wait(10)
    assert shard.work.tally.expired == TURN_STEPS_MAX
    assert shard.machine.queues.due_ms() == 1_010, "the next turn goes on"
    assert shard.offsets(3) == []
    assert shard.work.tally.expired == TURN_STEPS_MAX + extra


def test_a_backlog_of_what_is_due_ends_no_worker_and_gives_nobody_what_is_over() -> None:
    """More leases and messages are over than one turn ends: what is left is over all the same."""
    end = Offset(0)
    work = WorkGroup(Offset(0), WorkRules(lease_ms=10), CARDS, lambda: end)
    end = Offset(50)
    work.acquire(10, -1, 0)
    epoch, granted = work.acquire(10, -1, 0)
    assert [run[:2] for run in granted] == [(10, 20)]
    end = Offset(100)
    tenant = range(50, 100)
    work.add(
        [Run(Offset(one), 1, State.READY, message_group=b"g", expire_ms=20) for one in tenant], ()
    )
    work.turn(30, 1)
    assert work.leased == 10, "the second lease is over, and nobody has ended it"
    late = Settlement(Offset(15), Offset(16), epoch, Verdict.ACK)
    assert work.settle(late, 30) is STALE
    _, granted = work.acquire(100, -1, 30)
    assert [run[:2] for run in granted] == [(0, 10), (20, 50)]
    assert work.tally.expired == 50


def test_timers_of_what_is_settled_do_not_pile_up() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    for _ in range(20_000):
        shard.work.settle(_extension(lease), shard.now_ms)
        shard.now_ms += 1
    assert len(shard.work._timers) < 2_000


def _extension(lease: Lease) -> Settlement:
    return Settlement(Offset(0), Offset(1), lease.epoch, Verdict.EXTEND, LEASE_MS)
