"""`machines.queues`: commands find their work group, ids are remembered, time passes."""

import msgspec
import pytest

from penstock.core.errors import InvalidRequest, LocalError, UnsupportedVersion
from penstock.core.limits import (
    ACQUIRE_MESSAGES_MAX,
    GROUP_NAME_BYTES_MAX,
    SETTLEMENTS_MAX,
    TURN_STEPS_MAX,
)
from penstock.core.limits import (
    DEAD_REASON_CHARACTERS_MAX as REASON_MAX,
)
from penstock.core.queue_rules import Deduplication, QueueRules, Retry, WorkRules
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId, Term
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines import (
    AppendBatch,
    CreatePartition,
    DeletePartition,
    Propose,
    Refused,
    Request,
    WakeReaders,
    queues,
)
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    CloseWork,
    ConfigureQueue,
    OpenWork,
    Purge,
    Recall,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
    TurnClock,
    UseQueuesVersion,
)
from penstock.machines.queues import Acquired, QueueChanged
from penstock.machines.shard_machine import ShardMachine
from tests.batches import build_batch
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message

TWO = PartitionId(2)
CARDS = QueueRules(delivery_headers=True)
FIFO = QueueRules(delivery_headers=True, fifo=True)
BY_ID = QueueRules(delivery_headers=True, deduplication=Deduplication.ID)
WINDOW_MS = BY_ID.deduplication_ms
DONE, STALE, GONE = Outcome.DONE, Outcome.STALE, Outcome.GONE


def counted(shard: QueueShard, request: Request) -> int:
    reply = shard.do(request)
    assert isinstance(reply, QueueChanged), reply
    return reply.count


def wakes(shard: QueueShard, request: Request) -> bool:
    return WakeReaders(ONE, Offset(0)) in shard.apply(request).effects


def start(shard: QueueShard, group: str = GROUP) -> int:
    work = shard.machine.queues.work(ONE, group)
    assert work is not None
    return work.start


# Groups.


def test_groups_are_independent() -> None:
    shard = QueueShard()
    shard.open(WorkRules(lease_ms=5), "other")
    shard.send_plain(3)
    lease = shard.acquire(2)
    assert shard.acquire(9, group="other").offsets == [0, 1, 2]
    shard.ack(lease)
    shard.wait(5)
    assert shard.acquire(9, group="other").offsets == [0, 1, 2]
    assert shard.settle(lease, Verdict.ACK, group="other") == [STALE, STALE]


@pytest.mark.parametrize(("where", "opened"), [(EARLIEST, 2), (LATEST, 6), (0, 2), (4, 4), (99, 6)])
def test_a_group_begins_where_it_is_told_to(where: int, opened: int) -> None:
    shard = QueueShard(work=None)
    shard.send_plain(6)
    shard.trim(2)
    shard.open(WorkRules(), start=where)
    assert shard.offsets(9) == list(range(opened, 6))


def test_a_group_that_is_open_keeps_its_place_and_gets_the_rules() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    lease = shard.acquire()
    shard.open(WorkRules(lease_ms=7), start=EARLIEST)
    assert shard.ack(lease) == [DONE]
    assert shard.acquire().until_ms == shard.now_ms + 7


@pytest.mark.parametrize(
    "request_",
    [
        Acquire(partition=ONE, group="?", messages_max=1),
        Settle(partition=ONE, group="?", settlements=()),
        CloseWork(partition=ONE, group="?"),
        ResetWork(partition=ONE, group="?", start=LATEST),
        Purge(partition=ONE, group="?"),
        RemoveDead(partition=ONE, group="?", offsets=()),
        RequeueDead(partition=ONE, group="?"),
        Cancel(partition=ONE, group="?", offsets=()),
        Recall(partition=ONE, group="?", first=Offset(0), end=Offset(1), delivery_headers=()),
        Acquire(partition=TWO, group=GROUP, messages_max=1),
    ],
    ids=lambda request: type(request).__name__,
)
def test_a_group_that_was_never_opened_is_unknown(request_: Request) -> None:
    shard = QueueShard()
    before = shard.machine.snapshot()
    reply = shard.do(request_)
    assert isinstance(reply, Refused)
    assert reply.code == "UnknownWork"
    assert shard.machine.snapshot() == before


