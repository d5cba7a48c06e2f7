"""What must hold of a queue, whatever happens to the cluster it lives in.

The log is the truth: each committed entry is carried out once more, in a model that looks at every
message by itself (`tests/queue_model.py`), as soon as the first replica has applied it. What that
replica answered, and what it then counts, must be the model's; what all others answer must be the
same; and on each of them every message must be in exactly one place, after every entry.

What clients were told is held against it, too, by facts that are certain: a lease they were given
is one that was committed, and what was acked for them does not come back.
"""

import zlib
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import get_args

import msgspec

from penstock.core.append_payload import decode_append
from penstock.core.entries import Entry, EntryKind
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.queue_rules import DEFAULT_PRIORITY, Deduplication, Priorities, QueueRules
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines.machine import Applied, Refused, Reply
from penstock.machines.partitions import PartitionTrimmed
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    ConfigureQueue,
    CumulativeAck,
    OpenWork,
    Purge,
    QueueCommand,
    Recall,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
    decode_queue_command,
)
from penstock.machines.queues import Acquired, CumulativeAckResult, QueueChanged, Settled
from penstock.machines.run import State
from penstock.machines.shard_machine import ShardMachine, command_tag
from penstock.machines.work_records import GrantedRun
from tests.queue_model import One, QueueModel, unconserved, view_of
from tests.simulation.checkers import broken
from tests.simulation.history import Outcome as Sending

QUEUE = PartitionId(9)
GROUP = "workers"
STATE_COMPARED_EVERY = 8
TAGS = {command.__struct_config__.tag for command in get_args(QueueCommand)}


@dataclass(slots=True)
class QueueSend:
    """One message that somebody wants to have in the queue, and what it says of itself."""

    value: bytes
    group: bytes | None = None
    priority: int | None = None
    delay_ms: int | None = None
    ttl_ms: int | None = None
    dedup: bytes | None = None
    outcome: Sending = Sending.OPEN
    offset: int = -1


