"""The delivery history against the queues: it ends, for every message, where the message is.

Chance plays senders, workers, an operator and a clock. A message that is leased was delivered, in
its story, under that lease, to that receiver and until then, and nothing has happened since; one
that is dead has died; one that waits is in nobody's hand.
"""

from itertools import count
from random import Random

import pytest

from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Dead, QueueRules, Retry, WorkRules
from penstock.core.types import EARLIEST, Offset, PartitionId, Term
from penstock.core.verdicts import Verdict
from penstock.engine.delivery.leader import STATE_NAMES
from penstock.engine.inspection.traces.timeline import LEASES, notes_of, tell
from penstock.engine.replica.delivery_history import DeliveryHistory
from penstock.machines import (
    AppendBatch,
    CreatePartition,
    Reply,
    Request,
)
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    ConfigureQueue,
    CumulativeAck,
    OpenWork,
    Purge,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
    TurnClock,
)
from penstock.machines.queues import Acquired
from penstock.machines.run import Run
from penstock.machines.run import State as RunState
from penstock.machines.shard_machine import ShardMachine
from penstock.wire.trace_requests import Happening, State
from tests.planned_entry import planned_entry

pytestmark = pytest.mark.slow

PARTITION = PartitionId(1)
GROUPS = ("a", "b")
STEPS = 150
IN_HAND = (*LEASES, "extended", "too late")


