"""Those who publish: they stage, decide and carry out, and crash between any two steps.

Each step is what a node does for a client that publishes, asked of one node at a time: the leader's
ledger of what is staged (`engine.staging`), the copying of a part (`engine.part_copy`) and the
commands are those of production; only the waiting is the simulator's. Whoever crashes forgets
everything but which batch was its next; another one, or the same, does it again.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.core.errors import (
    LocalError,
    NotLeader,
    OutOfOrderSequence,
    PenstockError,
    ProducerFenced,
)
from penstock.core.types import Offset, PartitionId, ProducerId, TopicId
from penstock.engine.replica.batcher import Answer, Promise
from penstock.engine.replica.replica import Done, Replica
from penstock.engine.topics.part_copy import PartCopy, Promotion, mark_staged, read_staged
from penstock.engine.topics.staging import StagingIndex
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.machine import Appended, Refused, Reply, Request
from penstock.machines.partitions import AppendBatch
from penstock.machines.publication_commands import (
    BeginPublication,
    PublishedPart,
    SettleParts,
)
from penstock.machines.publications import Application, Publication, PublicationReply
from penstock.machines.shard_machine import ShardMachine
from tests.simulation.checkers import broken
from tests.simulation.history import History, build_batch
from tests.simulation.publishing_watch import STAGING, TARGETS, Attempt, PublishingWatch
from tests.simulation.timeline import MILLISECOND, SECOND, Timeline
from tests.simulation.workload import Answered, Client, Door

TOPIC = TopicId(bytes(16))
CRASH_CHANCE = 0.02
REMEMBERED_US = {False: 2 * SECOND, True: 25 * SECOND}
"""How long what is staged waits for somebody who has crashed, and may have asked for a decision."""


@dataclass(eq=False)
class Running:
    """As much of a shard as a ledger needs."""

    replica: Replica
    machine: ShardMachine

    def submit(self, request: Request, answer: Answer, promise: Promise) -> None:
        self.replica.submit(request, answer, promise)


class Ledgers:
    """What each node that leads remembers of what was staged with it."""

    def __init__(self) -> None:
        self._running: dict[int, Running] = {}
        self._ledgers: dict[int, StagingIndex] = {}

    def of(self, replica: Replica) -> StagingIndex:
        """The ledger of a node's life and term, as `Staging` finds it."""
        running = self._running.get(replica.node)
        if running is None or running.replica is not replica:
            machine = replica.machine
            assert isinstance(machine, ShardMachine), f"{machine} has no publications"
            running = self._running[replica.node] = Running(replica, machine)
        ledger = self._ledgers.get(replica.node)
        shard: object = running
        if ledger is None or not ledger.is_of(shard, STAGING):  # type: ignore[arg-type]
            ledger = StagingIndex(shard, STAGING, 0)  # type: ignore[arg-type]
            self._ledgers[replica.node] = ledger
        return ledger


