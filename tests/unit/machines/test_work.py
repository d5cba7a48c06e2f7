"""`machines.work`: who has which message, until when, and what becomes of failures."""

import pytest

from penstock.core.limits import DEAD_REASON_CHARACTERS_MAX, LEASE_MS_MAX
from penstock.core.queue_rules import Dead, Priorities, QueueRules, Retry, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines.queue_commands import (
    Cancel,
    Purge,
    RemoveDead,
    RequeueDead,
    Settle,
    Settlement,
    UseQueuesVersion,
)
from penstock.machines.queues import NEWEST_QUEUES_VERSION, QueueChanged, Settled
from penstock.machines.run import State
from penstock.machines.work import DELIVERIES_REASON, WorkGroup
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message

CARDS = QueueRules(delivery_headers=True)
FIFO = QueueRules(delivery_headers=True, fifo=True)
STRICT = QueueRules(delivery_headers=True, priorities=Priorities.STRICT)
WEIGHTED = QueueRules(delivery_headers=True, priorities=Priorities.WEIGHTED)
DONE, STALE, GONE = Outcome.DONE, Outcome.STALE, Outcome.GONE
LEASE_MS = 30_000


def runs(shard: QueueShard) -> list[tuple[int, int, State]]:
    return [(run.first, run.end, run.state) for run in shard.work.runs_from(Offset(0))]


def requeue_dead(shard: QueueShard, *offsets: int) -> int:
    reply = shard.do(RequeueDead(partition=ONE, group=GROUP, offsets=tuple(map(Offset, offsets))))
    assert isinstance(reply, QueueChanged)
    return reply.count


def remove_dead(shard: QueueShard, *offsets: int, discarded: bool = False) -> int:
    command = RemoveDead(
        partition=ONE, group=GROUP, offsets=tuple(map(Offset, offsets)), discarded=discarded
    )
    reply = shard.do(command)
    assert isinstance(reply, QueueChanged)
    return reply.count


def cancel(shard: QueueShard, *offsets: int) -> int:
    reply = shard.do(Cancel(partition=ONE, group=GROUP, offsets=tuple(map(Offset, offsets))))
    assert isinstance(reply, QueueChanged)
    return reply.count


# What it costs.


def test_ten_million_waiting_messages_are_one_number() -> None:
    work = WorkGroup(Offset(0), WorkRules(), QueueRules(), lambda: Offset(10_000_000))
    assert work.ready == 10_000_000
    assert not list(work.runs_from(Offset(0)))
    assert len(b"".join(work.copy_on_write().pieces())) < 100
    _, granted = work.acquire(1_000, -1, 0)
    assert [run[:2] for run in granted] == [(0, 1_000)]
    assert len(list(work.runs_from(Offset(0)))) == 1


def test_a_lease_of_many_is_one_run_and_so_is_its_ack() -> None:
    shard = QueueShard()
    shard.send_plain(1_000)
    lease = shard.acquire(1_000)
    assert runs(shard) == [(0, 1_000, State.LEASED)]
    shard.ack(lease)
    assert runs(shard) == []
    assert shard.work.start == shard.work.cursor == 1_000


def test_a_run_is_split_where_a_part_fares_differently() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    lease = shard.acquire(10)
    shard.ack(lease, 3, 4)
    shard.release(lease, 7)
    shard.reject(lease, 9)
    assert runs(shard) == [
        (0, 3, State.LEASED),
        (5, 7, State.LEASED),
        (7, 8, State.READY),
        (8, 9, State.LEASED),
        (9, 10, State.DEAD),
    ]
    assert shard.counts() == (1, 6, 0, 1)


def test_everything_below_the_start_is_dealt_with() -> None:
    shard = QueueShard()
    shard.send_plain(5)
    lease = shard.acquire(3)
    shard.ack(lease, 0, 2)
    assert shard.work.start == 1
    shard.ack(lease, 1)
    assert shard.work.start == 3


