"""Clients of a queue: senders, workers who get tired, a keeper who looks after it, one who drains,
one who reads the log and covers what it has read.

Senders give some messages ids and repeat those until they know that they are there; that is what
deduplication is for. Workers ack most of what they get; the rest they give back, reject, keep for
longer, or forget because they crash. Whoever gets no answer does not know, and may ask again.
"""

from collections.abc import Callable
from random import Random

import msgspec

from penstock.core import delivery_headers
from penstock.core.errors import LocalError, OutcomeUnknown, PenstockError, Unavailable
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import (
    Dead,
    Deduplication,
    Priorities,
    QueueRules,
    Retry,
    WorkRules,
)
from penstock.core.types import EARLIEST, LATEST, Offset
from penstock.core.verdicts import Verdict
from penstock.engine.replica.replica import Replica
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.machine import Appended, Refused, Reply, Request
from penstock.machines.partitions import AppendBatch
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
)
from penstock.machines.queues import Acquired, CumulativeAckResult, Settled
from penstock.machines.run import State
from penstock.machines.shard_machine import ShardMachine
from tests.simulation.checkers import broken
from tests.simulation.history import History, Outcome
from tests.simulation.node import EPOCH_MS
from tests.simulation.queue_watch import GROUP, QUEUE, QueueSend, QueueWatch
from tests.simulation.timeline import MILLISECOND, Timeline
from tests.simulation.workload import Answered, Client, Door


def draw_rules(random: Random) -> tuple[QueueRules, WorkRules]:
    """What kind of queue it is in this run."""
    length_max = random.choice([-1, -1, -1, 25])
    plain = random.random() < 0.25
    queue = (
        QueueRules()
        if plain
        else QueueRules(
            delivery_headers=random.random() < 0.9,
            fifo=random.random() < 0.4,
            priorities=random.choice([Priorities.OFF, Priorities.STRICT, Priorities.WEIGHTED]),
            delay_ms=random.choice([0, 0, 0, 700]),
            ttl_ms=random.choice([-1, -1, -1, 6_000]),
            deduplication=random.choice(
                [Deduplication.OFF, Deduplication.ID, Deduplication.ID, Deduplication.CONTENT]
            ),
            deduplication_ms=random.choice([300_000, 4_000]),
            deduplication_by_group=random.random() < 0.3,
            length_max=length_max,
            drops_oldest=length_max >= 0,
        )
    )
    work = WorkRules(
        lease_ms=random.choice([400, 2_000, 6_000]),
        deliveries_max=random.choice([0, 1, 3, 3]),
        retry=random.choice([Retry.NONE, Retry.FIXED, Retry.EXPONENTIAL]),
        retry_ms=300,
        retry_max_ms=2_000,
        dead=random.choice(list(Dead)),
        in_flight_max=random.choice([8, 100]),
    )
    return queue, work


class QueueClient(Client):
    """A client of the queue; what it sees is held against the promises."""

    def __init__(
        self, name: str, timeline: Timeline, door: Door, history: History, watch: QueueWatch
    ) -> None:
        super().__init__(name, timeline, door, history)
        self.watch = watch


