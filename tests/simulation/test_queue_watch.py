"""Every promise about queues can be found broken."""

from collections.abc import Callable

import msgspec
import pytest

from penstock.core import delivery_headers
from penstock.core.entries import Entry, EntryKind
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import QueueRules, WorkRules
from penstock.core.types import EARLIEST, Index, Offset, Term
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines import (
    AppendBatch,
    Applied,
    CreatePartition,
    Refused,
    Reply,
    Request,
)
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    ConfigureQueue,
    OpenWork,
    Recall,
    ResetWork,
    Settle,
    Settlement,
    TurnClock,
)
from penstock.machines.queues import Acquired, QueueChanged, Settled
from penstock.machines.run import State
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.work_records import GrantedRun
from tests.planned_entry import planned_entry
from tests.queue_model import QueueModel
from tests.simulation.checkers import Violation
from tests.simulation.history import Outcome as Sending
from tests.simulation.queue_watch import GROUP, QUEUE, QueueSend, QueueWatch

TAKE = Acquire(partition=QUEUE, group=GROUP, messages_max=1)
Change = Callable[[Reply], Reply]


class Rig:
    """One machine, watched; what it answers can be changed before the watch sees it."""

    def __init__(self, *, fifo: bool = False) -> None:
        self.machine = ShardMachine()
        self.watch = QueueWatch(lambda _: None)
        self.index = 0
        self.now_ms = 1_000
        self.do(CreatePartition(partition=QUEUE))
        self.do(ConfigureQueue(partition=QUEUE, rules=QueueRules(delivery_headers=True, fifo=fifo)))
        self.do(OpenWork(partition=QUEUE, group=GROUP, start=EARLIEST, rules=WorkRules()))
        self.sends = [self.send(b"%d" % number) for number in range(3)]

    @property
    def model(self) -> QueueModel:
        assert self.watch.model is not None
        return self.watch.model

    def send(self, value: bytes, *, known: bool = True, failed: bool = False) -> QueueSend:
        send = QueueSend(value, group=b"g")
        if known:
            self.watch.begin(send)
        if failed:
            send.outcome = Sending.FAILED
        message = NewMessage(value, None, ((delivery_headers.GROUP, b"g"),))
        self.do(AppendBatch(QUEUE, build_messages([message], self.now_ms)))
        return send

    def do(self, request: Request, change: Change = lambda reply: reply) -> Reply:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        self.index += 1
        entry = planned_entry(plan, self.index)
        applied = self.machine.apply(entry)
        changed = Applied((change(applied.replies[0]),))
        self.watch.saw_applied("n1", self.machine, entry, changed)
        return changed.replies[0]

    def take(self, **changes: object) -> Acquired:
        reply = self.do(TAKE, lambda reply: msgspec.structs.replace(reply, **changes))
        assert isinstance(reply, Acquired)
        return reply

    def other_replica(self, reply: Reply) -> None:
        """It answers the last entry like this."""
        entry = Entry(Index(self.index), Term(1), EntryKind.NOOP, b"")
        self.watch.saw_applied("n2", self.machine, entry, Applied((reply,)))

    def verdict(self, epoch: int) -> Settlement:
        return Settlement(Offset(0), Offset(1), epoch, Verdict.ACK)

    def ack(self, epoch: int, change: Change = lambda reply: reply) -> None:
        self.do(Settle(partition=QUEUE, group=GROUP, settlements=(self.verdict(epoch),)), change)


def _state(rig: Rig, state: State) -> None:
    one = rig.model.left[0]
    one.state, one.at_ms = state, 99_999
    rig.take()


def _gone(rig: Rig) -> None:
    del rig.model.left[0]
    rig.take()


def _duplicate(rig: Rig) -> None:
    rig.watch.duplicates.add(0)
    _gone(rig)


def _uncounted(rig: Rig) -> None:
    del rig.model.left[2]
    rig.do(TurnClock())


def _other_state(rig: Rig) -> None:
    rig.model.left[1].deliveries += 1
    rig.watch.compare_state("n1", rig.machine)


def _unconserved(rig: Rig) -> None:
    work = rig.machine.queues.work(QUEUE, GROUP)
    assert work is not None
    work.tally.acked += 1
    rig.watch.check_conserved("n1", rig.machine)


def _late(rig: Rig) -> None:
    rig.watch.time_ms += 1
    rig.do(TurnClock())


def _wrong_cards(rig: Rig) -> None:
    rig.do(ResetWork(partition=QUEUE, group=GROUP, start=EARLIEST))
    card_ = (Offset(0), 4, b"other", -1, -1)
    rig.do(
        Recall(
            partition=QUEUE, group=GROUP, first=Offset(0), end=Offset(3), delivery_headers=(card_,)
        )
    )