@pytest.mark.parametrize(
    "request_",
    [
        ConfigureQueue(partition=TWO, rules=QueueRules()),
        OpenWork(partition=TWO, group=GROUP, start=LATEST, rules=WorkRules()),
    ],
    ids=["configure", "open"],
)
def test_there_is_no_queue_without_a_partition(request_: Request) -> None:
    reply = QueueShard().do(request_)
    assert isinstance(reply, Refused)
    assert reply.code == "UnknownPartition"


def test_a_partition_has_only_so_many_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "WORK_GROUPS_PER_PARTITION_MAX", 9)
    shard = QueueShard(work=None)
    for number in range(9):
        shard.open(WorkRules(), f"g{number}")
    reply = shard.do(OpenWork(partition=ONE, group="x", start=LATEST, rules=WorkRules()))
    assert isinstance(reply, Refused)
    assert reply.code == "Overloaded"
    assert len(shard.machine.queues.groups(ONE)) == 9
    counted(shard, CloseWork(partition=ONE, group="g7"))
    shard.open(WorkRules(), "x")


@pytest.mark.parametrize(
    "request_",
    [
        Acquire(partition=ONE, group=GROUP, messages_max=0),
        Acquire(partition=ONE, group=GROUP, messages_max=ACQUIRE_MESSAGES_MAX + 1),
        Settle(
            partition=ONE,
            group=GROUP,
            settlements=(Settlement(Offset(0), Offset(1), 1, Verdict.ACK),) * (SETTLEMENTS_MAX + 1),
        ),
        Settle(
            partition=ONE,
            group=GROUP,
            settlements=(Settlement(Offset(3), Offset(3), 1, Verdict.ACK),),
        ),
        Settle(
            partition=ONE,
            group=GROUP,
            settlements=(
                Settlement(
                    Offset(0),
                    Offset(1),
                    1,
                    Verdict.REJECT,
                    0,
                    "x" * (REASON_MAX + 1),
                ),
            ),
        ),
        OpenWork(partition=ONE, group="", start=LATEST, rules=WorkRules()),
        OpenWork(partition=ONE, group="é" * GROUP_NAME_BYTES_MAX, start=LATEST, rules=WorkRules()),
        OpenWork(partition=ONE, group="\ud800", start=LATEST, rules=WorkRules()),
        RemoveDead(partition=ONE, group=GROUP, offsets=(Offset(1 << 64),)),
    ],
    ids=["none", "too many", "verdicts", "empty", "reason", "no name", "name", "text", "number"],
)
def test_what_is_written_is_bounded(request_: Request) -> None:
    with pytest.raises(InvalidRequest):
        QueueShard().machine.plan(request_, now_ms=1_000, term=Term(1))


def test_only_requests_to_queues_are_planned() -> None:
    with pytest.raises(LocalError, match="not a command to queues"):
        QueueShard().machine.queues.plan(CreatePartition(partition=TWO), now_ms=0, term=Term(1))


# Beginning anew.


def test_a_reset_group_goes_on_elsewhere_and_leases_end() -> None:
    shard = QueueShard()
    shard.send_plain(5)
    lease = shard.acquire(3)
    shard.ack(lease, 0)
    counted(shard, ResetWork(partition=ONE, group=GROUP, start=Offset(1)))
    assert shard.counts() == (4, 0, 0, 0)
    assert shard.ack(lease, 1) == [STALE]
    assert shard.offsets(9) == [1, 2, 3, 4]
    counted(shard, ResetWork(partition=ONE, group=GROUP, start=LATEST))
    assert shard.offsets(9) == []


@pytest.mark.parametrize("how", ["reset", "closed", "no queue any more"])
def test_a_receipt_of_before_never_fits_a_lease_of_after(how: str) -> None:
    shard = QueueShard()
    shard.send_plain(2)
    old = shard.acquire()
    match how:
        case "reset":
            counted(shard, ResetWork(partition=ONE, group=GROUP, start=EARLIEST))
        case "closed":
            counted(shard, CloseWork(partition=ONE, group=GROUP))
        case _:
            counted(shard, CloseWork(partition=ONE))
    shard.restart()
    shard.open(WorkRules())
    new = shard.acquire()
    assert new.offsets == old.offsets
    assert shard.ack(old) == [STALE]
    assert shard.ack(new) == [DONE]


def test_a_closed_group_leaves_nothing_behind() -> None:
    shard = QueueShard()
    shard.send_plain(1)
    shard.acquire()
    counted(shard, CloseWork(partition=ONE, group=GROUP))
    assert shard.machine.queues.work(ONE, GROUP) is None
    assert shard.machine.queues.due_ms() is None
    shard.wait(99_999)