class Sender(QueueClient):
    """Sends a few messages at a time; those with ids again and again until it knows."""

    pause_us = 350 * MILLISECOND
    _sent = 0

    def act(self) -> None:
        random = self.random
        repeats = random.random() < 0.5
        sends = []
        for _ in range(random.choice([1, 1, 2, 5])):
            self._sent += 1
            send = QueueSend(
                f"{self.name}:{self._sent}".encode(),
                group=random.choice([None, b"a", b"b", b"c"]),
                priority=random.choice([None, None, 0, 7, 9]),
                delay_ms=random.choice([None, None, None, 0, 300, 2_500]),
                ttl_ms=random.choice([None, None, None, None, 1_500]),
                dedup=f"{self.name}/{self._sent}".encode() if repeats else None,
            )
            self.watch.begin(send)
            sends.append(send)
        self._try(sends, 6 if repeats else 1)

    def _try(self, sends: list[QueueSend], left: int) -> None:
        now_ms = EPOCH_MS + self.timeline.now // 1_000
        messages = [_message(send) for send in sends]

        def request() -> Request:
            return AppendBatch(QUEUE, build_messages(messages, now_ms))

        self._submit(request, lambda answer: self._answered(sends, left - 1, answer))

    def _answered(self, sends: list[QueueSend], left: int, answer: Reply | PenstockError) -> None:
        if isinstance(answer, Appended):
            for offset, send in enumerate(sends, answer.base_offset):
                self.watch.acknowledged(send, offset)
            self.timeline.count("message sent")
            self._think()
        elif isinstance(answer, LocalError):
            raise broken("NoFalseRefusal", f"{sends} are refused: {answer!r}")
        elif left:
            self.timeline.count("message sent again")
            self._again(lambda: self._try(sends, left))
        else:
            certain = isinstance(answer, Unavailable) and not self.repeated
            for send in sends:
                if send.dedup is None:
                    send.outcome = Outcome.FAILED if certain else Outcome.UNKNOWN
            self._again(self._think)


def _message(send: QueueSend) -> NewMessage:
    said = {
        delivery_headers.GROUP: send.group,
        delivery_headers.PRIORITY: send.priority,
        delivery_headers.DELAY: send.delay_ms,
        delivery_headers.TTL: send.ttl_ms,
        delivery_headers.DEDUP_ID: send.dedup,
    }
    headers = [
        (name, value if isinstance(value, bytes) else str(value).encode())
        for name, value in said.items()
        if value is not None
    ]
    return NewMessage(send.value, None, tuple(headers))


class Worker(QueueClient):
    """Leases messages and says, mostly, what became of them."""

    pause_us = 200 * MILLISECOND

    def __init__(
        self, name: str, timeline: Timeline, door: Door, history: History, watch: QueueWatch
    ) -> None:
        super().__init__(name, timeline, door, history, watch)
        self.held: list[tuple[int, int, int]] = []

    def act(self) -> None:
        if self.held and self.random.random() < 0.7:
            most = min(len(self.held), self.random.choice([1, 3, 8]))
            self._settle(tuple(self._choose_verdict() for _ in range(most)), 3)
        else:
            self._acquire(
                self.random.choice([1, 2, 4, 10]), self.random.choice([-1, -1, -1, 300, 3_000])
            )

    def _acquire(self, most: int, lease_ms: int) -> None:
        command = Acquire(partition=QUEUE, group=GROUP, messages_max=most, lease_ms=lease_ms)
        began = self.watch.moment()

        def answered(answer: Reply | PenstockError) -> None:
            if isinstance(answer, PenstockError):
                self._again(self._think)
                return
            if not isinstance(answer, Acquired):
                raise broken("NoFalseRefusal", f"{command} is answered with {answer}")
            self.watch.received(began, answer)
            self.held += [(run.first, run.end, answer.epoch) for run in answer.runs]
            self.got(answer)
            self._think()

        self._submit(lambda: command, answered)

    def got(self, _reply: Acquired) -> None:
        if self.held and self.random.random() < 0.08:
            self.held.clear()
            self.timeline.count("worker crash")

    def _choose_verdict(self) -> Settlement:
        """About a part of what it holds; it goes on holding the rest, and what it extends."""
        random = self.random
        first, end, epoch = self.held.pop(0)
        low = random.choice([first, random.randrange(first, end)])
        high = random.choice([end, random.randrange(low, end) + 1])
        rest = [(first, low, epoch), (high, end, epoch)]
        (verdict,) = random.choices(
            [Verdict.ACK, Verdict.FINISH, Verdict.RELEASE, Verdict.REJECT, Verdict.EXTEND],
            [45, 15, 18, 7, 15],
        )
        delay_ms = random.choice([-1, 0, 500]) if verdict is Verdict.RELEASE else 1_200
        if verdict is Verdict.EXTEND:
            rest.append((low, high, epoch))
        self.held += [one for one in rest if one[0] < one[1]]
        return Settlement(Offset(low), Offset(high), epoch, verdict, delay_ms, "simulated")

    def _settle(self, said: tuple[Settlement, ...], tries: int) -> None:
        command = Settle(partition=QUEUE, group=GROUP, settlements=said)
        began = self.watch.moment()

        def answered(answer: Reply | PenstockError) -> None:
            if isinstance(answer, Settled):
                for one, outcome in zip(said, answer.outcomes, strict=True):
                    self.watch.settled(began, one, outcome)
                self._think()
            elif not isinstance(answer, PenstockError) or isinstance(answer, LocalError):
                raise broken("NoFalseRefusal", f"{command} is answered with {answer!r}")
            elif tries > 1:
                self._again(lambda: self._settle(said, tries - 1))
            else:
                self._again(self._think)

        self._submit(lambda: command, answered)