# Leases.


def test_messages_come_in_order() -> None:
    shard = QueueShard()
    shard.send_plain(5)
    assert shard.offsets(2) == [0, 1]
    assert shard.offsets(2) == [2, 3]
    assert shard.offsets(2) == [4]
    assert shard.offsets(2) == []


def test_nobody_else_gets_a_message_that_somebody_has() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    assert lease.until_ms == shard.now_ms + LEASE_MS
    shard.wait(LEASE_MS - 1)
    assert shard.offsets() == []
    shard.wait(1)
    assert shard.offsets() == [0]


def test_a_lease_ends_by_log_time_even_if_nobody_turns_the_clock() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    shard.now_ms += LEASE_MS
    assert shard.ack(lease) == [STALE]
    assert shard.offsets() == [0]


def test_a_clock_that_goes_back_ends_no_lease_and_begins_none_earlier() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    shard.wait(0)
    shard.now_ms -= 900
    lease = shard.acquire()
    assert lease.until_ms == 1_000 + LEASE_MS
    shard.wait(LEASE_MS)
    assert shard.ack(lease) == [DONE]


def test_every_lease_has_an_epoch_of_its_own() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    assert shard.acquire().epoch == 1
    assert shard.acquire().epoch == 2
    assert shard.acquire().epoch == 2, "nothing was leased"


def test_how_long_a_lease_lasts_can_be_asked_for() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    assert shard.acquire(lease_ms=5).until_ms == shard.now_ms + 5
    shard.wait(5)
    assert shard.acquire(lease_ms=0).until_ms == shard.now_ms
    assert shard.acquire(lease_ms=LEASE_MS_MAX * 3).until_ms == shard.now_ms + LEASE_MS_MAX
    shard.wait(LEASE_MS_MAX - 1)
    assert shard.offsets() == []
    shard.wait(1)
    assert shard.offsets() == [0]


def test_deliveries_and_the_first_one_are_told() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    first_ms = shard.now_ms
    for deliveries in (1, 2, 3):
        lease = shard.acquire()
        assert lease.runs == ((0, 1, deliveries, first_ms),)
        shard.now_ms += 10
        shard.release(lease)


def test_messages_with_different_pasts_are_different_runs_of_a_lease() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    lease = shard.acquire()
    shard.release(lease)
    assert [run[:3] for run in shard.acquire(3).runs] == [(0, 1, 2), (1, 3, 1)]


# Verdicts.


def test_an_acked_message_is_done() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    assert shard.ack(lease) == [DONE]
    assert shard.ack(lease) == [GONE]
    shard.wait(LEASE_MS * 2)
    assert shard.offsets() == []
    assert shard.work.tally.acked == 1


def test_a_released_message_is_next() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    lease = shard.acquire(2)
    assert shard.release(lease, 0) == [DONE]
    assert shard.offsets() == [0]


def test_a_release_may_name_a_delay() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    shard.release(shard.acquire(), delay_ms=70)
    assert shard.counts() == (0, 0, 1, 0)
    shard.wait(69)
    assert shard.offsets() == []
    shard.wait(1)
    assert shard.offsets() == [0]


def test_a_delay_has_a_bound_that_can_be_written_down() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    shard.release(shard.acquire(), delay_ms=(1 << 64) - 1)
    shard.restart()
    shard.wait(LEASE_MS_MAX)
    assert shard.offsets() == [0]


def test_a_rejected_message_is_dead_at_once() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    assert shard.reject(lease, reason="no such customer") == [DONE]
    assert shard.counts() == (0, 0, 0, 1)
    (dead,) = shard.work.dead_offsets(9)
    assert (dead.offset, dead.deliveries, dead.reason) == (0, 1, "no such customer")
    assert dead.died_ms == shard.now_ms
    assert shard.ack(lease) == [GONE]