class PublishingClient(Client):
    """Steps that more than one kind of client takes."""

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        door: Door,
        history: History,
        watch: PublishingWatch,
        ledgers: Ledgers,
    ) -> None:
        super().__init__(name, timeline, door, history)
        self.watch = watch
        self.ledgers = ledgers

    def _ask_current(self, ask: Callable[[Replica, Answered], None], answered: Answered) -> None:
        """Ask a node that is sure to lead."""

        def behind_barrier(replica: Replica, answer: Answered) -> None:
            def passed(reply: Reply | PenstockError) -> None:
                if isinstance(reply, PenstockError) or not replica.leads:
                    answer(reply if isinstance(reply, PenstockError) else NotLeader("not any more"))
                    return
                try:
                    ask(replica, answer)
                except PenstockError as error:
                    answer(error)

            replica.read_barrier(passed)

        self._ask(behind_barrier, answered)

    # Carrying out.

    def _carry_out(self, application: str, then: Callable[[], None]) -> None:
        """Bring every partition its part, until nothing is under way."""
        found: list[Application | None] = []

        def ask(replica: Replica, answer: Answered) -> None:
            found.append(_machine(replica).publications.get(application))
            answer(Done())

        def answered(answer: Reply | PenstockError) -> None:
            known = found[-1] if found else None
            if isinstance(answer, PenstockError) or not found:
                self._again(lambda: self._carry_out(application, then))
            elif known is None or known.under_way is None:
                then()
            else:
                self._promote(application, known.under_way, 0, then)

        self._ask_current(ask, answered)

    def _promote(
        self, application: str, publication: Publication, number: int, then: Callable[[], None]
    ) -> None:
        if number == len(publication.parts) or (number and self.random.random() < 0.3):
            self._settle(application, publication, number, then)
            return
        part = publication.parts[number]
        promotion = Promotion(part, publication.producer_id, publication.epoch)

        def ask(replica: Replica, answer: Answered) -> None:
            machine = _machine(replica)
            copy = PartCopy(machine.partitions, replica.fetch, promotion)
            batches = copy.next_piece()
            if not batches:
                self.ledgers.of(replica).release(part.ranges, (application, publication.batch))
                answer(Done())
                return
            if copy.is_first:
                batches = batches[:1]
            self._append_all(replica, part.partition, batches, answer)

        def answered(answer: Reply | PenstockError) -> None:
            if isinstance(answer, Done | ProducerFenced):
                self._promote(application, publication, number + 1, then)
            elif isinstance(answer, LocalError) and not isinstance(answer, OutOfOrderSequence):
                raise broken("DecidedIsCarriedOut", f"{promotion}: {answer!r}")
            elif self._crashes():
                self._think()
            else:
                again = 0 if isinstance(answer, Appended) else self.random.randrange(50)
                self.timeline.after(
                    again * MILLISECOND + 1,
                    lambda: self._promote(application, publication, number, then),
                )
                if isinstance(answer, PenstockError):
                    self.node = self.random.choice(self.door.node_numbers())

        self._ask_current(ask, answered)

    def _append_all(
        self, replica: Replica, partition: PartitionId, batches: list[bytearray], answer: Answered
    ) -> None:
        """Append batches one after the other, without waiting for each to be stored, though others
        may have their turn in between; the first failure, or the last reply."""
        left = [len(batches)]
        failures: list[PenstockError] = []

        def appended(reply: Reply | PenstockError) -> None:
            left[0] -= 1
            if isinstance(reply, PenstockError):
                failures.append(reply)
            if left[0] == 0:
                answer(failures[0] if failures else reply)

        def append(batch: bytearray, there: Replica) -> None:
            if there is replica:  # Otherwise the node has died since, and who waits does in vain.
                replica.submit(AppendBatch(partition, batch), appended)

        at_us = 0
        for batch in batches:
            at_us += self.random.choice([0, 0, 1_000, 400_000])
            if at_us:
                call = partial(self.door.call, replica.node, partial(append, batch))
                self.timeline.after(at_us, call)
            else:
                append(batch, replica)

    def _settle(
        self, application: str, publication: Publication, count: int, then: Callable[[], None]
    ) -> None:
        if self._crashes():
            self._think()
            return
        partitions = tuple(part.partition for part in publication.parts[:count])
        command = SettleParts(
            application=application, batch=publication.batch, partitions=partitions
        )
        self._submit(lambda: command, lambda _: self._carry_out(application, then))

    def _crashes(self) -> bool:
        crashes = not self.stopping and self.random.random() < CRASH_CHANCE
        if crashes:
            self.timeline.count("publisher crash")
        return crashes


