"""The queues of a shard against a model that looks at every message by itself.

Hypothesis plays senders, workers who hold their leases too long, an operator and a clock. Two work
groups with rules of their own look at one partition. After every step the whole state must be the
model's (`tests/queue_model.py`), every message must be in exactly one place, and what is handed out
must be what should have been.

Beside the leader run a follower and a replica that starts again and again from a snapshot: all
three must be equal, byte for byte, in what they answer and in when they want to be woken.
"""

from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from penstock.core import delivery_headers
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import (
    DEFAULT_PRIORITY,
    Dead,
    Deduplication,
    Priorities,
    QueueRules,
    Retry,
    WorkRules,
)
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId
from penstock.core.verdicts import LATE, Verdict
from penstock.machines import AppendBatch, CreatePartition, Reply, Request, TrimPartition
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    CloseWork,
    ConfigureQueue,
    CumulativeAck,
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
from penstock.machines.queues import (
    REQUEUE_VERSION,
    Acquired,
    CumulativeAckResult,
    QueueChanged,
    Settled,
)
from penstock.machines.run import State
from penstock.machines.shard_machine import ShardMachine
from tests.queue_model import WAITING, One, QueueModel, unconserved, view_of
from tests.queue_replicas import QueueReplicas

pytestmark = pytest.mark.slow

PARTITION = PartitionId(1)
GROUPS = st.sampled_from(["a", "b"])
MODES = st.sampled_from(list(Priorities))
QUEUE_RULES = st.builds(
    QueueRules,
    delivery_headers=st.booleans(),
    fifo=st.booleans(),
    priorities=MODES,
    delay_ms=st.sampled_from([0, 0, 15]),
    ttl_ms=st.sampled_from([-1, -1, 60]),
    deduplication=st.sampled_from(list(Deduplication)),
    deduplication_ms=st.sampled_from([40, 40, 15]),
    deduplication_by_group=st.booleans(),
    length_max=st.sampled_from([-1, 8]),
    drops_oldest=st.booleans(),
)
# No chance in retries: messages that failed together draw one delay, and the model knows no runs.
WORK_RULES = st.builds(
    WorkRules,
    lease_ms=st.sampled_from([1, 20, 100]),
    deliveries_max=st.sampled_from([0, 1, 3]),
    retry=st.sampled_from([Retry.NONE, Retry.FIXED, Retry.LINEAR, Retry.EXPONENTIAL]),
    retry_ms=st.just(8),
    retry_max_ms=st.just(30),
    dead=st.sampled_from(list(Dead)),
    in_flight_max=st.sampled_from([4, 100]),
)


def _number(most: int) -> st.SearchStrategy[int | None]:
    return st.none() | st.integers(0, most)


MESSAGES = st.lists(
    st.fixed_dictionaries(
        {
            "value": st.sampled_from([b"", b"x", b"y"]),
            "key": st.sampled_from([None, None, b"k"]),
            delivery_headers.GROUP: st.sampled_from([None, None, b"g", b"h"]),
            delivery_headers.PRIORITY: _number(12),
            delivery_headers.DELAY: _number(40),
            delivery_headers.TTL: _number(80),
            delivery_headers.DELIVER_AT: st.sampled_from([None, None, None, 1_030]),
            delivery_headers.EXPIRE_AT: st.sampled_from([None, None, None, 1_050]),
            delivery_headers.DEDUP_ID: st.sampled_from([None, None, None, b"1", b"2"]),
            delivery_headers.ORIGIN: st.sampled_from([None, None, None, b"1", b"2"]),
        }
    ),
    min_size=1,
    max_size=5,
)