def test_an_extended_lease_ends_later_and_is_the_same_lease() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    lease = shard.acquire()
    shard.wait(LEASE_MS - 1)
    assert shard.extend(lease, by_ms=LEASE_MS) == [DONE]
    shard.wait(LEASE_MS - 1)
    assert shard.offsets() == []
    assert shard.ack(lease) == [DONE]


def test_an_extension_may_shorten_a_lease_or_end_it() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.extend(lease, 0, by_ms=5)
    shard.extend(lease, 1, by_ms=0)
    assert shard.offsets(2) == [1]
    shard.wait(5)
    assert shard.offsets(2) == [0]


def test_an_extension_has_a_bound() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    shard.extend(shard.acquire(), by_ms=LEASE_MS_MAX * 9)
    shard.wait(LEASE_MS_MAX)
    assert shard.offsets() == [0]


@pytest.mark.parametrize("verdict", ["ack", "release", "reject"])
def test_a_receipt_of_a_lease_that_is_over_changes_nothing(verdict: str) -> None:
    shard = QueueShard()
    shard.send_plain(1)
    old = shard.acquire()
    shard.wait(LEASE_MS)
    settle = getattr(shard, verdict)
    assert settle(old) == [STALE], "it waits for somebody else"
    new = shard.acquire()
    before = shard.machine.snapshot()
    assert settle(old) == [STALE], "somebody else has it"
    assert shard.extend(old, by_ms=999_999) == [STALE]
    assert shard.machine.snapshot() == before
    assert shard.ack(new) == [DONE]


def test_a_message_nobody_ever_had_cannot_be_acked() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    lease = shard.acquire(1)
    assert shard.ack(lease, 1) == [STALE]
    assert shard.ack(lease, 2) == [GONE], "there is no such message"
    assert shard.counts() == (1, 1, 0, 0)


def test_a_verdict_on_several_messages_is_carried_out_on_all_or_on_none() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    lease = shard.acquire(3)
    shard.release(lease, 1)
    one = Settlement(Offset(0), Offset(3), lease.epoch, Verdict.ACK)
    assert shard.do(Settle(partition=ONE, group=GROUP, settlements=(one,))) == Settled((STALE,))
    assert shard.counts() == (1, 2, 0, 0)


# Failing.


@pytest.mark.parametrize(
    ("retry", "base_ms", "waits_ms"),
    [
        (Retry.FIXED, 5_000, [5_000, 5_000, 5_000]),
        (Retry.LINEAR, 5_000, [5_000, 10_000, 15_000]),
        (Retry.EXPONENTIAL, 2_000, [2_000, 4_000, 8_000, 16_000]),
    ],
)
def test_a_failed_message_waits_as_the_policy_says(
    retry: Retry, base_ms: int, waits_ms: list[int]
) -> None:
    shard = QueueShard(work=WorkRules(retry=retry, retry_ms=base_ms))
    shard.send_plain(1)
    for wait_ms in waits_ms:
        shard.release(shard.acquire())
        shard.wait(wait_ms - 1)
        assert shard.offsets() == [], "early"
        shard.now_ms += 1
        assert shard.work.delayed == 1


def test_the_policy_counts_for_leases_that_ended_too() -> None:
    shard = QueueShard(work=WorkRules(lease_ms=10, retry=Retry.FIXED, retry_ms=50))
    shard.send_plain(1)
    shard.acquire()
    shard.wait(10)
    assert shard.counts() == (0, 0, 1, 0)
    shard.wait(50)
    assert shard.counts() == (1, 0, 0, 0)


@pytest.mark.parametrize(("version", "ready"), [(1, 0), (NEWEST_QUEUES_VERSION, 1)])
def test_the_wait_before_a_retry_begins_when_the_lease_ends(version: int, ready: int) -> None:
    shard = QueueShard(work=WorkRules(lease_ms=10, retry=Retry.FIXED, retry_ms=50))
    shard.do(UseQueuesVersion(version=version))
    shard.send_plain(1)
    shard.acquire()
    shard.wait(60)
    assert shard.counts() == (ready, 0, 1 - ready, 0)