class Publisher(PublishingClient):
    """Publishes the next batch of an application, again and again."""

    pause_us = 700 * MILLISECOND
    _number = 0

    def act(self) -> None:
        random, watch = self.random, self.watch
        if random.random() < 0.25:
            self._ask_current(self._look_after_staging, lambda _: self._think())
            return
        application = random.choice(["a", "b"])
        batch = watch.next_batch.get(application, 0)
        if application in watch.told and random.random() < 0.4:
            batch = watch.told[application].batch + 1  # As one who asks what was published last.
        self._number += 1
        plan = []
        for target in random.sample(TARGETS, random.randrange(1, len(TARGETS) + 1)):
            for number in range(random.choice([1, 1, 2, 4])):
                value = f"{application}/{batch}/{self.name}.{self._number}/{target}/{number}"
                plan.append((target, value.encode()))
        random.shuffle(plan)
        attempt = Attempt(max(watch.ends.values(), default=0))
        watch.attempts.append(attempt)
        _Publishing(self, application, batch, plan, attempt).stage_next()

    def _look_after_staging(self, replica: Replica, answer: Answered) -> None:
        """A look of the node at what is staged; now and then what nobody needs expires."""
        self.ledgers.of(replica).trim(0, None)
        now = self.timeline.now
        needed = [
            one.first
            for one in self.watch.attempts
            if one.ended_us is None or one.ended_us + REMEMBERED_US[one.asked] > now
        ]
        bounds = _machine(replica).partitions.bounds(STAGING)
        before = min(needed, default=bounds.log_start)
        if before > bounds.log_start and self.random.random() < 0.5:
            self.timeline.count("staging expired")
            replica.submit(TrimPartition(partition=STAGING, before=Offset(before)), answer)
        else:
            answer(Done())