class Drainer(Worker):
    """Takes whatever there is and acks it, until nothing is left to do."""

    pause_us = 80 * MILLISECOND
    done = False

    def act(self) -> None:
        if self.held:
            held, self.held = self.held, []
            self._settle(
                tuple(Settlement(Offset(a), Offset(b), e, Verdict.ACK) for a, b, e in held), 9
            )
        else:
            self._acquire(100, -1)

    def got(self, reply: Acquired) -> None:
        model = self.watch.model
        if not reply.runs and model is not None:
            self.done = all(one.state is State.DEAD for one in model.left.values())


class Coverer(QueueClient):
    """Reads the log from front to back, in batches of which some messages fail: these die first,
    then the batch is covered. It asks again until it knows, and some batches twice, as somebody
    does who was restarted from a checkpoint."""

    pause_us = 900 * MILLISECOND
    _done = _batches = 0

    def act(self) -> None:
        random, end = self.random, len(self.watch.log)
        first = max(0, self._done - random.choice([0, 0, 0, 3]))
        upto = min(end, first + random.choice([1, 2, 4]))
        bad = {offset for offset in range(first, upto) if random.random() < 0.15}
        steps = [
            CumulativeAck(
                partition=QUEUE,
                group=GROUP,
                first=Offset(first),
                end=Offset(first),
                dead=tuple((Offset(offset), "simulated") for offset in sorted(bad)),
            ),
            CumulativeAck(
                partition=QUEUE,
                group=GROUP,
                first=Offset(first),
                end=Offset(upto),
                stream=random.choice(["", self.name]),
                batch=self._batches,
            ),
        ]
        self._batches += random.choice([0, 1, 1, 1])
        self._cumulative_ack(steps, random.choice([1, 4, 4]))

    def _cumulative_ack(self, steps: list[CumulativeAck], tries: int) -> None:
        command, began = steps[0], self.watch.moment()

        def answered(answer: Reply | PenstockError) -> None:
            if isinstance(answer, CumulativeAckResult):
                self.watch.covered(began, command.first, command.end)
                self._done = max(self._done, command.end)
                if steps[1:]:
                    self._cumulative_ack(steps[1:], tries)
                else:
                    self._think()
            elif not isinstance(answer, PenstockError) or isinstance(answer, LocalError):
                raise broken("NoFalseRefusal", f"{command} is answered with {answer!r}")
            elif tries > 1:
                self._again(lambda: self._cumulative_ack(steps, tries - 1))
            else:
                self._again(self._think)

        self._submit(lambda: command, answered)