@pytest.mark.parametrize("deliveries_max", [1, 3])
@pytest.mark.parametrize("how", ["release", "timeout"])
def test_a_message_is_dead_after_exactly_so_many_deliveries(deliveries_max: int, how: str) -> None:
    shard = QueueShard(work=WorkRules(lease_ms=10, deliveries_max=deliveries_max))
    shard.send_plain(1)
    for number in range(deliveries_max):
        assert shard.work.dead == 0, f"dead after {number}"
        lease = shard.acquire()
        assert lease.runs[0].deliveries == number + 1
        if how == "release":
            shard.release(lease)
        else:
            shard.wait(10)
    (dead,) = shard.work.dead_offsets(9)
    assert (dead.deliveries, dead.reason) == (deliveries_max, DELIVERIES_REASON)
    shard.wait(LEASE_MS)
    assert shard.offsets() == []


@pytest.mark.parametrize(
    ("version", "reason"),
    [(1, DELIVERIES_REASON), (NEWEST_QUEUES_VERSION, f"{DELIVERIES_REASON}: no such account")],
)
def test_a_dead_letter_tells_the_reason_of_the_last_release(version: int, reason: str) -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=2))
    shard.do(UseQueuesVersion(version=version))
    shard.send_plain(1)
    for said in ("the bank does not answer", "no such account"):
        shard.settle(shard.acquire(), Verdict.RELEASE, delay_ms=0, reason=said)
    (dead,) = shard.work.dead_offsets(9)
    assert dead.reason == reason


def test_a_reason_is_cut_to_its_bound() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=1))
    shard.do(UseQueuesVersion(version=NEWEST_QUEUES_VERSION))
    shard.send_plain(1)
    said = "x" * DEAD_REASON_CHARACTERS_MAX
    shard.settle(shard.acquire(), Verdict.RELEASE, reason=said)
    (dead,) = shard.work.dead_offsets(9)
    assert len(dead.reason) == DEAD_REASON_CHARACTERS_MAX


def test_a_last_delivery_may_still_succeed() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=1))
    shard.send_plain(1)
    assert shard.ack(shard.acquire()) == [DONE]
    assert shard.work.dead == 0


def test_without_a_bound_a_message_never_dies() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    for _ in range(50):
        shard.release(shard.acquire())
    assert shard.counts() == (1, 0, 0, 0)


def test_dead_messages_are_discarded_where_nobody_wants_them() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=1, dead=Dead.DISCARD))
    shard.send_plain(2)
    lease = shard.acquire(2)
    shard.release(lease, 0)
    shard.reject(lease, 1)
    assert shard.counts() == (0, 0, 0, 0)
    assert shard.work.tally.purged == 2


@pytest.mark.parametrize("dead", [Dead.MOVE, Dead.ARCHIVE])
def test_dead_messages_stay_until_somebody_sees_to_them(dead: Dead) -> None:
    shard = QueueShard(work=WorkRules(dead=dead))
    shard.send_plain(3)
    shard.reject(shard.acquire(3))
    assert shard.work.start == 0
    assert list(shard.machine.queues.dying()) == [(ONE, GROUP)] * (dead is Dead.MOVE)
    assert remove_dead(shard, 1, 7) == 1
    assert remove_dead(shard, 1) == 0, "it is gone"
    assert remove_dead(shard, 2, discarded=True) == 1
    assert (shard.work.tally.moved, shard.work.tally.purged) == (1, 1)
    assert [one.offset for one in shard.work.dead_offsets(9)] == [0]


def test_only_the_dead_are_buried_and_revived() -> None:
    shard = QueueShard()
    shard.send_plain(2)
    shard.acquire()
    assert remove_dead(shard, 0, 1) == requeue_dead(shard, 0, 1) == 0


