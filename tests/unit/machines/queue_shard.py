"""A shard with one queue in it, without Raft or disk: requests are planned and applied at once.

After every request each message must be in exactly one place.
"""

from collections.abc import Sequence
from typing import NamedTuple

from penstock.core import delivery_headers
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import QueueRules, WorkRules
from penstock.core.types import EARLIEST, Offset, PartitionId, Term
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines import (
    AppendBatch,
    Applied,
    CreatePartition,
    Reply,
    Request,
    TrimPartition,
)
from penstock.machines.queue_commands import (
    Acquire,
    ConfigureQueue,
    OpenWork,
    Settle,
    Settlement,
    TurnClock,
)
from penstock.machines.queues import Acquired, Settled
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.work import WorkGroup
from penstock.machines.work_records import GrantedRun
from tests.batches import build_batch
from tests.planned_entry import planned_entry
from tests.queue_model import unconserved

ONE = PartitionId(1)
GROUP = "queue"
DEFAULT_WORK = WorkRules()


class Lease(NamedTuple):
    """What somebody got."""

    epoch: int
    until_ms: int
    offsets: list[int]
    runs: tuple[GrantedRun, ...]


class QueueShard:
    """One machine with partition 1; with rules for work, the group `queue` is open."""

    def __init__(
        self, rules: QueueRules | None = None, work: WorkRules | None = DEFAULT_WORK
    ) -> None:
        self.machine = ShardMachine()
        self.index = 0
        self.now_ms = 1_000
        self.do(CreatePartition(partition=ONE))
        if rules is not None:
            self.configure(rules)
        if work is not None:
            self.open(work)

    # Requests.

    def apply(self, request: Request) -> Applied:
        plan = self.machine.plan(request, now_ms=self.now_ms, term=Term(1))
        self.index += 1
        applied = self.machine.apply(planned_entry(plan, self.index))
        for work in self.machine.queues.groups(ONE).values():
            assert not (complaint := unconserved(work)), complaint
        return applied

    def do(self, request: Request) -> Reply:
        return self.apply(request).replies[0]

    def configure(self, rules: QueueRules) -> None:
        self.do(ConfigureQueue(partition=ONE, rules=rules))

    def open(self, work: WorkRules, group: str = GROUP, start: int = EARLIEST) -> None:
        self.do(OpenWork(partition=ONE, group=group, start=Offset(start), rules=work))

    def send(self, *messages: NewMessage) -> None:
        self.do(AppendBatch(ONE, build_messages(messages, self.now_ms)))

    def send_plain(self, count: int) -> None:
        self.do(AppendBatch(ONE, build_batch(count)))

    def acquire(
        self, most: int = 1, *, lease_ms: int = -1, group: str = GROUP, offsets: Sequence[int] = ()
    ) -> Lease:
        reply = self.do(
            Acquire(
                partition=ONE,
                group=group,
                messages_max=most,
                lease_ms=lease_ms,
                offsets=tuple(map(Offset, offsets)),
            )
        )
        assert isinstance(reply, Acquired), reply
        got = [offset for run in reply.runs for offset in range(run.first, run.end)]
        return Lease(reply.epoch, reply.until_ms, got, reply.runs)

    def offsets(self, most: int = 1) -> list[int]:
        """Which messages a worker gets who asks for so many."""
        return self.acquire(most).offsets

    def settle(
        self,
        lease: Lease,
        verdict: Verdict,
        *offsets: int,
        delay_ms: int = -1,
        reason: str = "",
        group: str = GROUP,
    ) -> list[Outcome]:
        """About these messages, or all of the lease."""
        settlements = tuple(
            Settlement(Offset(one), Offset(one + 1), lease.epoch, verdict, delay_ms, reason)
            for one in offsets or lease.offsets
        )
        reply = self.do(Settle(partition=ONE, group=group, settlements=settlements))
        assert isinstance(reply, Settled), reply
        return list(reply.outcomes)

    def ack(self, lease: Lease, *offsets: int) -> list[Outcome]:
        return self.settle(lease, Verdict.ACK, *offsets)

    def release(self, lease: Lease, *offsets: int, delay_ms: int = -1) -> list[Outcome]:
        return self.settle(lease, Verdict.RELEASE, *offsets, delay_ms=delay_ms)

    def reject(self, lease: Lease, *offsets: int, reason: str = "") -> list[Outcome]:
        return self.settle(lease, Verdict.REJECT, *offsets, reason=reason)

    def extend(self, lease: Lease, *offsets: int, by_ms: int) -> list[Outcome]:
        return self.settle(lease, Verdict.EXTEND, *offsets, delay_ms=by_ms)

    def wait(self, ms: int) -> None:
        """Time passes, and somebody turns the clock."""
        self.now_ms += ms
        self.do(TurnClock())

    def trim(self, before: int) -> None:
        self.do(TrimPartition(partition=ONE, before=Offset(before)))

    def restart(self) -> None:
        """Go on from a snapshot, which a restored machine would take again."""
        state = self.machine.snapshot()
        self.machine = ShardMachine()
        self.machine.restore(state)
        assert self.machine.snapshot() == state

    # What is there.

    @property
    def work(self) -> WorkGroup:
        work = self.machine.queues.work(ONE, GROUP)
        assert work is not None
        return work

    def counts(self) -> tuple[int, int, int, int]:
        """Ready, leased, delayed, dead."""
        work = self.work
        return work.ready, work.leased, work.delayed, work.dead


def message(
    value: bytes = b"a message",
    *,
    key: bytes | None = None,
    priority: int | None = None,
    delay_ms: int | None = None,
    deliver_at_ms: int | None = None,
    ttl_ms: int | None = None,
    expire_at_ms: int | None = None,
    group: bytes | None = None,
    dedup: bytes | None = None,
    origin: bytes | None = None,
) -> NewMessage:
    """A message that says these things of itself."""
    numbers = {
        delivery_headers.PRIORITY: priority,
        delivery_headers.DELAY: delay_ms,
        delivery_headers.DELIVER_AT: deliver_at_ms,
        delivery_headers.TTL: ttl_ms,
        delivery_headers.EXPIRE_AT: expire_at_ms,
    }
    texts = {
        delivery_headers.GROUP: group,
        delivery_headers.DEDUP_ID: dedup,
        delivery_headers.ORIGIN: origin,
    }
    headers = [(name, str(value).encode()) for name, value in numbers.items() if value is not None]
    headers += [(name, text) for name, text in texts.items() if text is not None]
    return NewMessage(value, key, tuple(headers))