class Keeper(QueueClient):
    """Makes the queue, and looks after it: buries, revives, calls off, trims, pauses, purges."""

    pause_us = 1_200 * MILLISECOND

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        door: Door,
        history: History,
        watch: QueueWatch,
        rules: tuple[QueueRules, WorkRules],
    ) -> None:
        super().__init__(name, timeline, door, history, watch)
        self.rules, self.work = rules
        self.on_made: Callable[[], None] = lambda: None
        self._steps: list[Request] = [
            CreatePartition(partition=QUEUE),
            ConfigureQueue(partition=QUEUE, rules=self.rules),
            OpenWork(partition=QUEUE, group=GROUP, start=EARLIEST, rules=self.work),
        ]
        self._made = self._finishing = False

    def describe(self) -> str:
        """What kind of queue it keeps."""
        queue, work = self.rules, self.work
        kind = "fifo" if queue.fifo else "standard" if queue.reads_messages else "plain"
        return (
            f"{kind}, priority {queue.priorities.name}, ids {queue.deduplication.name}, delay"
            f" {queue.delay_ms}, ttl {queue.ttl_ms}, length {queue.length_max}, lease"
            f" {work.lease_ms}, deliveries {work.deliveries_max}, dead {work.dead.name}"
        ).lower()

    def act(self) -> None:
        if self._steps:
            step = self._steps[0]
            self._submit(lambda: step, self._stepped)
        elif self.random.random() < 0.4:
            self._ask(self._see_to_the_dead, self._answered)
        else:
            command = self._draw()
            self._submit(lambda: command, self._answered)

    def finish(self) -> None:
        """Whatever was going on, the queue works."""
        self._steps.append(ConfigureQueue(partition=QUEUE, rules=self.rules))
        self._finishing, self.stopping = True, False
        self._act_now()

    def _stepped(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, PenstockError) and not isinstance(answer, LocalError):
            self._again(self._act_now)
            return
        self._steps.pop(0)
        if self._steps:
            self._act_now()
            return
        if not self._made:
            self._made = True
            self.on_made()
        self.stopping = self._finishing
        self._think()

    def _draw(self) -> Request:
        end = len(self.watch.log)
        match self.random.randrange(20):
            case 0:
                return Purge(partition=QUEUE, group=GROUP)
            case 1:
                start = self.random.choice([EARLIEST, LATEST, Offset(end // 2)])
                return ResetWork(partition=QUEUE, group=GROUP, start=start)
            case 2 | 3 | 4:
                self._steps.append(ConfigureQueue(partition=QUEUE, rules=self.rules))
                return ConfigureQueue(partition=QUEUE, rules=_paused(self.rules))
            case 5 | 6 | 7:
                model = self.watch.model
                left = list(model.left) if model is not None else []
                return TrimPartition(partition=QUEUE, before=Offset(min(left, default=end)))
            case _:
                offsets = {self.random.randrange(max(end - 12, 0), end + 1) for _ in range(2)}
                return Cancel(
                    partition=QUEUE, group=GROUP, offsets=tuple(map(Offset, sorted(offsets)))
                )

    def _see_to_the_dead(self, replica: Replica, answer: Answered) -> None:
        """Bury some of them, as whoever moved them does; or let them live again."""
        machine = replica.machine
        assert isinstance(machine, ShardMachine), f"{machine} has no queues"
        work = machine.queues.work(QUEUE, GROUP)
        offsets = () if work is None else tuple(one.offset for one in work.dead_offsets(4))
        if not offsets:
            answer(OutcomeUnknown("nobody is dead"))
        elif self.random.random() < 0.5:
            replica.submit(RequeueDead(partition=QUEUE, group=GROUP, offsets=offsets[:2]), answer)
        else:
            discarded = self.random.random() < 0.5
            replica.submit(
                RemoveDead(partition=QUEUE, group=GROUP, offsets=offsets, discarded=discarded),
                answer,
            )

    def _answered(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, Refused):
            raise broken("NoFalseRefusal", f"the keeper is refused: {answer}")
        if isinstance(answer, PenstockError):
            self._again(self._think)
        else:
            self._think()


def _paused(rules: QueueRules) -> QueueRules:
    return msgspec.structs.replace(rules, paused=True)