class QueueWatch:
    """The queue as the log says it is, and what clients did and saw."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self.count = count
        self.sends: dict[bytes, QueueSend] = {}
        self.log: list[QueueSend] = []
        self.duplicates: set[int] = set()
        self.rules = QueueRules()
        self.model: QueueModel | None = None
        self.time_ms = 0
        self.index = 0
        self._log_start = 0
        self._ids: dict[tuple[bytes, bytes], int] = {}
        self._replies: dict[int, int] = {}
        self._grants: dict[int, tuple[GrantedRun, ...]] = {}
        self._moment = 0
        self._acked: dict[int, int] = {}
        self._received: dict[int, tuple[int, int]] = {}
        self._resets = 0

    # What replicas do.

    def saw_applied(self, name: str, machine: ShardMachine, entry: Entry, applied: Applied) -> None:
        """A replica has applied an entry."""
        if entry.index > self.index:
            assert entry.index == self.index + 1, f"entry {entry.index} after {self.index}"
            self.index = entry.index
            if not self._carry_out(machine, entry, applied):
                return
            self._replies[entry.index] = _digest(applied)
            self._compare_counts(name, machine)
            if len(self._replies) % STATE_COMPARED_EVERY == 0:
                self.compare_state(name, machine)
        elif entry.index not in self._replies:
            return
        elif self._replies[entry.index] != _digest(applied):
            raise broken("EqualAnswers", f"{name} answers entry {entry.index} with {applied}")
        self.check_conserved(name, machine)

    def check_conserved(self, name: str, machine: ShardMachine) -> None:
        """On every replica, whenever anything has changed there."""
        for work in machine.queues.groups(QUEUE).values():
            if complaint := unconserved(work):
                raise broken("Conserved", f"{name}: {complaint}")

    def _compare_counts(self, name: str, machine: ShardMachine) -> None:
        work, model = machine.queues.work(QUEUE, GROUP), self.model
        if machine.queues.time_ms != self.time_ms:
            raise broken("LogTime", f"{name} has {machine.queues.time_ms}, not {self.time_ms}")
        if (work is None) != (model is None):
            raise broken("QueueCounts", f"{name} has {work}, not {model}")
        if work is None or model is None:
            return
        states = Counter(one.state for one in model.left.values())
        places = {
            State.READY: work.ready,
            State.LEASED: work.leased,
            State.DELAYED: work.delayed,
            State.DEAD: work.dead,
        }
        tally = {how: getattr(work.tally, how) for how in model.done}
        if +Counter(places) != +states or tally != model.done:
            raise broken("QueueCounts", f"{name} has {places} {tally}, not {states} {model.done}")

    def compare_state(self, name: str, machine: ShardMachine) -> None:
        """A replica that has applied everything says of every message what the log says."""
        work, model = machine.queues.work(QUEUE, GROUP), self.model
        if work is None or model is None:
            return
        found, expected = view_of(work, len(self.log)), model.view()
        if found != expected:
            wrong = {
                offset: (found.get(offset), expected.get(offset))
                for offset in sorted(found.keys() | expected.keys())
                if found.get(offset) != expected.get(offset)
            }
            raise broken("QueueState", f"{name} has another state than the log says: {wrong}")

    # What the log says.

    def _carry_out(self, machine: ShardMachine, entry: Entry, applied: Applied) -> bool:
        """False: it has nothing to do with the queue."""
        if entry.kind is EntryKind.APPEND:
            return self._append(entry.payload)
        if entry.kind is not EntryKind.COMMAND:
            return False
        if command_tag(entry.payload) not in TAGS:
            return self._trim(applied)
        command = decode_queue_command(entry.payload)
        self.time_ms = max(self.time_ms, command.stamp_ms)
        if isinstance(applied.replies[0], Refused):
            if self.model is not None:
                raise broken("NoFalseRefusal", f"{command} is refused: {applied}")
            return True
        self._obey(command, applied.replies[0], machine)
        return True

    def _append(self, payload: bytes) -> bool:
        stamp_ms, slices, position = decode_append(payload)
        concerned = False
        for part in slices:
            if part.partition == QUEUE:
                concerned = True
                if self.rules.reads_messages:
                    self.time_ms = max(self.time_ms, stamp_ms)
                for batch in iter_batches(payload[position : position + part.length]):
                    for message in read_messages(batch):
                        self._came(message.offset, message.value or b"")
                if self.model is not None:
                    self.model.drop_oldest()
            position += part.length
        return concerned

    def _came(self, offset: int, value: bytes) -> None:
        send = self.sends.get(value)
        if send is None or offset != len(self.log):
            raise broken("NothingFromNowhere", f"{value!r} at {offset} after {len(self.log)}")
        if send.outcome is Sending.FAILED:
            raise broken("FailedMeansNot", f"{send} failed and is at {offset}")
        self.log.append(send)
        if self._is_duplicate(send):
            self.duplicates.add(offset)
            self.count("duplicate suppressed")
            if self.model is not None:
                self.model.done["duplicates"] += 1
        elif self.model is not None:
            said = self._said(send)
            delay_ms = self.rules.delay_ms if said.delay_ms is None else said.delay_ms
            self.model.append(self._told(offset), self.time_ms, delay_ms=delay_ms)

    def _said(self, send: QueueSend) -> QueueSend:
        """What counts of what a message says: all of it, or only its id."""
        return send if self.rules.delivery_headers else QueueSend(send.value, dedup=send.dedup)

    def _told(self, offset: int) -> One:
        """What a message says, by what its sender meant."""
        send, rules = self._said(self.log[offset]), self.rules
        message_group = send.group or (b"" if rules.fifo else None)
        level = DEFAULT_PRIORITY
        if rules.priorities is not Priorities.OFF and send.priority is not None:
            level = send.priority
        ttl_ms = rules.ttl_ms if send.ttl_ms is None else send.ttl_ms
        return One(offset, message_group, level, self.time_ms + ttl_ms if ttl_ms >= 0 else -1)

    def _is_duplicate(self, send: QueueSend) -> bool:
        """By log time, from the first message on, whatever became of it."""
        rules = self.rules
        if rules.deduplication is Deduplication.OFF:
            return False
        one = send.dedup
        if one is None:
            if rules.deduplication is not Deduplication.CONTENT:
                return False
            one = b"content " + send.value
        group = self._said(send).group or b""
        key = (one, group if rules.deduplication_by_group else b"")
        if key in self._ids and self.time_ms < self._ids[key] + rules.deduplication_ms:
            return True
        self._ids[key] = self.time_ms
        return False

    def _trim(self, applied: Applied) -> bool:
        for reply in applied.replies:
            if isinstance(reply, PartitionTrimmed) and reply.partition == QUEUE:
                self._log_start = reply.log_start
                if self.model is not None:
                    self.model.trim(reply.log_start)
                return True
        return False

    def _obey(self, command: QueueCommand, reply: Reply, machine: ShardMachine) -> None:
        match command:
            case ConfigureQueue(rules=rules):
                self.rules = rules
                if self.model is not None:
                    self.model.rules = rules
                return
            case OpenWork(start=start, rules=rules):
                if self.model is None:
                    self.model = QueueModel(self.rules, rules)
                    self._begin_at(start)
                return
            case _:
                pass
        model = self.model
        assert model is not None, f"{command} before the group was opened"
        count = -1
        match command:
            case ResetWork(start=start):
                self.model = QueueModel(self.rules, model.work, model.epoch)
                self._begin_at(start)
                self._acked.clear()
                self._resets += 1
                self.count("queue reset")
            case Recall():
                count = int(self._recall(model, command))
            case Acquire():
                model.turn(self.time_ms)
                self._check_grant(model, command, reply)
            case Settle(settlements=settlements):
                model.turn(self.time_ms)
                self._check_outcomes(model, settlements, reply)
            case CumulativeAck():
                model.turn(self.time_ms)
                self._check_cover(model, command, reply)
            case RemoveDead(offsets=offsets, discarded=discarded):
                count = model.remove_dead(offsets, discarded=discarded)
            case RequeueDead(offsets=offsets):
                count = model.requeue_dead(offsets)
                self.count("message revived" if count else "nobody revived")
            case Cancel(offsets=offsets):
                count = model.cancel(offsets)
            case Purge():
                count = model.purge()
                self._ids.clear()
            case _:
                self._turn(model, machine)
        if count >= 0 and reply != QueueChanged(count):
            raise broken("RightCount", f"{command} is answered with {reply}, not {count}")

    def _begin_at(self, start: Offset) -> None:
        model, end = self.model, len(self.log)
        assert model is not None
        first = {EARLIEST: self._log_start, LATEST: end}.get(start, start)
        model.recalled = min(max(first, self._log_start), end)
        model.recall_end = end if self.rules.reads_messages else model.recalled
        for offset in range(model.recalled, end):
            model.left[offset] = One(offset, told=False)

    def _recall(self, model: QueueModel, command: Recall) -> bool:
        said = {offset: One(offset) for offset in range(command.first, command.end)}
        for offset, level, message_group, at_ms, expire_ms in command.delivery_headers:
            told = self._told(offset)
            if (message_group or b"", level) != (told.message_group or b"", told.level):
                raise broken(
                    "RightCards", f"{command} says {message_group!r} {level}, meant was {told}"
                )
            state = State.READY if at_ms < 0 else State.DELAYED
            said[offset] = One(offset, message_group, level, expire_ms, state, at_ms)
        self.count("recall")
        return model.recall(command.first, command.end, said.values())

    def _turn(self, model: QueueModel, machine: ShardMachine) -> None:
        """The clock was turned; only so much happens at once, never as much as there is here."""
        before = Counter(one.state for one in model.left.values())
        model.turn(self.time_ms)
        after = Counter(one.state for one in model.left.values())
        if after[State.LEASED] < before[State.LEASED]:
            self.count("lease ended")
        if sum(after.values()) < sum(before.values()):
            self.count("message expired")
        due_ms = machine.queues.due_ms()
        if due_ms is not None and due_ms <= self.time_ms:
            raise broken("ClockIsTurned", f"at {self.time_ms} something of {due_ms} is still due")

    def _check_grant(self, model: QueueModel, command: Acquire, reply: Reply) -> None:
        if not isinstance(reply, Acquired):
            raise broken("RightGrant", f"{command} is answered with {reply}")
        granted = [offset for run in reply.runs for offset in range(run.first, run.end)]
        for offset in granted:
            self._check_granted(model, offset)
        if complaint := model.complaint(granted, command.messages_max):
            raise broken("LineOrder" if self.rules.fifo else "RightOrder", complaint)
        lease_ms = model.work.lease_ms if command.lease_ms < 0 else command.lease_ms
        if reply.until_ms != self.time_ms + lease_ms:
            raise broken("LeaseLasts", f"{reply} at {self.time_ms} for {lease_ms}")
        model.lease(granted, reply.until_ms)
        if reply.epoch != model.epoch:
            raise broken("FreshEpoch", f"{reply} instead of {model.epoch}")
        for run in reply.runs:
            if {model.left[offset].deliveries for offset in range(run.first, run.end)} != {
                run.deliveries
            }:
                raise broken("DeliveriesAreCounted", f"{run}: {model.left[run.first]}")
        if granted:
            self._grants[reply.epoch] = reply.runs
            self.count("message leased")

    def _check_granted(self, model: QueueModel, offset: int) -> None:
        if not self._log_start <= offset < len(self.log):
            raise broken("NothingFromNowhere", f"{offset} is handed out, the log has no such")
        one = model.left.get(offset)
        if offset in self.duplicates and one is None:
            raise broken("DuplicatesAreSuppressed", f"{self.log[offset]} is handed out")
        if one is None:
            raise broken("NoResurrection", f"{offset} is dealt with and is handed out")
        if one.state is State.LEASED:
            raise broken("OneLease", f"{one} is handed out to somebody else at {self.time_ms}")
        if one.state is State.DELAYED:
            raise broken("NeverEarly", f"{one} is handed out at {self.time_ms}")
        if one.state is State.DEAD:
            raise broken("TheDeadStayDead", f"{one} is handed out")

    def _check_outcomes(
        self, model: QueueModel, settlements: Sequence[Settlement], reply: Reply
    ) -> None:
        dead = sum(one.state is State.DEAD for one in model.left.values())
        expected = tuple(model.settle(one, self.time_ms) for one in settlements)
        if reply != Settled(expected):
            raise broken("OnlyTheHolderSettles", f"{settlements}: {reply}, should be {expected}")
        if expected != (Outcome.DONE,) * len(expected):
            self.count("stale receipt")
        if sum(one.state is State.DEAD for one in model.left.values()) > dead:
            self.count("message dead")

    def _check_cover(self, model: QueueModel, command: CumulativeAck, reply: Reply) -> None:
        """What is covered is done, once; the dead die once. Nobody holds any of it after."""
        dead = [offset for offset, _ in command.dead]
        by = (command.stream, command.batch)
        count = model.ack_cumulatively(command.first, command.end, dead, self.time_ms, by)
        if reply != CumulativeAckResult(count, command.end):
            raise broken("RightCover", f"{command} is answered with {reply}, not {count}")
        if count:
            self.count("range covered")

    # What clients do and see.

    def begin(self, send: QueueSend) -> None:
        assert send.value not in self.sends, f"{send.value!r} is sent twice"
        self.sends[send.value] = send

    def acknowledged(self, send: QueueSend, offset: int) -> None:
        send.outcome, send.offset = Sending.OK, offset
        if not offset < len(self.log) or self.log[offset] is not send:
            raise broken("NothingLost", f"{send} is acknowledged at {offset} and is not there")

    def moment(self) -> tuple[int, int]:
        """Now, for whoever asks for something; and how often everything has begun anew."""
        return self._moment, self._resets

    def received(self, began: tuple[int, int], reply: Acquired) -> None:
        """A client was given messages that it asked for at that moment."""
        self._moment += 1
        if reply.runs and self._grants.get(reply.epoch) != reply.runs:
            committed = self._grants.get(reply.epoch)
            raise broken("GrantIsCommitted", f"{reply}, but the log says {committed}")
        for run in reply.runs:
            for offset in range(run.first, run.end):
                if offset in self._acked and self._acked[offset] <= began[0]:
                    raise broken("NoResurrection", f"{offset} is received, it was acked before")
                now = (reply.epoch, self._moment)
                self._received[offset] = max(self._received.get(offset, now), now)

    def covered(self, began: tuple[int, int], first: int, end: int) -> None:
        """A client was told that a range is done which it covered at that moment."""
        self._moment += 1
        if began[1] == self._resets and self.model is not None:
            for offset in range(first, min(end, len(self.log))):
                one = self.model.left.get(offset)
                if one is None and offset not in self._acked:
                    self._acked[offset] = self._moment

    def settled(self, began: tuple[int, int], said: Settlement, outcome: Outcome) -> None:
        """A client was told what came of the verdict it gave at that moment."""
        self._moment += 1
        if outcome is not Outcome.DONE:
            return
        for offset in range(said.first, said.end):
            epoch, moment = self._received.get(offset, (0, 0))
            if epoch > said.epoch and moment <= began[0]:
                raise broken("FencedReceipt", f"{said} counts, {epoch} was received before")
            if said.verdict in (Verdict.ACK, Verdict.FINISH) and began[1] == self._resets:
                self._acked[offset] = self._moment
                self.count("message acked")

    def check_final(self) -> None:
        """After all was drained: everything that was acknowledged came to some end."""
        for send in self.sends.values():
            if send.outcome is Sending.OK and self.log[send.offset] is not send:
                raise broken("NothingLost", f"{send} is not there at the end")
        left = [] if self.model is None else list(self.model.left.values())
        if living := [one for one in left if one.state is not State.DEAD]:
            raise broken("QueueDrains", f"{living} are left")


def _digest(applied: Applied) -> int:
    return zlib.crc32(msgspec.json.encode(applied.replies))