def _still_due(rig: Rig) -> None:
    rig.take()
    rig.now_ms += 30_000
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rig.machine.queues, "_turn_clock", lambda: Applied((QueueChanged(),)))
        rig.do(TurnClock())


def _uncommitted(rig: Rig) -> None:
    began = rig.watch.moment()
    reply = rig.take()
    other = (GrantedRun(Offset(1), Offset(2), 1, 1_000),)
    rig.watch.received(began, msgspec.structs.replace(reply, runs=other))


def _received_again(rig: Rig) -> None:
    reply = rig.take()
    rig.watch.settled(rig.watch.moment(), rig.verdict(reply.epoch), Outcome.DONE)
    rig.watch.received(rig.watch.moment(), reply)


def _superseded(rig: Rig) -> None:
    first = rig.take()
    rig.now_ms += 30_000
    second = rig.take()
    assert second.runs[0].first == 0
    rig.watch.received(rig.watch.moment(), second)
    rig.watch.settled(rig.watch.moment(), rig.verdict(first.epoch), Outcome.DONE)


def _changed_count(rig: Rig) -> None:
    rig.do(Cancel(partition=QUEUE, group=GROUP, offsets=(Offset(0),)), lambda _: QueueChanged(7))


def _other_answer(rig: Rig) -> None:
    reply = rig.take()
    rig.other_replica(reply)
    rig.other_replica(msgspec.structs.replace(reply, epoch=9))


SECOND = (GrantedRun(Offset(1), Offset(2), 1, 1_000),)
TWICE = (GrantedRun(Offset(0), Offset(1), 2, 1_000),)
BREAKS: dict[str, Callable[[Rig], object]] = {
    "Conserved": _unconserved,
    "ClockIsTurned": _still_due,
    "DeliveriesAreCounted": lambda rig: rig.take(runs=TWICE),
    "DuplicatesAreSuppressed": _duplicate,
    "EqualAnswers": _other_answer,
    "FailedMeansNot": lambda rig: rig.send(b"failed", failed=True),
    "FencedReceipt": _superseded,
    "FreshEpoch": lambda rig: rig.take(epoch=5),
    "GrantIsCommitted": _uncommitted,
    "LeaseLasts": lambda rig: rig.take(until_ms=5),
    "LogTime": _late,
    "NeverEarly": lambda rig: _state(rig, State.DELAYED),
    "NoFalseRefusal": lambda rig: rig.do(TAKE, lambda _: Refused("UnknownWork", "")),
    "NoResurrection": _gone,
    "NothingFromNowhere": lambda rig: rig.send(b"nobody's", known=False),
    "NothingLost": lambda rig: rig.watch.acknowledged(rig.sends[0], 1),
    "OneLease": lambda rig: _state(rig, State.LEASED),
    "OnlyTheHolderSettles": lambda rig: rig.ack(3, lambda _: Settled((Outcome.DONE,))),
    "QueueCounts": _uncounted,
    "QueueDrains": lambda rig: rig.watch.check_final(),
    "QueueState": _other_state,
    "RightCards": _wrong_cards,
    "RightCount": _changed_count,
    "RightGrant": lambda rig: rig.do(TAKE, lambda _: QueueChanged()),
    "RightOrder": lambda rig: rig.take(runs=SECOND),
    "TheDeadStayDead": lambda rig: _state(rig, State.DEAD),
}


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_promise_can_be_broken(name: str) -> None:
    rig = Rig()
    with pytest.raises(Violation, match=f"^{name}:"):
        BREAKS[name](rig)


def test_lines_can_be_out_of_order() -> None:
    rig = Rig(fifo=True)
    with pytest.raises(Violation, match="^LineOrder:"):
        rig.take(runs=SECOND)


def test_what_was_acked_for_a_client_must_not_come_back() -> None:
    with pytest.raises(Violation, match="^NoResurrection:"):
        _received_again(Rig())


def test_a_queue_that_keeps_its_promises_is_left_alone() -> None:
    rig = Rig()
    for offset, send in enumerate(rig.sends):
        rig.watch.acknowledged(send, offset)
    for _ in range(3):
        began = rig.watch.moment()
        reply = rig.take()
        rig.other_replica(reply)
        rig.watch.received(began, reply)
        first = reply.runs[0].first
        verdict = Settlement(first, Offset(first + 1), reply.epoch, Verdict.ACK)
        rig.do(Settle(partition=QUEUE, group=GROUP, settlements=(verdict,)))
        rig.watch.settled(began, verdict, Outcome.DONE)
        rig.watch.compare_state("n1", rig.machine)
    rig.watch.check_final()
