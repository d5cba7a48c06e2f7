"""The language of `tests/scenarios/queue/*.txt`: one command a line, over the real shard machine.

A file opens with prose (`# Goal: …`, `# Method: …`). Commands follow, and after `----` their
output, up to the next empty line:

    queue orders
    open workers lease=100
    send apple pear
    acquire workers 2 by=anna
    ----
    orders is configured
      wakes receivers of orders
    …

Every command is planned at the leader's time, becomes one log entry, and is applied at once.
Times are milliseconds of the scenario; the leader's clock begins at 0. Offsets are `3`, `0-4` or
`1,3,5-7`. A work group is `workers`, or `orders/workers` where there are several queues.

    queue NAME [setting…]         create a queue; `settings NAME [setting…]` changes some settings:
      headers=no  order=fifo|none  priorities=strict|weighted|off  delay=ms  ttl=ms  paused=yes|no
      dedup=id|content|off  window=ms  per_group=yes  length=n (drops the oldest)
    open GROUP [at=earliest|latest|n] [setting…]      again: keeps its place, changes its settings
      lease=ms  limit=deliveries  retry=none|fixed|linear|exponential|jittered  wait=ms
      wait_max=ms  dead=archive|move|discard  in_flight=n
    reset GROUP at=…  | close GROUP | read-old GROUP  (the leader reads what old messages say)
    send BODY… [to=QUEUE] [count=n] [key= group= priority= delay= at= ttl= expires= id= origin=]
    acquire GROUP n [by=NAME] [lease=ms] [offsets=…]
    ack | finish | release | return | reject | extend GROUP OFFSETS epoch=n
                                  release: [delay=ms] [reason=text]; reject: [reason=text]
                                  extend: for=ms [reason=late]
    cumulative-ack GROUP OFFSETS [dead=offset:reason] [stream=NAME batch=n]
    dead GROUP                    list the dead messages, the first to die first
    copy-dead GROUP to=QUEUE      append copies of the dead, as the leader does before `bury`
    bury GROUP OFFSETS [discard]  they are copied, or not wanted
    revive GROUP [OFFSETS] | cancel GROUP OFFSETS | purge GROUP
    redrive GROUP OFFSETS to=QUEUE epoch=n      append copies of leased messages, then ack them
    trim [QUEUE] [at=n]           delete the log's head; without `at`, what all groups are done with
    advance ms                    time passes, and the leader turns the machine's clock where due
    wait ms                       time passes, and the leader does nothing; `turn` turns the clock
    use-version n                 every node of the cluster knows this version of the queues
    snapshot | restore            restore: a new machine from the snapshot and the entries after it
    status | due
    quietly <command>             the same without output

The output has the reply, the effects, and the line of each work group that has changed. After
every command each message must be in exactly one place, and `restore` must give the same bytes.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec

from penstock.core import delivery_headers
from penstock.core.entries import Entry
from penstock.core.errors import PenstockError
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import build_messages, read_messages
from penstock.core.queue_rules import (
    Dead,
    Deduplication,
    Priorities,
    QueueRules,
    Retry,
    WorkRules,
)
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId, Term
from penstock.core.verdicts import Verdict
from penstock.machines import (
    Append,
    AppendBatch,
    Appended,
    Applied,
    CreatePartition,
    Known,
    Request,
    TrimPartition,
)
from penstock.machines.machine import Refused, Reply, WakeReaders
from penstock.machines.partitions import PartitionTrimmed
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
from penstock.machines.queue_headers import recalled_headers
from penstock.machines.queues import Acquired, CumulativeAckResult, QueueChanged, Settled
from penstock.machines.run import describe_offsets
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.work import WorkGroup
from tests.planned_entry import planned_entry
from tests.queue_model import unconserved

HEADERS = {
    "group": delivery_headers.GROUP,
    "priority": delivery_headers.PRIORITY,
    "delay": delivery_headers.DELAY,
    "at": delivery_headers.DELIVER_AT,
    "ttl": delivery_headers.TTL,
    "expires": delivery_headers.EXPIRE_AT,
    "id": delivery_headers.DEDUP_ID,
    "origin": delivery_headers.ORIGIN,
}
Options = dict[str, str]


class Stage:
    """Runs the commands of one file; `run` returns the lines of output."""

    def __init__(self) -> None:
        self.machine = ShardMachine()
        self.log: list[Entry] = []
        self.saved = (0, self.machine.snapshot())
        self.now_ms = 0
        self.queues: dict[str, PartitionId] = {}
        self.messages: dict[PartitionId, dict[int, Message]] = {}
        self.lines: list[str] = []
        self.shown: dict[str, str] = {}

    def run(self, line: str) -> list[str]:
        self.lines = []
        words = line.split()
        quiet = words[0] == "quietly"
        words = words[quiet:]
        options = dict(word.split("=", 1) for word in words[1:] if "=" in word)
        plain = [word for word in words[1:] if "=" not in word]
        command: Callable[[list[str], Options], None] | None
        command = getattr(self, "do_" + words[0].replace("-", "_"), None)
        assert command is not None, f"no such command: {line}"
        try:
            command(plain, options)
        except PenstockError as error:
            self.lines.append(f"refused: {type(error).__name__}: {error}")
        assert not options, f"no such option: {', '.join(options)} in {line}"
        self.show_changes()
        return [] if quiet else self.lines

    # Queues and work groups.

    def do_queue(self, plain: list[str], options: Options) -> None:
        partition = PartitionId(len(self.queues) + 1)
        self.queues[plain[0]] = partition
        self.messages[partition] = {}
        self.apply(CreatePartition(partition=partition))
        self.configure(plain[0], QueueRules(delivery_headers=True), options)

    def do_settings(self, plain: list[str], options: Options) -> None:
        rules = self.machine.queues.rules(self.queues[plain[0]])
        assert rules is not None
        self.configure(plain[0], rules, options)

    def configure(self, name: str, before: QueueRules, options: Options) -> None:
        rules = msgspec.structs.replace(before, **dict(queue_settings(options)))
        self.do(ConfigureQueue(partition=self.queues[name], rules=rules), f"{name} is configured")

    def do_open(self, plain: list[str], options: Options) -> None:
        partition, group = self.target(plain[0])
        known = self.machine.queues.work(partition, group)
        start = place(options.pop("at", "earliest"))
        before = WorkRules() if known is None else known.rules
        rules = msgspec.structs.replace(before, **dict(work_settings(options)))
        said = f"{plain[0]} is open" if known is None else f"{plain[0]} has other settings"
        self.do(OpenWork(partition=partition, group=group, start=start, rules=rules), said)

    def do_reset(self, plain: list[str], options: Options) -> None:
        partition, group = self.target(plain[0])
        start = place(options.pop("at"))
        said = f"{plain[0]} is reset"
        self.do(ResetWork(partition=partition, group=group, start=start), said)

    def do_close(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        self.do(CloseWork(partition=partition, group=group), f"{plain[0]} is closed")

    def do_read_old(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        work = self.work(plain[0])
        first, end = work.recalled, work.recall_end
        old = [self.messages[partition][offset] for offset in range(first, end)]
        delivery_headers = [recalled_headers(message, work.queue) for message in old]
        self.do(
            Recall(
                partition=partition,
                group=group,
                first=first,
                end=end,
                delivery_headers=tuple(one for one in delivery_headers if one is not None),
                fifo=work.queue.fifo,
            ),
            f"the headers of {describe_offsets(first, end)} are in the log",
        )

    # Messages.

    def do_send(self, plain: list[str], options: Options) -> None:
        partition = self.queue(options.pop("to", ""))
        key = options.pop("key", "").encode() or None
        bodies = plain * int(options.pop("count", 1))
        headers = tuple(
            (HEADERS[name], options.pop(name).encode()) for name in HEADERS if name in options
        )
        self.append(partition, [NewMessage(body.encode(), key, headers) for body in bodies])

    def append(self, partition: PartitionId, messages: Sequence[NewMessage]) -> None:
        self.do(AppendBatch(partition, build_messages(messages, self.now_ms)))

    def do_acquire(self, plain: list[str], options: Options) -> None:
        partition, group = self.target(plain[0])
        receiver = options.pop("by", "")
        self.do(
            Acquire(
                partition=partition,
                group=group,
                messages_max=int(plain[1]),
                lease_ms=int(options.pop("lease", -1)),
                offsets=offsets(options.pop("offsets", "")),
                receiver=receiver,
            ),
            f"{receiver or 'a receiver'} leases",
        )

    def do_ack(self, plain: list[str], options: Options) -> None:
        self.settle(Verdict.ACK, plain, options)

    def do_finish(self, plain: list[str], options: Options) -> None:
        self.settle(Verdict.FINISH, plain, options)

    def do_return(self, plain: list[str], options: Options) -> None:
        self.settle(Verdict.RETURN, plain, options)

    def do_release(self, plain: list[str], options: Options) -> None:
        self.settle(
            Verdict.RELEASE,
            plain,
            options,
            delay_ms=int(options.pop("delay", -1)),
            reason=options.pop("reason", ""),
        )

    def do_reject(self, plain: list[str], options: Options) -> None:
        self.settle(Verdict.REJECT, plain, options, reason=options.pop("reason", ""))

    def do_extend(self, plain: list[str], options: Options) -> None:
        self.settle(
            Verdict.EXTEND,
            plain,
            options,
            delay_ms=int(options.pop("for")),
            reason=options.pop("reason", ""),
        )

    def settle(
        self,
        verdict: Verdict,
        plain: list[str],
        options: Options,
        *,
        delay_ms: int = -1,
        reason: str = "",
    ) -> None:
        partition, group = self.target(plain[0])
        epoch = int(options.pop("epoch"))
        settlements = tuple(
            Settlement(first, end, epoch, verdict, delay_ms, reason)
            for first, end in ranges(plain[1])
        )
        self.do(
            Settle(partition=partition, group=group, settlements=settlements),
            f"{verdict.name.lower()} {plain[1]}",
        )

    def do_cumulative_ack(self, plain: list[str], options: Options) -> None:
        partition, group = self.target(plain[0])
        [(first, end)] = ranges(plain[1])
        dead = [one.split(":", 1) for one in options.pop("dead", "").split(",") if one]
        self.do(
            CumulativeAck(
                partition=partition,
                group=group,
                first=first,
                end=end,
                dead=tuple((Offset(int(offset)), reason) for offset, reason in dead),
                stream=options.pop("stream", ""),
                batch=int(options.pop("batch", -1)),
            )
        )

    # Dead letters, and what operators do.

    def do_dead(self, plain: list[str], _options: Options) -> None:
        found = self.work(plain[0]).dead_offsets(100)
        for one in found:
            self.lines.append(
                f"{one.offset} died at {one.died_ms} after {one.deliveries} deliveries,"
                f" first received at {one.first_ms}: {one.reason or 'no reason given'}"
            )
        if not found:
            self.lines.append("none is dead")

    def do_copy_dead(self, plain: list[str], options: Options) -> None:
        """The header `origin` names one death of one message, so that a second copy is known."""
        partition, group = self.target(plain[0])
        dead = self.work(plain[0]).dead_offsets(100)
        origins = {one.offset: f"{partition}:{one.offset}:{group}:{one.died_ms}" for one in dead}
        self.copy(partition, self.queue(options.pop("to")), origins)

    def do_redrive(self, plain: list[str], options: Options) -> None:
        partition, group = self.target(plain[0])
        origins = {}
        for offset in offsets(plain[1]):
            run = self.work(plain[0]).run_at(offset)
            life = run.first_ms if run is not None else -1
            origins[offset] = f"{partition}:{offset}:{group}:{life}"
        self.copy(partition, self.queue(options.pop("to")), origins)
        self.settle(Verdict.ACK, plain, options)

    def copy(self, source: PartitionId, target: PartitionId, origins: Mapping[Offset, str]) -> None:
        gone = {
            delivery_headers.DELAY,
            delivery_headers.DELIVER_AT,
            delivery_headers.TTL,
            delivery_headers.EXPIRE_AT,
            delivery_headers.DEDUP_ID,
            delivery_headers.ORIGIN,
        }
        copies = []
        for offset, origin in origins.items():
            one = self.messages[source][offset]
            kept = tuple(header for header in one.headers if header[0] not in gone)
            copies.append(
                NewMessage(one.value, one.key, (*kept, (delivery_headers.ORIGIN, origin.encode())))
            )
        self.append(target, copies)

    def do_bury(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        discarded = "discard" in plain
        self.do(
            RemoveDead(
                partition=partition, group=group, offsets=offsets(plain[1]), discarded=discarded
            ),
            "discarded" if discarded else "buried",
        )

    def do_revive(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        chosen = offsets(plain[1]) if len(plain) > 1 else ()
        self.do(RequeueDead(partition=partition, group=group, offsets=chosen), "revived")

    def do_cancel(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        self.do(Cancel(partition=partition, group=group, offsets=offsets(plain[1])), "cancelled")

    def do_purge(self, plain: list[str], _options: Options) -> None:
        partition, group = self.target(plain[0])
        self.do(Purge(partition=partition, group=group), "purged")

    def do_trim(self, plain: list[str], options: Options) -> None:
        partition = self.queue(plain[0] if plain else "")
        groups = self.machine.queues.groups(partition).values()
        before = int(options.pop("at", -1))
        if before < 0:
            before = min(work.start for work in groups)
        self.do(TrimPartition(partition=partition, before=Offset(before)))

    # Time, snapshots, questions.

    def do_advance(self, plain: list[str], _options: Options) -> None:
        self.now_ms += int(plain[0])
        queues = self.machine.queues
        while (due_ms := queues.due_ms()) is not None and due_ms <= self.now_ms:
            self.do_turn([], {})
            self.show_changes()

    def do_wait(self, plain: list[str], _options: Options) -> None:
        self.now_ms += int(plain[0])

    def do_turn(self, _plain: list[str], _options: Options) -> None:
        time_ms = max(self.now_ms, self.machine.queues.time_ms)
        self.do(TurnClock(), f"the clock is turned to {time_ms}")

    def do_use_version(self, plain: list[str], _options: Options) -> None:
        version = int(plain[0])
        self.do(UseQueuesVersion(version=version), f"queues are at version {version}")

    def do_snapshot(self, _plain: list[str], _options: Options) -> None:
        self.saved = (len(self.log), self.machine.snapshot())
        self.lines.append(f"snapshot after {len(self.log)} entries")

    def do_restore(self, _plain: list[str], _options: Options) -> None:
        count, data = self.saved
        restored = ShardMachine()
        restored.restore(data)
        for entry in self.log[count:]:
            restored.apply(entry)
        assert restored.snapshot() == self.machine.snapshot(), "another state than before"
        self.machine = restored
        self.lines.append(
            f"restored after {count} entries, applied {len(self.log) - count} more: the same state"
        )

    def do_status(self, _plain: list[str], _options: Options) -> None:
        self.lines.append(self.machine.queues.describe())
        self.shown.clear()

    def do_due(self, _plain: list[str], _options: Options) -> None:
        due_ms = self.machine.queues.due_ms()
        self.lines.append("nothing is due" if due_ms is None else f"next due at {due_ms}")

    # The log.

    def do(self, request: Request, said: str = "") -> None:
        """Plan, write and apply a request, and show the reply and the effects."""
        applied = self.apply(request)
        for reply in applied.replies:
            self.lines.append(self.describe_reply(reply, said))
        for effect in applied.effects:
            assert isinstance(effect, WakeReaders), effect
            self.lines.append(f"  wakes receivers of {self.name(effect.partition)}")

    def apply(self, request: Request) -> Applied:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        if isinstance(plan, Known):
            return Applied((plan.reply,))
        if isinstance(plan, Append):
            for message in read_messages(bytes(plan.batch)):
                self.messages[plan.partition][message.offset] = message
        entry = planned_entry(plan, len(self.log) + 1)
        self.log.append(entry)
        return self.machine.apply(entry)

    def describe_reply(self, reply: Reply, said: str) -> str:
        match reply:
            case Refused(code=code, message=message):
                return f"refused: {code}: {message}"
            case Appended(partition=partition, base_offset=first, end_offset=end):
                return f"appended {describe_offsets(first, end)} to {self.name(partition)}"
            case Acquired(runs=()):
                return f"{said} nothing" + (": too many are leased" if reply.full else "")
            case Acquired(epoch=epoch, until_ms=until_ms, runs=runs):
                texts = [
                    f"{describe_offsets(run.first, run.end)} (delivery {run.deliveries})"
                    for run in runs
                ]
                return f"{said} {', '.join(texts)} under epoch {epoch} until {until_ms}"
            case Settled(outcomes=outcomes):
                return f"{said}: {', '.join(one.name.lower() for one in outcomes)}"
            case CumulativeAckResult(count=count, upto=upto):
                return f"cumulative ack of {count} messages, up to {upto}"
            case PartitionTrimmed(partition=partition, log_start=start):
                return f"the log of {self.name(partition)} starts at {start}"
            case QueueChanged(count=count):
                return f"{said}: {count} messages" if count else said
        raise AssertionError(f"unexpected reply {reply}")

    def show_changes(self) -> None:
        """The line of every work group that is not as it was last shown."""
        queues = self.machine.queues
        for name, partition in self.queues.items():
            for group, work in queues.groups(partition).items():
                assert not (complaint := unconserved(work)), complaint
                full = f"{name}/{group}" if len(self.queues) > 1 else group
                text = work.describe()
                if self.shown.get(f"{name}/{group}") != text:
                    self.shown[f"{name}/{group}"] = text
                    self.lines.append(f"  {full}: {text}")

    # Names.

    def queue(self, name: str) -> PartitionId:
        return self.queues[name] if name else next(iter(self.queues.values()))

    def name(self, partition: PartitionId) -> str:
        return next(name for name, one in self.queues.items() if one == partition)

    def target(self, word: str) -> tuple[PartitionId, str]:
        queue, _, group = word.rpartition("/")
        return self.queue(queue), group

    def work(self, word: str) -> WorkGroup:
        work = self.machine.queues.work(*self.target(word))
        assert work is not None, f"{word} is not open"
        return work


def queue_settings(options: Options) -> Iterator[tuple[str, object]]:
    """The fields of `QueueRules` that these options set; takes them out."""
    flags = {"headers": "cards", "paused": "paused", "per_group": "deduplication_by_group"}
    numbers = {"delay": "delay_ms", "ttl": "ttl_ms", "window": "deduplication_ms"}
    for name, field in flags.items():
        if name in options:
            yield field, options.pop(name) == "yes"
    for name, field in numbers.items():
        if name in options:
            yield field, int(options.pop(name))
    if "order" in options:
        yield "fifo", options.pop("order") == "fifo"
    if "priorities" in options:
        yield "priorities", Priorities[options.pop("priorities").upper()]
    if "dedup" in options:
        yield "deduplication", Deduplication[options.pop("dedup").upper()]
    if "length" in options:
        yield "length_max", int(options.pop("length"))
        yield "drops_oldest", True


def work_settings(options: Options) -> Iterator[tuple[str, object]]:
    """The fields of `WorkRules` that these options set; takes them out."""
    numbers = {
        "lease": "lease_ms",
        "limit": "deliveries_max",
        "wait": "retry_ms",
        "wait_max": "retry_max_ms",
        "in_flight": "in_flight_max",
    }
    for name, field in numbers.items():
        if name in options:
            yield field, int(options.pop(name))
    if "retry" in options:
        yield "retry", Retry[options.pop("retry").upper()]
    if "dead" in options:
        yield "dead", Dead[options.pop("dead").upper()]


def place(text: str) -> Offset:
    return {"earliest": EARLIEST, "latest": LATEST}.get(text) or Offset(int(text))


def ranges(text: str) -> list[tuple[Offset, Offset]]:
    """`1,3,5-7` as ranges without their end."""
    found = []
    for part in text.split(","):
        first, _, last = part.partition("-")
        found.append((Offset(int(first)), Offset(int(last or first) + 1)))
    return found


def offsets(text: str) -> tuple[Offset, ...]:
    return tuple(
        Offset(one) for first, end in (ranges(text) if text else []) for one in range(first, end)
    )
