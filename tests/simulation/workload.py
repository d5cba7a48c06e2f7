"""Clients: producers with and without idempotence, readers, a group, an operator who trims.

A client talks to one node at a time over a network of its own: requests and answers take time and
may get lost, and then the client does not know. Idempotent producers repeat the same batch until
they know; that is what the broker's window of sequences is for. Plain ones go on with the next.
"""

from collections.abc import Callable
from random import Random
from typing import Protocol

from penstock.core.errors import (
    LocalError,
    NotLeader,
    OffsetOutOfRange,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownPartition,
)
from penstock.core.types import NO_PRODUCER, Offset, PartitionId, TopicId
from penstock.engine.replica.replica import Replica
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.group_commands import StoreOffsets
from penstock.machines.machine import Appended, Refused, Reply, Request
from penstock.machines.partitions import AppendBatch
from penstock.machines.shard_machine import ShardMachine
from tests.simulation.checkers import broken
from tests.simulation.history import History, Outcome, Send, build_batch
from tests.simulation.timeline import MILLISECOND, SECOND, Timeline

TIMEOUT = 2 * SECOND
Answered = Callable[[Reply | PenstockError], None]


class Door(Protocol):
    """How a client reaches the cluster."""

    def call(self, node: int, action: Callable[[Replica], None]) -> None:
        """Run `action` at the node when the request arrives there, if it does."""
        ...

    def node_numbers(self) -> list[int]: ...


class Client:
    """A client that asks one thing at a time and looks for the leader by trial."""

    def __init__(self, name: str, timeline: Timeline, door: Door, history: History) -> None:
        self.name = name
        self.timeline = timeline
        self.door = door
        self.history = history
        self.random: Random = timeline.random(name)
        self.node = self.random.choice(door.node_numbers())
        self.stopping = False
        self.idle = True
        self.repeated = False
        self._question = 0

    def start(self) -> None:
        self._think()

    def act(self) -> None:
        """Do the next thing; overridden."""
        raise AssertionError

    def _think(self) -> None:
        self.idle = True
        if not self.stopping:
            delay = int(self.random.expovariate(1 / self.pause_us))
            self.timeline.after(delay, self._act_now)

    pause_us = 60 * MILLISECOND

    def _act_now(self) -> None:
        self.idle = self.stopping
        if not self.stopping:
            self.act()

    def _again(self, action: Callable[[], None]) -> None:
        """After a failure: another node, a little later."""
        self.node = self.random.choice(self.door.node_numbers())
        self.timeline.after(self.random.randrange(20, 200) * MILLISECOND, action)

    def _ask(self, ask: Callable[[Replica, Answered], object], answered: Answered) -> None:
        """Send a request; silence for too long is answered `OutcomeUnknown`."""
        self._question += 1
        question = self._question

        def answer_arrives(answer: Reply | PenstockError) -> None:
            if question != self._question:
                return
            self._question += 1
            timeout.cancel()
            if isinstance(answer, NotLeader) and answer.leader:
                self.node = answer.leader
            answered(answer)

        def answer_leaves(answer: Reply | PenstockError) -> None:
            if self.random.random() < 0.02:
                self.timeline.count("answer lost")
                return
            delay = self.random.randrange(200, 3_000)
            self.timeline.after(delay, lambda: answer_arrives(answer))

        def request_arrives(replica: Replica) -> None:
            ask(replica, answer_leaves)

        self.door.call(self.node, request_arrives)
        self.repeated = self.random.random() < 0.03
        if self.repeated:
            self.timeline.count("request repeated")
            self.door.call(self.node, request_arrives)
        unknown = OutcomeUnknown("no answer came")
        timeout = self.timeline.after(TIMEOUT, lambda: answer_arrives(unknown))

    def _submit(self, request: Callable[[], Request], answered: Answered) -> None:
        self._ask(lambda replica, answer: replica.submit(request(), answer), answered)


class Producer(Client):
    """Appends batches of unique values; idempotent ones never give up a batch."""

    def __init__(
        self, name: str, timeline: Timeline, door: Door, history: History,
        *, partitions: list[int], producer_id: int,
    ) -> None:  # fmt: skip
        super().__init__(name, timeline, door, history)
        self._partitions = partitions
        self._producer_id = producer_id
        self._sequences = dict.fromkeys(partitions, 0)
        self._sent = 0

    def act(self) -> None:
        partition = self.random.choice(self._partitions)
        self._sent += 1
        value = f"{self.name}:{self._sent}:".encode()
        value += b"x" * self.random.choice([0, 10, 200, 1_500])
        idempotent = self._producer_id != NO_PRODUCER
        send = Send(value, partition, self.random.randrange(1, 5), idempotent)
        self.history.begin(send)
        self._try(send)

    def _try(self, send: Send) -> None:
        sequence = self._sequences[send.partition] if send.idempotent else -1
        epoch = 0 if send.idempotent else -1
        stamp = self.timeline.now // 1_000

        def request() -> Request:
            batch = build_batch(send.value, send.count, stamp, self._producer_id, epoch, sequence)
            return AppendBatch(PartitionId(send.partition), batch)

        self._submit(request, lambda answer: self._answered(send, answer))

    def _answered(self, send: Send, answer: Reply | PenstockError) -> None:
        if isinstance(answer, Appended):
            self.timeline.line(self.name, f"{send.partition}@{answer.base_offset} is acknowledged")
            self.history.acknowledged(send, answer.base_offset)
            self._sequences[send.partition] += send.count
            self.timeline.count("ack")
            self._think()
        elif isinstance(answer, LocalError):
            raise broken("NoFalseRefusal", f"{send} is refused: {answer!r}")
        elif send.idempotent:
            self.timeline.count("retry")
            self._again(lambda: self._try(send))
        else:
            # A refusal is final, unless the request was repeated on the way: then only one was.
            certain = isinstance(answer, Unavailable) and not self.repeated
            send.outcome = Outcome.FAILED if certain else Outcome.UNKNOWN
            self.timeline.count("refused" if certain else "unknown")
            self._again(self._think)