class Play:
    """One shard, and the history of one of its replicas."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.machine = ShardMachine()
        self.history = DeliveryHistory()
        self.names = count(1)
        self.receivers: dict[tuple[str, int], str] = {}
        self.held: list[tuple[str, Offset, Offset, int]] = []
        self.index, self.now_ms, self.end = 0, 1_000, 0
        rules = WorkRules(
            lease_ms=50,
            deliveries_max=self.random.choice([0, 2, 3]),
            retry=self.random.choice([Retry.NONE, Retry.FIXED]),
            retry_ms=20,
            dead=self.random.choice([Dead.ARCHIVE, Dead.MOVE]),
        )
        self.do(CreatePartition(partition=PARTITION))
        self.do(ConfigureQueue(partition=PARTITION, rules=QueueRules()))
        for group in GROUPS:
            self.do(OpenWork(partition=PARTITION, group=group, start=EARLIEST, rules=rules))

    def do(self, request: Request) -> Reply:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        self.index += 1
        entry = planned_entry(plan, self.index)
        applied = self.machine.apply(entry)
        self.history.note(entry, applied.replies)
        return applied.replies[0]

    # What happens.

    def step(self) -> None:
        acts = [self.send, self.receive, self.receive, self.settle, self.settle, self.wait]
        self.random.choice([*acts, self.take, self.operate])()

    def send(self) -> None:
        number = self.random.randint(1, 5)
        batch = build_messages([NewMessage(b"x")] * number, self.now_ms)
        self.do(AppendBatch(PARTITION, batch))
        self.end += number

    def receive(self) -> None:
        self.acquire(())

    def take(self) -> None:
        self.acquire(tuple(self.some()))

    def acquire(self, offsets: tuple[Offset, ...]) -> None:
        group, name = self.random.choice(GROUPS), f"worker-{next(self.names)}"
        reply = self.do(
            Acquire(
                partition=PARTITION,
                group=group,
                messages_max=self.random.randint(1, 6),
                offsets=offsets,
                receiver=name,
            )
        )
        assert isinstance(reply, Acquired)
        if reply.runs:
            self.receivers[group, reply.epoch] = name
        self.held += [(group, run.first, run.end, reply.epoch) for run in reply.runs]

    def settle(self) -> None:
        if not self.held:
            return
        group, first, end, epoch = self.random.choice(self.held[-8:])
        low = self.random.randint(first, end - 1)
        high = self.random.randint(low + 1, end)
        verdict = self.random.choice(list(Verdict))
        delay_ms = self.random.choice([-1, 0, 30])
        one = Settlement(Offset(low), Offset(high), epoch, verdict, delay_ms, "why")
        self.do(Settle(partition=PARTITION, group=group, settlements=(one,)))

    def operate(self) -> None:
        group, offsets = self.random.choice(GROUPS), tuple(self.some())
        first = Offset(self.random.randint(0, self.end))
        dead = tuple((one, "bad") for one in offsets)
        self.do(
            self.random.choice(
                [
                    RequeueDead(partition=PARTITION, group=group),
                    RequeueDead(partition=PARTITION, group=group, offsets=offsets),
                    RemoveDead(partition=PARTITION, group=group, offsets=self.dead(group)),
                    RemoveDead(partition=PARTITION, group=group, offsets=self.dead(group)),
                    Cancel(partition=PARTITION, group=group, offsets=offsets),
                    CumulativeAck(
                        partition=PARTITION,
                        group=group,
                        first=first,
                        end=Offset(first + 3),
                        dead=dead,
                    ),
                    Purge(partition=PARTITION, group=group),
                    ResetWork(partition=PARTITION, group=group, start=first),
                ]
            )
        )

    def wait(self) -> None:
        self.now_ms += self.random.choice([1, 10, 60])
        self.do(TurnClock())

    def dead(self, group: str) -> tuple[Offset, ...]:
        work = self.machine.queues.work(PARTITION, group)
        assert work is not None
        return tuple(one.offset for one in work.dead_offsets(2))

    def some(self) -> list[Offset]:
        return [Offset(self.random.randint(0, self.end)) for _ in range(3)]

    # What must hold.

    def check(self) -> None:
        lines = [line for page in self.history.pages() for line in page]
        for offset in map(Offset, range(self.end)):
            notes = list(notes_of(lines, PARTITION, offset))
            for group in GROUPS:
                work = self.machine.queues.work(PARTITION, group)
                assert work is not None
                run = work.run_at(offset)
                if run is not None:
                    state = State(
                        group=group,
                        state=STATE_NAMES[run.state],
                        deliveries=run.deliveries,
                        until_ms=run.at_ms,
                    )
                    told = tell(notes, [state], self.machine.queues.time_ms)
                    self.compare(group, [one for one in told if one.group == group], run)

    def compare(self, group: str, story: list[Happening], run: Run) -> None:
        whats = [one.what for one in story]
        if run.state is RunState.DEAD:
            assert {"rejected", "died"} & set(whats), (run, whats)
        elif run.state is RunState.LEASED and run.at_ms <= self.machine.queues.time_ms:
            assert "lease ended" in whats, "the queue will see it when somebody asks"
        elif run.state is RunState.LEASED:
            begun = max(number for number, one in enumerate(story) if one.what in LEASES)
            since = story[begun:]
            assert all(one.what in IN_HAND for one in since), (run, since)
            assert since[0].receiver == self.receivers[group, run.epoch]
            assert [one.until_ms for one in since if one.until_ms is not None][-1] == run.at_ms
            assert since[0].deliveries == run.deliveries
        elif whats:
            last = next((what for what in reversed(whats) if what != "too late"), "")
            assert last not in LEASES, (run, whats)


@pytest.mark.parametrize("seed", range(12))
def test_stories_end_where_messages_are(seed: int) -> None:
    play = Play(seed)
    for _ in range(STEPS):
        play.step()
        play.check()


def test_the_play_reaches_what_it_is_about() -> None:
    play = Play(0)
    for _ in range(10 * STEPS):
        play.step()
    lines = [line for page in play.history.pages() for line in page]
    seen = {
        one.what
        for offset in map(Offset, range(play.end))
        for one in tell(notes_of(lines, PARTITION, offset), (), play.now_ms)
    }
    assert seen >= {
        "delivered", "acked", "released", "rejected", "extended", "returned", "lease ended",
        "too late", "taken", "moved", "revived", "buried", "cancelled", "covered", "purged",
        "reset",
    }  # fmt: skip
