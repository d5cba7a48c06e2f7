"""More is due than happens at once, and a replica starts again from a snapshot: it must go on as
those do that were there all the time.

The play against a model (`test_queues`) never has so much to do that a part of it is left for
later. Here two steps are all that is taken at a time, so that leases which are over and messages
which have expired are met where nobody expects them; there is no model, and replicas are held
against each other.
"""

from random import Random

import pytest

from penstock.core import delivery_headers
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Dead, Priorities, QueueRules, Retry, WorkRules
from penstock.core.types import EARLIEST, Offset, PartitionId
from penstock.core.verdicts import Verdict
from penstock.machines import AppendBatch, CreatePartition, Request, TrimPartition
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    ConfigureQueue,
    CumulativeAck,
    OpenWork,
    Recall,
    RequeueDead,
    Settle,
    Settlement,
    TurnClock,
)
from penstock.machines.queues import Acquired
from penstock.machines.work import WorkGroup
from tests.queue_model import unconserved
from tests.queue_replicas import QueueReplicas

PARTITION, GROUP = PartitionId(1), "a"
SAID: dict[str, list[bytes | None]] = {
    delivery_headers.GROUP: [None, b"g", b"h"],
    delivery_headers.PRIORITY: [None, b"2", b"9"],
    delivery_headers.DELAY: [None, None, b"5", b"20"],
    delivery_headers.TTL: [None, b"10", b"30", b"60"],
}
STEPS = 150


class CoalescingGate:
    """Everybody who has to do with a queue, at random."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self.replicas = QueueReplicas()
        self.now_ms = 1_000
        self.held: list[tuple[Offset, Offset, int]] = []
        self.do(CreatePartition(partition=PARTITION))
        self.do(self.configure())
        pick = self.random.choice
        work = WorkRules(
            lease_ms=pick([1, 20, 100]),
            deliveries_max=pick([0, 1, 3]),
            retry=pick([Retry.NONE, Retry.FIXED]),
            retry_ms=8,
            dead=pick(list(Dead)),
            in_flight_max=pick([4, 100]),
        )
        self.do(OpenWork(partition=PARTITION, group=GROUP, start=EARLIEST, rules=work))

    @property
    def work(self) -> WorkGroup:
        work = self.replicas.leader.queues.work(PARTITION, GROUP)
        assert work is not None
        return work

    @property
    def end(self) -> Offset:
        return self.replicas.leader.bounds(PARTITION)[1]

    def do(self, request: Request) -> None:
        reply = self.replicas.do(request, self.now_ms)
        if isinstance(reply, Acquired):
            self.held += [(run.first, run.end, reply.epoch) for run in reply.runs]

    def step(self) -> None:
        """Something happens, or nothing."""
        match self.random.randrange(16):
            case 0 | 1 | 2 | 3:
                self.do(self.send())
            case 4 | 5 | 6 | 7:
                self.do(self.acquire())
            case 8 | 9 if self.held:
                self.do(self.settle())
            case 10:
                self.now_ms += self.random.choice([1, 5, 30])
            case 11:
                self.do(self.operate())
            case 12 if self.random.random() < 0.3:
                self.do(self.configure())
            case 13 if self.work.is_recalling:
                self.do(self.recall())
            case 14:
                self.replicas.restore(2)
            case _:
                pass

    def send(self) -> Request:
        made = []
        for _ in range(self.random.randrange(1, 6)):
            drawn = ((name, self.random.choice(values)) for name, values in SAID.items())
            headers = tuple((name, value) for name, value in drawn if value is not None)
            made.append(NewMessage(b"", self.random.choice([None, b"k"]), headers))
        return AppendBatch(PARTITION, build_messages(made, self.now_ms))

    def acquire(self) -> Request:
        return Acquire(
            partition=PARTITION,
            group=GROUP,
            messages_max=self.random.randrange(1, 7),
            lease_ms=self.random.choice([-1, 0, 10]),
            offsets=self.some() if self.random.random() < 0.2 else (),
        )

    def some(self) -> tuple[Offset, ...]:
        return tuple(Offset(self.random.randrange(self.end + 1)) for _ in range(3))

    def settle(self) -> Request:
        first, end, epoch = self.random.choice(self.held)
        verdict, delay_ms = self.random.choice(list(Verdict)), self.random.choice([-1, 0, 12])
        said = Settlement(first, end, epoch, verdict, delay_ms)
        return Settle(partition=PARTITION, group=GROUP, settlements=(said,))

    def operate(self) -> Request:
        first, *_, dead = self.some()
        end = Offset(first + 2)
        gone = Offset(self.replicas.leader.bounds(PARTITION)[0] + 1)
        return self.random.choice(
            [
                TurnClock(),
                TurnClock(),
                RequeueDead(partition=PARTITION, group=GROUP),
                Cancel(partition=PARTITION, group=GROUP, offsets=(dead,)),
                CumulativeAck(
                    partition=PARTITION, group=GROUP, first=first, end=end, dead=((dead, ""),)
                ),
                TrimPartition(partition=PARTITION, before=gone) if gone < first else TurnClock(),
            ]
        )

    def configure(self) -> Request:
        rules = QueueRules(
            delivery_headers=True,
            fifo=self.random.random() < 0.3,
            priorities=self.random.choice(list(Priorities)),
            delay_ms=self.random.choice([0, 0, 15]),
            ttl_ms=self.random.choice([-1, -1, 60]),
            length_max=self.random.choice([-1, -1, 8]),
            drops_oldest=self.random.random() < 0.5,
        )
        return ConfigureQueue(partition=PARTITION, rules=rules)

    def recall(self) -> Request:
        first, work = self.work.recalled, self.work
        end = Offset(min(first + self.random.randrange(1, 9), work.recall_end))
        message_groups = [b"g", b"h", b"k"]
        delivery_headers = tuple(
            (Offset(one), self.random.choice([2, 4, 9]), self.random.choice(message_groups), -1, -1)
            for one in range(first, end)
        )
        return Recall(
            partition=PARTITION,
            group=GROUP,
            first=first,
            end=end,
            delivery_headers=delivery_headers,
            fifo=work.queue.fifo,
        )


@pytest.mark.parametrize("seed", range(80))
def test_replicas_stay_equal_when_not_everything_happens_at_once(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(WorkGroup.turn, "__defaults__", (2,))
    monkeypatch.setattr(WorkGroup.ack_cumulatively, "__defaults__", (2,))
    crowd = CoalescingGate(seed)
    for number in range(STEPS):
        crowd.step()
        if number % 10 == 0:
            crowd.replicas.check_equal()
            assert not (complaint := unconserved(crowd.work)), complaint