class QueuesPlay(RuleBasedStateMachine):
    """One shard on three replicas, and a model for each of its work groups."""

    def __init__(self) -> None:
        super().__init__()
        self.replicas = QueueReplicas()
        self.models: dict[str, QueueModel] = {}
        self.held: list[tuple[str, int, int, int]] = []
        self.seen: dict[tuple[object, ...], int] = {}
        self.origins: set[object] = set()
        self.epochs: dict[str, int] = {}
        self.now_ms = 1_000
        self.log: list[tuple[dict[str, object], int]] = []

    @initialize(rules=QUEUE_RULES, first=WORK_RULES, second=WORK_RULES)
    def begin(self, rules: QueueRules, first: WorkRules, second: WorkRules) -> None:
        self.queue = rules
        self.do(CreatePartition(partition=PARTITION))
        self.do(ConfigureQueue(partition=PARTITION, rules=rules))
        for name, work in (("a", first), ("b", second)):
            self.open(name, work, EARLIEST)

    # Senders.

    @rule(said=MESSAGES)
    def send(self, said: list[dict[str, object]]) -> None:
        made = []
        for one in said:
            headers = tuple(
                (name, value if isinstance(value, bytes) else str(value).encode())
                for name, value in one.items()
                if name.startswith(delivery_headers.PREFIX) and value is not None
            )
            made.append(NewMessage(one["value"], one["key"], headers))  # type: ignore[arg-type]
        self.do(AppendBatch(PARTITION, build_messages(made, self.now_ms)))
        now_ms = self.leader.queues.time_ms
        if self.queue.reads_messages:
            self.forget_ids()
        for one in said:
            self.model_append(one, now_ms)
        for model in self.models.values():
            model.drop_oldest()

    def model_append(self, said: dict[str, object], now_ms: int) -> None:
        offset = len(self.log)
        self.log.append((said, now_ms))
        duplicate = self.is_duplicate(said, self.told(offset).message_group, now_ms)
        for model in self.models.values():
            if duplicate:
                model.done["duplicates"] += 1
            else:
                model.left[offset] = self.told(offset)

    def told(self, offset: int) -> One:
        """What the cards and the rules make of a message, said once more."""
        rules = self.queue
        said, now_ms = self.log[offset]

        def number(name: str, default: int) -> int:
            value = said[name] if rules.delivery_headers else None
            return value if isinstance(value, int) else default

        message_group = said[delivery_headers.GROUP] if rules.delivery_headers else None
        if rules.fifo:
            message_group = message_group or said["key"] or b""
        level = DEFAULT_PRIORITY
        if rules.priorities is not Priorities.OFF:
            level = min(number(delivery_headers.PRIORITY, level), 9)
        at_ms = max(
            now_ms + number(delivery_headers.DELAY, rules.delay_ms),
            number(delivery_headers.DELIVER_AT, 0),
        )
        ttl_ms = number(delivery_headers.TTL, rules.ttl_ms)
        ends = [now_ms + ttl_ms] * (ttl_ms >= 0)
        ends += [end_ms for end_ms in [number(delivery_headers.EXPIRE_AT, -1)] if end_ms >= 0]
        one = One(offset, message_group, level, min(ends, default=-1))  # type: ignore[arg-type]
        if at_ms > now_ms:
            one.state, one.at_ms = State.DELAYED, at_ms
        return one

    def is_duplicate(
        self, said: dict[str, object], message_group: bytes | None, now_ms: int
    ) -> bool:
        if self.queue.delivery_headers and (origin := said[delivery_headers.ORIGIN]) is not None:
            seen = origin in self.origins
            self.origins.add(origin)
            return seen
        one = said[delivery_headers.DEDUP_ID]
        if self.queue.deduplication is Deduplication.OFF:
            return False
        if one is None:
            if self.queue.deduplication is not Deduplication.CONTENT:
                return False
            one = ("content", said["value"])
        key = (one, message_group or b"") if self.queue.deduplication_by_group else (one,)
        if key in self.seen:
            return True
        self.seen[key] = now_ms
        return False

    def forget_ids(self) -> None:
        after_ms = self.leader.queues.time_ms - self.queue.deduplication_ms
        self.seen = {one: seen_ms for one, seen_ms in self.seen.items() if seen_ms > after_ms}

    # Workers.

    @rule(group=GROUPS, most=st.integers(1, 6), lease_ms=st.sampled_from([-1, -1, 0, 10]))
    def acquire(self, group: str, most: int, lease_ms: int) -> None:
        request = Acquire(partition=PARTITION, group=group, messages_max=most, lease_ms=lease_ms)
        reply, model = self.do(request), self.turned(group)
        assert isinstance(reply, Acquired)
        granted = self.granted(reply)
        assert not (complaint := model.complaint(granted, most)), complaint
        self.lease(group, reply, granted, lease_ms, counts=True)

    @rule(group=GROUPS, data=st.data())
    def acquire_these(self, group: str, data: st.DataObject) -> None:
        offsets = self.some(group, data)
        request = Acquire(
            partition=PARTITION,
            group=group,
            messages_max=len(offsets),
            offsets=tuple(map(Offset, offsets)),
        )
        reply, model = self.do(request), self.turned(group)
        assert isinstance(reply, Acquired)
        granted = self.granted(reply)
        assert granted == self.pick(model, offsets)
        self.lease(group, reply, granted, -1, counts=False)

    def pick(self, model: QueueModel, offsets: list[int]) -> list[int]:
        leased = [one for one in model.left.values() if one.state is State.LEASED]
        held = {one.message_group for one in leased} if self.queue.fifo else set()
        found: list[int] = []
        if model.recalled < model.recall_end:
            return found
        for offset in offsets[: max(model.work.in_flight_max - len(leased), 0)]:
            one = model.left.get(offset)
            if one is not None and one.state in WAITING and one.message_group not in held:
                found += [offset] * (offset not in found)
        return found

    def granted(self, reply: Acquired) -> list[int]:
        return [offset for run in reply.runs for offset in range(run.first, run.end)]

    def lease(
        self, group: str, reply: Acquired, granted: list[int], lease_ms: int, *, counts: bool
    ) -> None:
        model = self.models[group]
        before = model.epoch
        lease_ms = model.work.lease_ms if lease_ms < 0 else lease_ms
        assert reply.until_ms == self.leader.queues.time_ms + lease_ms
        model.lease(granted, reply.until_ms, counts=counts)
        assert reply.epoch == model.epoch == before + bool(granted)
        for run in reply.runs:
            self.held.append((group, run.first, run.end, reply.epoch))
            for offset in range(run.first, run.end):
                assert run.deliveries == model.left[offset].deliveries

    @precondition(lambda self: self.held)
    @rule(
        data=st.data(),
        verdict=st.sampled_from(list(Verdict)),
        delay_ms=st.sampled_from([-1, 0, 12, 50]),
        off=st.sampled_from([0, 0, 0, 0, 1]),
        reason=st.sampled_from(["", LATE]),
    )
    def settle(
        self, data: st.DataObject, verdict: Verdict, delay_ms: int, off: int, reason: str
    ) -> None:
        """About a part of something that was held once, and perhaps still is."""
        group, first, end, epoch = data.draw(st.sampled_from(self.held))
        low = data.draw(st.integers(first, end - 1))
        high = data.draw(st.integers(low + 1, end)) + off
        self.say(group, low, high, epoch + off, verdict, delay_ms, reason)

    @rule(group=GROUPS, most=st.integers(1, 6), verdict=st.sampled_from(list(Verdict)))
    def deliver(self, group: str, most: int, verdict: Verdict) -> None:
        """Somebody gets messages and is done with them at once, one way or another."""
        before = len(self.held)
        self.acquire(group, most, -1)
        for name, first, end, epoch in self.held[before:]:
            self.say(name, first, end, epoch, verdict, 0)

    def say(
        self,
        group: str,
        low: int,
        high: int,
        epoch: int,
        verdict: Verdict,
        delay_ms: int,
        reason: str = "",
    ) -> None:
        said = Settlement(Offset(low), Offset(high), epoch, verdict, delay_ms, reason)
        reply = self.do(Settle(partition=PARTITION, group=group, settlements=(said,)))
        assert isinstance(reply, Settled)
        model = self.turned(group)
        assert reply.outcomes == (model.settle(said, self.leader.queues.time_ms),)

    @rule(
        group=GROUPS,
        data=st.data(),
        far=st.integers(0, 6),
        stream=st.sampled_from(["", "", "s", "t"]),
        batch=st.integers(0, 9),
    )
    def ack_cumulatively(
        self, group: str, data: st.DataObject, far: int, stream: str, batch: int
    ) -> None:
        """Somebody who reads the log is done with a stretch of it; some of it, or elsewhere, has
        failed."""
        first = data.draw(st.integers(0, len(self.log)))
        end = first + far
        dead = self.some(group, data) if data.draw(st.booleans()) else []
        command = CumulativeAck(
            partition=PARTITION,
            group=group,
            first=Offset(first),
            end=Offset(end),
            dead=tuple((Offset(offset), "bad") for offset in dead),
            stream=stream,
            batch=batch,
        )
        reply, model = self.do(command), self.turned(group)
        assert reply == CumulativeAckResult(
            model.ack_cumulatively(first, end, dead, self.leader.queues.time_ms, (stream, batch)),
            Offset(end),
        )

    # People, and time.

    @precondition(lambda self: self.leader.queues.version < REQUEUE_VERSION)
    @rule()
    def upgrade(self) -> None:
        """The last node of the release before has gone."""
        assert self.do(UseQueuesVersion(version=REQUEUE_VERSION)) == QueueChanged()
        for model in self.models.values():
            model.requeues = True

    @rule(
        group=GROUPS,
        what=st.sampled_from(["revive", "revive all", "bury", "cancel", "purge", "trim"]),
        data=st.data(),
    )
    def operate(self, group: str, what: str, data: st.DataObject) -> None:
        model, offsets = self.models[group], self.some(group, data)
        places = tuple(map(Offset, offsets))
        match what:
            case "revive":
                command = RequeueDead(partition=PARTITION, group=group, offsets=places)
                self.count(command, model.requeue_dead(offsets))
            case "revive all":
                self.count(RequeueDead(partition=PARTITION, group=group), model.requeue_dead(()))
            case "bury":
                self.remove_dead(
                    group, data.draw(st.integers(1, 3)), discarded=data.draw(st.booleans())
                )
            case "cancel":
                self.count(
                    Cancel(partition=PARTITION, group=group, offsets=places), model.cancel(offsets)
                )
            case "purge" if data.draw(st.integers(0, 3)) == 0:
                self.seen.clear()
                self.count(Purge(partition=PARTITION, group=group), model.purge())
            case "trim":
                self.trim(data.draw(st.integers(0, 8)))
            case _:
                pass

    def some(self, group: str, data: st.DataObject) -> list[int]:
        """Messages that are left, and perhaps one that is not."""
        there = sorted(self.models[group].left)
        return data.draw(st.lists(st.sampled_from([*there, 0, 7]), min_size=1, max_size=4))

    def remove_dead(self, group: str, most: int, *, discarded: bool) -> None:
        work = self.leader.queues.work(PARTITION, group)
        assert work is not None
        offsets = tuple(one.offset for one in work.dead_offsets(most))
        model = self.models[group]
        assert len(offsets) == min(most, sum(one[0] is State.DEAD for one in model.view().values()))
        request = RemoveDead(partition=PARTITION, group=group, offsets=offsets, discarded=discarded)
        self.count(request, model.remove_dead(offsets, discarded=discarded))

    def trim(self, share: int) -> None:
        log_start, end = self.leader.bounds(PARTITION)
        before = log_start + (end - log_start) * share // 16
        if before > log_start:
            self.do(TrimPartition(partition=PARTITION, before=Offset(before)))
            for model in self.models.values():
                model.trim(before)

    def count(self, request: Request, expected: int) -> None:
        assert self.do(request) == QueueChanged(expected)

    @rule(
        group=GROUPS,
        start=st.sampled_from([EARLIEST, LATEST, Offset(3)]),
        closed=st.booleans(),
        told=st.booleans(),
    )
    def start_over(self, group: str, start: Offset, closed: bool, told: bool) -> None:
        if closed:
            self.do(CloseWork(partition=PARTITION, group=group))
            self.open(group, self.models[group].work, start)
        else:
            self.do(ResetWork(partition=PARTITION, group=group, start=start))
            self.model_open(group, self.models[group].work, start)
        if told:
            self.recall(group, len(self.log), 0, fifo=self.queue.fifo)

    def open(self, group: str, work: WorkRules, start: Offset) -> None:
        self.do(OpenWork(partition=PARTITION, group=group, start=start, rules=work))
        self.model_open(group, work, start)

    def model_open(self, group: str, work: WorkRules, start: Offset) -> None:
        opened = self.leader.queues.work(PARTITION, group)
        assert opened is not None
        assert opened.epoch >= self.epochs.get(group, 0), "a receipt of before may fit again"
        model = self.models[group] = QueueModel(
            self.queue,
            work,
            epoch=opened.epoch,
            requeues=self.leader.queues.version >= REQUEUE_VERSION,
            end=lambda: len(self.log),
        )
        log_start, end = self.leader.bounds(PARTITION)
        first = {EARLIEST: log_start, LATEST: end}.get(start, min(max(start, log_start), end))
        for offset in range(first, end):
            model.left[offset] = One(offset, told=False)
        model.recalled, model.recall_end = first, end if self.queue.reads_messages else first

    @rule(
        group=GROUPS,
        most=st.integers(1, 12),
        late=st.sampled_from([0, 0, 0, 1]),
        fifo=st.booleans(),
    )
    def recall(self, group: str, most: int, late: int, fifo: bool) -> None:
        model = self.models[group]
        first = model.recalled - late
        end = min(first + most, model.recall_end)
        said = [self.told(offset) for offset in range(max(first, 0), end)]
        delivery_headers = tuple(
            (Offset(one.offset), one.level, one.message_group, one.at_ms, one.expire_ms)
            for one in said
            if one != One(one.offset)
        )
        command = Recall(
            partition=PARTITION,
            group=group,
            first=Offset(first),
            end=Offset(end),
            delivery_headers=delivery_headers,
            fifo=fifo,
        )
        fits = fifo is self.queue.fifo and model.recall(first, end, said)
        self.count(command, int(fits))

    @rule(
        fifo=st.booleans(),
        priorities=MODES,
        paused=st.sampled_from([False, False, False, True]),
        told=st.booleans(),
    )
    def configure(self, fifo: bool, priorities: Priorities, paused: bool, told: bool) -> None:
        self.use(
            msgspec.structs.replace(self.queue, fifo=fifo, priorities=priorities, paused=paused),
            told=told,
        )

    @rule(rules=QUEUE_RULES, told=st.booleans())
    def configure_anew(self, rules: QueueRules, told: bool) -> None:
        self.use(rules, told=told)

    def use(self, rules: QueueRules, *, told: bool) -> None:
        self.queue = rules
        for name, model in self.models.items():
            work = self.leader.queues.work(PARTITION, name)
            assert work is not None
            looked_at = {one for one in model.left if not work.is_waiting(Offset(one))}
            model.use_rules(rules, len(self.log), looked_at)
        self.do(ConfigureQueue(partition=PARTITION, rules=rules))
        for name in self.models if told else ():
            while self.models[name].recalled < self.models[name].recall_end:
                self.recall(name, len(self.log), 0, fifo=rules.fifo)

    @rule(group=GROUPS, work=WORK_RULES)
    def open_again(self, group: str, work: WorkRules) -> None:
        """A group that is open has other rules from now on."""
        self.do(OpenWork(partition=PARTITION, group=group, start=EARLIEST, rules=work))
        self.models[group].work = work

    @rule(step=st.sampled_from([-20, 1, 5, 10, 60]), turned=st.booleans())
    def let_time_pass(self, step: int, turned: bool) -> None:
        self.now_ms += step
        if turned:
            self.do(TurnClock())
            self.forget_ids()
            for group in self.models:
                self.turned(group)

    def turned(self, group: str) -> QueueModel:
        """The model of a group, after what is due in it has happened."""
        model = self.models[group]
        model.turn(self.leader.queues.time_ms)
        return model

    # What must hold.

    @rule(who=st.integers(0, 2))
    def restore_from_snapshot(self, who: int) -> None:
        """A replica starts anew; if it was the leader, it leads on."""
        self.replicas.restore(who)

    @invariant()
    def replicas_are_equal(self) -> None:
        self.replicas.check_equal()

    @invariant()
    def the_state_is_the_models(self) -> None:
        for name, model in self.models.items():
            work = self.leader.queues.work(PARTITION, name)
            assert work is not None
            assert not (complaint := unconserved(work)), complaint
            assert view_of(work, len(self.log)) == model.view()
            self.epochs[name] = max(self.epochs.get(name, 0), work.epoch)
            for how, count in model.done.items():
                assert getattr(work.tally, how) == count, f"{count} {how}, not {work.tally}"

    @invariant()
    def whoever_turns_the_clock_is_told_when(self) -> None:
        due = []
        for model in self.models.values():
            for one in model.left.values():
                due += [one.at_ms] * (one.state in (State.LEASED, State.DELAYED))
                due += [one.expire_ms] * (one.state in WAITING and one.expire_ms >= 0)
        assert self.leader.queues.due_ms() == min(due, default=None)

    # The machinery.

    @property
    def leader(self) -> ShardMachine:
        return self.replicas.leader

    def do(self, request: Request) -> Reply:
        return self.replicas.do(request, self.now_ms)


TestQueues = QueuesPlay.TestCase
TestQueues.settings = settings(
    max_examples=max(180, settings().max_examples // 2), stateful_step_count=80
)
"""The rest is the profile's: the thorough one looks further here too, with fresh examples."""


def test_a_model_can_complain() -> None:
    model = QueueModel(QueueRules(), WorkRules())
    offsets: Iterable[int] = range(3)
    for offset in offsets:
        model.append(One(offset), 0)
    assert model.complaint([0, 1], 2) == ""
    assert model.complaint([1, 0], 2)
    assert model.complaint([0], 2)
    assert model.complaint([0, 0], 2)
    assert model.complaint([0, 7], 2)