def test_a_partition_that_is_deleted_is_no_queue_any_more() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.acquire()
    shard.do(DeletePartition(partition=ONE))
    assert not shard.machine.queues.partitions
    shard.wait(99_999)
    shard.restart()


# What old messages say.


def recall(
    shard: QueueShard, first: int, end: int, *delivery_headers: tuple[int, int, bytes | None]
) -> int:
    """Tell of messages from `first` to `end`: offset, priority, group."""
    told = tuple(
        (Offset(offset), level, message_group, -1, -1)
        for offset, level, message_group in delivery_headers
    )
    command = Recall(
        partition=ONE,
        group=GROUP,
        first=Offset(first),
        end=Offset(end),
        delivery_headers=told,
        fifo=shard.work.queue.fifo,
    )
    return counted(shard, command)


def test_a_group_that_begins_in_the_past_waits_to_be_told() -> None:
    shard = QueueShard(FIFO, work=None)
    shard.send(message(group=b"a"), message(group=b"b"), message(group=b"a"))
    shard.open(WorkRules())
    assert [one[:2] for one in shard.machine.queues.recalling()] == [(ONE, GROUP)]
    shard.send(message(group=b"a"))
    assert shard.offsets(9) == []
    assert recall(shard, 1, 2) == 0, "not this, not now"
    assert recall(shard, 0, 2, (0, 4, b"a"), (1, 4, b"b")) == 1
    shard.restart()
    assert shard.offsets(9) == []
    assert recall(shard, 2, 3, (2, 4, b"a")) == 1
    assert shard.machine.queues.recalling() == []
    assert shard.offsets(9) == [0, 2, 3, 1]


def test_a_message_that_was_called_off_is_not_told_of_again() -> None:
    shard = QueueShard(CARDS, work=None)
    shard.send(message(), message(group=b"b"), message())
    shard.open(WorkRules())
    assert counted(shard, Cancel(partition=ONE, group=GROUP, offsets=(Offset(1),))) == 1
    assert recall(shard, 0, 3, (1, 4, b"b")) == 1
    assert shard.offsets(9) == [0, 2]


def test_where_nothing_is_said_nobody_has_to_be_told() -> None:
    shard = QueueShard(work=None)
    shard.send_plain(3)
    shard.open(WorkRules())
    assert shard.machine.queues.recalling() == []
    assert shard.offsets(9) == [0, 1, 2]


@pytest.mark.parametrize("how", ["trim", "purge"])
def test_messages_that_are_gone_need_not_be_told_of(how: str) -> None:
    shard = QueueShard(CARDS, work=None)
    shard.send(message(), message())
    shard.open(WorkRules())
    if how == "trim":
        shard.trim(2)
    else:
        counted(shard, Purge(partition=ONE, group=GROUP))
    assert shard.machine.queues.recalling() == []


# Time.


def test_log_time_never_goes_back() -> None:
    shard = QueueShard()
    shard.wait(500)
    shard.now_ms = 7
    shard.wait(0)
    assert shard.machine.queues.time_ms == 1_500


def test_plans_that_came_to_nothing_are_forgotten() -> None:
    machine = QueueShard().machine

    def stamp_ms(now_ms: int) -> int:
        plan = machine.plan(TurnClock(), now_ms=now_ms, term=Term(1))
        assert isinstance(plan, Propose)
        return plan.stamp_ms

    assert [stamp_ms(90_000), stamp_ms(5)] == [90_000, 90_000]
    machine.forget_plans()
    assert stamp_ms(5) == 1_000


def test_messages_move_log_time_where_they_are_looked_at() -> None:
    shard = QueueShard()
    shard.now_ms += 50
    shard.send_plain(1)
    assert shard.machine.queues.time_ms == 1_000
    shard.configure(CARDS)
    shard.now_ms += 50
    shard.send_plain(1)
    assert shard.machine.queues.time_ms == 1_100


def test_somebody_should_turn_the_clock_when_the_first_thing_is_due() -> None:
    shard = QueueShard(CARDS, WorkRules(lease_ms=100))
    assert shard.machine.queues.due_ms() is None
    shard.send(message(), message(delay_ms=70), message(ttl_ms=900))
    assert shard.machine.queues.due_ms() == 1_070
    lease = shard.acquire(1, lease_ms=20)
    assert shard.machine.queues.due_ms() == 1_020
    shard.ack(lease)
    assert shard.machine.queues.due_ms() == 1_070, "nothing is due for what is done"
    shard.restart()
    assert shard.machine.queues.due_ms() == 1_070
    shard.wait(70)
    assert shard.machine.queues.due_ms() == 1_900