class _Publishing:
    """One attempt to publish one batch."""

    def __init__(
        self,
        client: Publisher,
        application: str,
        batch: int,
        plan: list[tuple[PartitionId, bytes]],
        attempt: Attempt,
    ) -> None:
        self.client = client
        self.application = application
        self.batch = batch
        self.plan = plan
        self.attempt = attempt
        self.ranges: dict[PartitionId, list[tuple[Offset, Offset]]] = {}

    @property
    def parts(self) -> tuple[PublishedPart, ...]:
        return tuple(
            PublishedPart(TOPIC, target, STAGING, tuple(ranges))
            for target, ranges in self.ranges.items()
        )

    def stage_next(self) -> None:
        client = self.client
        if client._crashes():
            self._end()
            return
        if not self.plan:
            client._ask_current(self._check, self._checked)
            return
        target, value = self.plan[0]

        def ask(replica: Replica, answer: Answered) -> None:
            batch = build_batch(value, 3, client.timeline.now // 1_000, -1, -1, -1)
            mark_staged(batch, target)
            ledger = client.ledgers.of(replica)
            floor = ledger.begin()

            def stored(reply: Reply | PenstockError) -> None:
                if isinstance(reply, Appended):
                    ledger.add(reply.base_offset, reply.end_offset, target)
                ledger.end(floor)
                answer(reply)

            replica.submit(AppendBatch(STAGING, batch), stored)

        def answered(reply: Reply | PenstockError) -> None:
            if isinstance(reply, Appended):
                self.plan.pop(0)
                place = (reply.base_offset, reply.end_offset)
                self.ranges.setdefault(target, []).append(place)
                self.stage_next()
            else:
                client._again(self.stage_next)

        client._ask_current(ask, answered)

    def _check(self, replica: Replica, answer: Answered) -> None:
        machine, ledger = _machine(replica), self.client.ledgers.of(replica)
        known = machine.publications.get(self.application)
        decided = known is not None and known.last_batch >= self.batch
        for part in () if decided else self.parts:
            unknown = ledger.verify(part)
            for _ in read_staged(machine.partitions, replica.fetch, part, unknown):
                pass
            ledger.keep(part, (self.application, self.batch), 0)
        answer(Done())

    def _checked(self, reply: Reply | PenstockError) -> None:
        if isinstance(reply, LocalError):
            raise broken("NoFalseRefusal", f"{self.parts} may not be published: {reply!r}")
        if isinstance(reply, PenstockError):
            self.client._again(self.stage_next)
        elif self.client._crashes():
            self._end()
        else:
            self._decide()

    def _decide(self) -> None:
        client = self.client
        producer = ProducerId(client.watch.new_producer())

        def request() -> Request:
            if self.attempt.ended_us is not None:  # Whoever asked on its behalf has died as well.
                return SettleParts(application=self.application, batch=-1, partitions=())
            self.attempt.asked = True
            return BeginPublication(
                application=self.application,
                batch=self.batch,
                owner="",
                parts=self.parts,
                producer_id=producer,
            )

        def answered(reply: Reply | PenstockError) -> None:
            if isinstance(reply, PenstockError):
                client._again(self.stage_next)  # It is checked again, and asked for again.
            elif isinstance(reply, Refused):
                # One at a time: what is under way goes first.
                client._carry_out(self.application, self.stage_next)
            elif client._crashes():
                self._end()
            else:
                assert isinstance(reply, PublicationReply), f"answered with {reply}"
                told = self._told if reply.is_new else self._release
                client._carry_out(self.application, told)

        client._submit(request, answered)

    def _release(self) -> None:
        """What was staged for a batch that was there already is not needed."""

        def ask(replica: Replica, answer: Answered) -> None:
            for part in self.parts:
                ledger = self.client.ledgers.of(replica)
                ledger.verify(part)
                ledger.release(part.ranges, (self.application, self.batch))
            answer(Done())

        self.client._ask_current(ask, lambda _: self._told())

    def _told(self) -> None:
        watch = self.client.watch
        watch.published(self.application, self.batch)
        watch.next_batch[self.application] = max(
            watch.next_batch.get(self.application, 0), self.batch + 1
        )
        self.client.timeline.count("batch published")
        self.attempt.asked = False
        self._end()

    def _end(self) -> None:
        self.attempt.ended_us = self.client.timeline.now
        self.client._think()


class PublishingFounder(PublishingClient):
    """Makes the partitions; at the end, sees to it that everything decided is carried out."""

    def __init__(
        self,
        name: str,
        timeline: Timeline,
        door: Door,
        history: History,
        watch: PublishingWatch,
        ledgers: Ledgers,
    ) -> None:
        super().__init__(name, timeline, door, history, watch, ledgers)
        self._missing = [STAGING, *TARGETS]
        self.on_made: Callable[[], None] = lambda: None
        self.done = False

    def act(self) -> None:
        if not self._missing:
            self._think_no_more()
            return
        partition = self._missing[0]
        self._submit(lambda: CreatePartition(partition=partition), self._created)

    def finish(self) -> None:
        """Carry out whatever is under way."""
        self.idle = False
        self._carry_out("a", lambda: self._carry_out("b", self._finished))

    def _finished(self) -> None:
        self.idle = self.done = True

    def _think_no_more(self) -> None:
        self.idle = True

    def _created(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, PenstockError) and not isinstance(answer, LocalError):
            self._again(self._act_now)
            return
        self._missing.pop(0)
        if self._missing:
            self._act_now()
        else:
            self.idle = True
            self.on_made()


def make_publishing(
    timeline: Timeline, door: Door, history: History, watch: PublishingWatch, count: int
) -> list[Client]:
    """The founder, and then those who publish."""
    ledgers = Ledgers()
    founder = PublishingFounder("found", timeline, door, history, watch, ledgers)
    publishers = [
        Publisher(f"pub{number}", timeline, door, history, watch, ledgers)
        for number in range(count)
    ]

    def made() -> None:
        for publisher in publishers:
            publisher.start()

    founder.on_made = made
    return [founder, *publishers]


def _machine(replica: Replica) -> ShardMachine:
    machine = replica.machine
    assert isinstance(machine, ShardMachine), f"{machine} has no publications"
    return machine