class Reader(Client):
    """Reads partitions behind a barrier and checks what it sees."""

    pause_us = 100 * MILLISECOND

    def __init__(
        self, name: str, timeline: Timeline, door: Door, history: History, partitions: list[int]
    ) -> None:
        super().__init__(name, timeline, door, history)
        self._positions = dict.fromkeys(partitions, 0)

    def act(self) -> None:
        partition = self.random.choice(sorted(self._positions))
        acked_end = self.history.partition(partition).acked_end

        def ask(replica: Replica, answer: Answered) -> None:
            def behind_barrier(reply: Reply | PenstockError) -> None:
                if not isinstance(reply, PenstockError):
                    reply = self._read(replica, partition, acked_end) or reply
                answer(reply)

            replica.read_barrier(behind_barrier)

        self._ask(ask, self._answered)

    def _answered(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, PenstockError):
            self._again(self._think)
        else:
            self._think()

    def _read(self, replica: Replica, number: int, acked_end: int) -> PenstockError | None:
        partition, offset = PartitionId(number), self._positions[number]
        try:
            bounds = replica.machine.bounds(partition)
            self.history.saw_bounds(number, bounds.log_start, bounds.high_watermark, acked_end)
            offset = max(offset, bounds.log_start)
            data = replica.fetch(partition, Offset(offset), 4_096)
        except UnknownPartition as error:
            if acked_end:
                raise broken("LinearizableRead", f"partition {number} is unknown") from error
            return error
        except OffsetOutOfRange:
            raise
        except PenstockError as error:
            return error
        end = self.history.saw_bytes(number, data, offset)
        if end >= 0:
            self.timeline.count("read")
            self._positions[number] = end
        return None


class Operator(Client):
    """Creates the partitions, then trims them now and then."""

    pause_us = 1_500 * MILLISECOND

    def __init__(
        self, name: str, timeline: Timeline, door: Door, history: History, partitions: list[int]
    ) -> None:
        super().__init__(name, timeline, door, history)
        self._missing = list(partitions)
        self._partitions = partitions
        self.on_created: Callable[[], None] = lambda: None

    def act(self) -> None:
        if self._missing:
            partition = PartitionId(self._missing[0])
            self._submit(lambda: CreatePartition(partition=partition), self._created)
            return
        number = self.random.choice(self._partitions)
        known = self.history.partition(number)
        if known.acked_end <= known.trimmed_to:
            self._think()
            return
        before = self.random.randrange(known.trimmed_to, known.acked_end + 1)
        known.trimmed_to = max(known.trimmed_to, before)
        trim = TrimPartition(partition=PartitionId(number), before=Offset(before))
        self._submit(lambda: trim, self._trimmed)

    def _created(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, PenstockError) and not isinstance(answer, LocalError):
            self._again(self._act_now)
            return
        self._missing.pop(0)
        if not self._missing:
            self.on_created()
            self._think()
        else:
            self._act_now()

    def _trimmed(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, LocalError):
            raise broken("NoFalseRefusal", f"a trim is refused: {answer!r}")
        self.timeline.count("trim")
        self._think()


class Committer(Client):
    """Commits the offsets of a consumer group and reads them back.

    A commit whose outcome is not known, or whose request was repeated on the way, may still take
    effect later; every other one is what a reader finds until the next."""

    pause_us = 300 * MILLISECOND

    def __init__(self, name: str, timeline: Timeline, door: Door, history: History) -> None:
        super().__init__(name, timeline, door, history)
        self._key = (TopicId(name.encode().ljust(16, b"\0")), 0)
        self._committed = -1
        self._offset = 0
        self._possible: set[int] = set()

    def act(self) -> None:
        if self.random.random() < 0.5:
            self._ask(self._read, self._read_answered)
            return
        self._offset += 1
        offset = self._offset
        self._possible.add(offset)
        command = StoreOffsets(
            group=self.name,
            member="",
            instance=None,
            generation=-1,
            offsets=((*self._key, offset, -1, ""),),
        )
        self._submit(lambda: command, lambda answer: self._commit_answered(offset, answer))

    def _commit_answered(self, offset: int, answer: Reply | PenstockError) -> None:
        if isinstance(answer, Refused | LocalError):
            raise broken("NoFalseRefusal", f"{self.name} may not commit {offset}: {answer!r}")
        if isinstance(answer, PenstockError):
            if isinstance(answer, Unavailable) and not self.repeated:
                self._possible.discard(offset)
            self._again(self._think)
            return
        self._committed = offset
        if not self.repeated:
            self._possible.discard(offset)
        self.timeline.count("commit")
        self._think()

    def _read(self, replica: Replica, answer: Answered) -> None:
        allowed = {self._committed, *self._possible}

        def behind_barrier(reply: Reply | PenstockError) -> None:
            if not isinstance(reply, PenstockError):
                machine = replica.machine
                assert isinstance(machine, ShardMachine), f"{machine} has no groups"
                found = machine.groups.offsets(self.name).get(self._key)
                seen = -1 if found is None else found.offset
                # A request that was late may find that the client has gone on.
                if seen not in allowed | {self._committed, *self._possible}:
                    raise broken("CommitsAreKept", f"{self.name} reads {seen}, not {allowed}")
            answer(reply)

        replica.read_barrier(behind_barrier)

    def _read_answered(self, answer: Reply | PenstockError) -> None:
        if isinstance(answer, PenstockError):
            self._again(self._think)
        else:
            self._think()