def test_when_the_clock_is_turned_does_not_depend_on_what_was_settled_before() -> None:
    """More is due than one entry may end; a replica that was restored goes about it in the same
    order as one that still has the alarms of leases that were acked."""
    shards = [QueueShard(work=None) for _ in range(2)]
    for number, shard in enumerate(shards):
        shard.do(CreatePartition(partition=TWO))
        for partition in (ONE, TWO):
            rules = WorkRules(lease_ms=100)
            shard.do(OpenWork(partition=partition, group=GROUP, start=EARLIEST, rules=rules))
            shard.do(AppendBatch(partition, build_batch(TURN_STEPS_MAX + 10)))
        early = shard.acquire(1, lease_ms=1)
        shard.ack(early)
        shard.now_ms += 1
        shard.do(Acquire(partition=TWO, group=GROUP, messages_max=1))
        shard.now_ms += 1
        for _ in range(TURN_STEPS_MAX + 5):
            shard.do(Acquire(partition=ONE, group=GROUP, messages_max=1))
        if number:
            shard.restart()
        shard.wait(200)
    assert shards[0].machine.snapshot() == shards[1].machine.snapshot()


@pytest.mark.parametrize(("version", "left"), [(1, [0]), (2, [3, 1, 0])])
def test_a_turn_of_the_clock_is_bounded_over_all_groups(
    version: int, left: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queues, "TURN_STEPS_MAX", 6)
    monkeypatch.setattr(queues, "GROUP_TURN_STEPS", 3)
    shards = [QueueShard(CARDS, None) for _ in range(2)]
    for shard in shards:
        shard.do(UseQueuesVersion(version=version))
        for number in (5, 2, 4, 1, 3):
            shard.open(WorkRules(), f"group {number}")
        shard.send_plain(1)
        for number in (4, 5, 1, 2, 3):
            shard.acquire(group=f"group {number}", lease_ms=10)
    shards[1].restart()
    seen: list[list[int]] = [[], []]
    for shard, leased in zip(shards, seen, strict=True):
        shard.now_ms += 10
        while not leased or leased[-1]:
            shard.do(TurnClock())
            groups = shard.machine.queues.groups(ONE)
            leased.append(sum(work.leased for work in groups.values()))
            if leased[-1]:
                assert shard.machine.queues.due_ms() == shard.now_ms, "the clock is turned again"
                assert groups["group 1"].leased == 0, "the first by name"
    assert seen == [left, left]
    assert shards[0].machine.snapshot() == shards[1].machine.snapshot()


def test_turning_the_clock_forgets_ids() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.wait(WINDOW_MS)
    assert len(shard.machine.queues.partitions[ONE].ids) == 0


# Waking.


def test_whoever_waits_is_woken_when_something_may_be_there() -> None:
    shard = QueueShard(work=WorkRules(lease_ms=10, in_flight_max=5))
    shard.send_plain(9)
    take = Acquire(partition=ONE, group=GROUP, messages_max=2)
    assert not wakes(shard, take)
    assert not wakes(shard, TurnClock())
    shard.now_ms += 10
    assert wakes(shard, TurnClock()), "leases ended"
    shard.do(take)
    shard.now_ms += 10
    assert wakes(shard, take), "somebody else's lease ended, and there is more than was asked for"


def test_a_verdict_wakes_if_it_makes_something_available() -> None:
    shard = QueueShard(work=WorkRules(in_flight_max=3))
    shard.send_plain(9)

    def verdict(offset: int, verdict: Verdict) -> bool:
        one = Settlement(Offset(offset), Offset(offset + 1), epoch, verdict, 0)
        return wakes(shard, Settle(partition=ONE, group=GROUP, settlements=(one,)))

    epoch = shard.acquire(3).epoch
    assert verdict(0, Verdict.ACK), "there is room in flight again"
    assert not verdict(1, Verdict.ACK)
    assert verdict(2, Verdict.RELEASE)