def test_whoever_died_first_is_named_first() -> None:
    shard = QueueShard()
    shard.send_plain(4)
    lease = shard.acquire(4)
    for offset in (2, 0, 3):
        shard.now_ms += 1
        shard.reject(lease, offset)
    assert [one.offset for one in shard.work.dead_offsets(9)] == [2, 0, 3]
    shard.restart()
    assert [one.offset for one in shard.work.dead_offsets(2)] == [2, 0]


def test_a_revived_message_is_delivered_as_if_for_the_first_time() -> None:
    shard = QueueShard(work=WorkRules(deliveries_max=2))
    shard.send_plain(3)
    for _ in range(2):
        shard.release(shard.acquire(3))
    assert shard.work.dead == 3
    shard.now_ms += 500
    assert requeue_dead(shard, 1) == 1
    assert shard.acquire(3).runs == ((1, 2, 1, shard.now_ms),)
    assert requeue_dead(shard) == 2, "all of them"
    assert shard.offsets(3) == [0, 2]


def test_a_revived_message_still_expires() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(ttl_ms=100))
    shard.reject(shard.acquire())
    shard.wait(200)
    assert shard.work.dead == 1
    requeue_dead(shard)
    assert shard.machine.queues.due_ms() == 1_100, "whoever turns the clock is told"
    shard.wait(0)
    assert shard.counts() == (0, 0, 0, 0)
    assert shard.work.tally.expired == 1


# What people do.


def test_a_message_nobody_has_can_be_called_off() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(), message(delay_ms=50), message(), message())
    lease = shard.acquire(1)
    assert cancel(shard, 0) == 0, "somebody has it"
    assert cancel(shard, 1, 2, 2, 99) == 2
    shard.release(lease)
    shard.wait(50)
    assert shard.offsets(9) == [0, 3]
    assert shard.work.tally.purged == 2


def test_a_purge_drops_everything_and_ends_all_leases() -> None:
    shard = QueueShard(CARDS, WorkRules(deliveries_max=1))
    shard.send(message(), message(), message(delay_ms=50), message())
    lease = shard.acquire(2)
    shard.reject(lease, 1)
    assert shard.do(Purge(partition=ONE, group=GROUP)) == QueueChanged(4)
    assert shard.counts() == (0, 0, 0, 0)
    assert shard.ack(lease, 0) == [GONE]
    shard.wait(LEASE_MS)
    assert shard.offsets(9) == []
    shard.send(message())
    assert shard.offsets(9) == [4]


def test_messages_that_the_log_loses_are_expired() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    lease = shard.acquire(4)
    shard.reject(lease, 0)
    shard.release(lease, 1)
    shard.trim(3)
    assert shard.counts() == (6, 1, 0, 0)
    assert shard.work.tally.expired == 3
    assert shard.ack(lease, 2, 3) == [GONE, DONE]
    shard.trim(8)
    assert shard.offsets(9) == [8, 9]


# Messages that are leased by name, to be moved.


def test_messages_can_be_leased_by_name() -> None:
    shard = QueueShard()
    shard.send_plain(6)
    shard.acquire(1)
    lease = shard.acquire(9, offsets=[4, 0, 2, 77])
    assert lease.offsets == [4, 2], "somebody has 0, and there is no 77"
    assert {run.deliveries for run in lease.runs} == {0}, "that is no delivery"
    assert shard.offsets(9) == [1, 3, 5]
    assert shard.ack(lease) == [DONE, DONE]


def test_a_line_is_held_by_whoever_moves_a_message_of_it() -> None:
    shard = QueueShard(FIFO)
    shard.send(*[message(group=b"g")] * 3, message(group=b"h"))
    lease = shard.acquire(2, offsets=[1, 2])
    assert lease.offsets == [1, 2], "all of one move"
    assert shard.acquire(1, offsets=[0]).offsets == []
    assert shard.offsets(9) == [3]
    shard.ack(lease)
    assert shard.offsets(9) == [0]