def test_a_line_that_moves_on_wakes() -> None:
    shard = QueueShard(FIFO)
    shard.send(message(delay_ms=500), message(delay_ms=500, ttl_ms=50), message())
    assert wakes(shard, Cancel(partition=ONE, group=GROUP, offsets=(Offset(0),)))
    shard.now_ms += 50
    assert wakes(shard, TurnClock())
    lease = shard.acquire()
    assert lease.offsets == [2]
    one = Settlement(Offset(2), Offset(3), lease.epoch, Verdict.ACK)
    assert wakes(shard, Settle(partition=ONE, group=GROUP, settlements=(one,)))


@pytest.mark.parametrize(
    "request_",
    [
        ConfigureQueue(partition=ONE, rules=QueueRules()),
        OpenWork(partition=ONE, group="new", start=EARLIEST, rules=WorkRules()),
        ResetWork(partition=ONE, group=GROUP, start=EARLIEST),
        RequeueDead(partition=ONE, group=GROUP),
    ],
    ids=lambda request: type(request).__name__,
)
def test_what_people_do_wakes(request_: Request) -> None:
    assert wakes(QueueShard(), request_)


# Changing the rules.


def test_messages_that_are_there_stand_in_the_new_order() -> None:
    shard = QueueShard(CARDS)
    shard.send(*[message(group=group) for group in (b"a", b"a", b"b")])
    lease = shard.acquire(1)
    shard.configure(FIFO)
    assert shard.offsets(9) == [2], "0 is leased"
    shard.ack(lease)
    assert shard.offsets(9) == [1]
    shard.configure(CARDS)
    shard.send(message(group=b"a"))
    assert shard.offsets(9) == [3], "nothing holds up a tenant"


def test_rules_count_for_what_comes_after_them() -> None:
    shard = QueueShard()
    shard.send(message(delay_ms=50))
    shard.configure(CARDS)
    shard.send(message(delay_ms=50))
    assert shard.offsets(9) == [0]


def test_a_partition_that_nobody_asked_about_costs_nothing() -> None:
    shard = QueueShard(work=None)
    before = shard.machine.queues.snapshot()
    shard.send(message(delay_ms=50))
    assert shard.machine.queues.snapshot() == before
    assert shard.machine.queues.rules(ONE) is None
    assert shard.machine.queues.groups(ONE) == {}


# Snapshots.


def test_a_snapshot_holds_everything() -> None:
    rules = QueueRules(delivery_headers=True, deduplication=Deduplication.ID)
    work = WorkRules(lease_ms=100, deliveries_max=2, retry=Retry.FIXED, retry_ms=30)
    shard = QueueShard(rules, work)
    shard.send(*[message(dedup=b"%d" % number) for number in range(6)], message(delay_ms=500))
    lease = shard.acquire(4)
    shard.ack(lease, 0)
    shard.release(lease, 1)
    shard.reject(lease, 2, reason="why")
    shard.restart()
    assert shard.counts() == (2, 1, 2, 1)
    assert shard.work.dead_offsets(9)[0].reason == "why"
    assert shard.machine.queues.time_ms == 1_000
    assert shard.ack(lease, 3) == [DONE]
    shard.send(message(dedup=b"0"))
    assert shard.work.tally.duplicates == 1
    shard.wait(30)
    assert [run[:3] for run in shard.acquire(1).runs] == [(1, 2, 2)]
    shard.wait(470)
    assert shard.offsets(9) == [4, 5, 6]


def test_a_snapshot_of_before_there_were_queues_is_understood() -> None:
    shard = QueueShard(work=None)
    parts = msgspec.msgpack.decode(shard.machine.snapshot())
    old = ShardMachine()
    old.restore(msgspec.msgpack.encode(parts[:3]))
    assert old.bounds(ONE) == (0, 0)
    assert not old.queues.partitions


@pytest.mark.parametrize("junk", [b"", b"\xc1", msgspec.msgpack.encode([99, 0, []])])
def test_a_snapshot_of_a_later_version_is_refused(junk: bytes) -> None:
    shard = QueueShard()
    before = shard.machine.queues.snapshot()
    with pytest.raises(UnsupportedVersion):
        shard.machine.queues.restore(junk)
    assert shard.machine.queues.snapshot() == before


def test_an_acquire_says_why_there_is_nothing() -> None:
    shard = QueueShard(work=WorkRules(in_flight_max=1))
    shard.send_plain(2)
    take = Acquire(partition=ONE, group=GROUP, messages_max=1)
    replies = [shard.do(take) for _ in range(2)]
    assert [isinstance(reply, Acquired) and reply.full for reply in replies] == [False, True]
