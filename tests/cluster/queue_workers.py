"""Workers that lease messages and write down what they got and what they said about it.

What a worker does with a message is decided by lot: most are done after a while, some are given
back, some are held longer, some are forgotten until the lease is over, and some are done when it
is over and somebody else may have them. Poison is never done.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from random import Random
from typing import Any

from tests.cluster.history import Completion, Recorder
from tests.cluster.payloads import name_in
from tests.cluster.queue_client import QueueClient, Refused, Unknown, url_of
from tests.cluster.queue_facts import Delivered, QueueFacts, Verdict
from tests.cluster.queue_plans import Plan

WAIT_SECONDS = 1
LEASE_SECONDS = 3
EXTENDED_SECONDS = 3
HOLD_SECONDS = 0.6
AT_ONCE_MAX = 5
"""Answers that a worker works off at the same time."""
_PAUSE_SECONDS = 0.05
_MARGIN_SECONDS = 0.1
_ATTEMPTS = 5
LATE_SECONDS = 1.5
_FATES = ("ack", "release", "extend", "forget", "late")
_LATE_VERDICTS: tuple[Verdict, ...] = ("ack", "ack", "extend")
_WEIGHTS = (81, 6, 5, 4, 4)


@dataclass(slots=True)
class Lease:
    """A message that a worker has."""

    queue: str
    value: str
    receipt: str
    certain_until: float
    """It cannot have ended before, by the clock of the loop."""


class RateLimit:
    """What workers are told to do, all at once."""

    def __init__(self) -> None:
        self.ending = asyncio.Event()
        self.settling = asyncio.Event()
        self.settling.set()
        self.draining = False
        self.lease_seconds = LEASE_SECONDS
        self.nodes_stop = False
        """Nodes are stopped in good order meanwhile. A node that stops may answer a receive with
        nothing, or with "not now", after messages were leased for it: they come back when their
        lease is over, and that delivery is counted."""
        self.held: set[int] = set()
        """Leases nobody has said anything about yet, by their id."""


class Worker:
    """Works at one queue."""

    def __init__(
        self,
        recorder: Recorder,
        new_client: Callable[[], QueueClient],
        plan: Plan,
        random: Random,
        pace: RateLimit,
    ) -> None:
        self.received = 0
        self._process = recorder.new_process("worker")
        self._recorder = recorder
        self._receiver, self._settler = new_client(), new_client()
        self.plan = plan
        self._random = random
        self._pace = pace
        self._tasks: set[asyncio.Task[None]] = set()
        self._late: set[asyncio.Task[None]] = set()
        self._settling = asyncio.Lock()

    async def work(self) -> None:
        """Until it is time to end; what was leased by then is worked off."""
        while not self._pace.ending.is_set():
            leases = await self._receive()
            if leases:
                self._spawn(self._work_off(leases), self._tasks)
            # Who takes more than he can do has it taken away again; unless he is told to hold it.
            most = 1 if self._pace.draining else AT_ONCE_MAX
            while len(self._tasks) >= most and self._pace.settling.is_set():
                await asyncio.wait(self._tasks, return_when=asyncio.FIRST_COMPLETED)
        await asyncio.gather(*self._tasks, *self._late)
        self._receiver.close()
        self._settler.close()

    def _spawn(self, work: Coroutine[Any, Any, None], tasks: set[asyncio.Task[None]]) -> None:
        task = asyncio.create_task(work)
        tasks.add(task)
        task.add_done_callback(tasks.discard)

    # Receiving.

    async def _receive(self) -> list[Lease]:
        """Lease some, and write it down."""
        loop = asyncio.get_running_loop()
        seconds = self._pace.lease_seconds
        facts = QueueFacts(self.plan.name, lease_ms=1_000 * seconds)
        operation = self._recorder.invoke(self._process, "receive", queue=facts)
        until = loop.time() + seconds
        delivered: list[Delivered] = []
        try:
            delivered = await self._ask(seconds)
        except Refused as refusal:
            doubtful = self._pace.nodes_stop and refusal.later and refusal.code != "NotSent"
            operation.complete("info" if doubtful else "fail", queue=facts, note=str(refusal))
            await asyncio.sleep(_PAUSE_SECONDS)
        except Unknown as unknown:
            operation.complete("info", queue=facts, note=str(unknown))
        else:
            told = QueueFacts(self.plan.name, delivered=tuple(delivered))
            hasty = not delivered and loop.time() < until - seconds + WAIT_SECONDS
            operation.complete("info" if hasty and self._pace.nodes_stop else "ok", queue=told)
        self.received += len(delivered)
        return [Lease(self.plan.name, one.value, one.receipt, until) for one in delivered]

    async def _ask(self, seconds: int) -> list[Delivered]:
        answer = await self._receiver.sqs(
            "ReceiveMessage",
            wait_seconds=WAIT_SECONDS,
            QueueUrl=url_of(self.plan.name),
            MaxNumberOfMessages=self.plan.receive_max,
            VisibilityTimeout=seconds,
            WaitTimeSeconds=WAIT_SECONDS,
            AttributeNames=["ApproximateReceiveCount"],
        )
        return [
            Delivered(
                name_in(one["Body"].encode()),
                one["ReceiptHandle"],
                int(one["Attributes"]["ApproximateReceiveCount"]),
                one["MessageId"] if not self.plan.priorities else "",
            )
            for one in answer.get("Messages", ())
        ]

    # Working.

    async def _work_off(self, leases: list[Lease]) -> None:
        self._pace.held |= {id(lease) for lease in leases}
        try:
            if not self._pace.draining:
                await asyncio.sleep(self._random.uniform(0, HOLD_SECONDS))
            await self._pace.settling.wait()
        finally:
            self._pace.held -= {id(lease) for lease in leases}
        done: list[Lease] = []
        for lease in leases:
            match self._fate(lease):
                case "ack":
                    done.append(lease)
                case "release":
                    await self._settle([lease], "release")
                case "extend":
                    if await self._settle([lease], "extend", seconds=EXTENDED_SECONDS):
                        done.append(lease)
                case "late":
                    self._spawn(self._settle_late(lease), self._late)
                case "forget":
                    pass
        if self._pace.draining or self._random.random() < 0.5:
            await self._settle(done, "ack")
        else:
            for lease in done:
                await self._settle([lease], "ack")

    async def _settle_late(self, lease: Lease) -> None:
        """Say something with a receipt whose time is over, and hear what came of it."""
        late = self._random.uniform(0, LATE_SECONDS)
        await asyncio.sleep(lease.certain_until - asyncio.get_running_loop().time() + late)
        await self._settle([lease], self._random.choice(_LATE_VERDICTS), seconds=1, exact=True)

    def _fate(self, lease: Lease) -> str:
        poison = self.plan.is_poison(lease.value)
        if self._pace.draining:
            return "release" if poison else "ack"
        (fate,) = self._random.choices(_FATES, _WEIGHTS)
        return self._random.choice(("release", "forget")) if poison and fate == "ack" else fate

    async def _settle(
        self, leases: list[Lease], verdict: Verdict, *, seconds: int = 0, exact: bool = False
    ) -> bool:
        """Say something about leases, again if that cannot be heard; True if it was. `exact`: by
        the interface that says what came of it."""
        left = leases
        for _ in range(_ATTEMPTS):
            if not left:
                return True
            async with self._settling:
                left = await self._settle_once(left, verdict, seconds, exact=exact)
            if left:
                await asyncio.sleep(_PAUSE_SECONDS)
        return False

    async def _settle_once(
        self, leases: list[Lease], verdict: Verdict, seconds: int, *, exact: bool
    ) -> list[Lease]:
        """Returns those of which nobody has heard, as far as is known."""
        began = asyncio.get_running_loop().time()
        facts = [
            QueueFacts(
                self.plan.name, receipt=one.receipt, verdict=verdict, delay_ms=seconds * 1_000
            )
            for one in leases
        ]
        operations = [self._recorder.invoke(self._process, "settle", queue=one) for one in facts]
        outcomes: list[Completion]
        unheard, note = True, ""
        try:
            if verdict != "ack":
                outcomes = await self._change_visibility(leases[0], seconds)
            elif not exact and self._random.random() < 0.5:
                outcomes = await self._delete(leases)
            else:
                outcomes = await self._settle_http(leases)
            unheard = False
        except Refused as refusal:
            outcomes, note = ["fail"] * len(leases), str(refusal)
            unheard = refusal.later
        except Unknown as unknown:
            outcomes, note = ["info"] * len(leases), str(unknown)
        for operation, one, outcome in zip(operations, facts, outcomes, strict=True):
            operation.complete(outcome, queue=one, note=note)
        if verdict == "extend" and outcomes[0] != "fail":
            extended, lease = began + seconds, leases[0]
            certain = outcomes[0] == "ok"
            lease.certain_until = extended if certain else min(lease.certain_until, extended)
        return leases if unheard else []

    async def _delete(self, leases: list[Lease]) -> list[Completion]:
        """SQS does not say of a message that somebody else has by now that it was not deleted."""
        url = url_of(self.plan.name)
        failed: set[int] = set()
        if len(leases) == 1:
            await self._settler.sqs("DeleteMessage", QueueUrl=url, ReceiptHandle=leases[0].receipt)
        else:
            entries = [
                {"Id": str(number), "ReceiptHandle": lease.receipt}
                for number, lease in enumerate(leases)
            ]
            answer = await self._settler.sqs("DeleteMessageBatch", QueueUrl=url, Entries=entries)
            failed = {int(one["Id"]) for one in answer.get("Failed", ())}
        return [
            "fail" if number in failed else _if_still_leased(lease)
            for number, lease in enumerate(leases)
        ]

    async def _settle_http(self, leases: list[Lease]) -> list[Completion]:
        verdicts = [{"receipt": lease.receipt, "verdict": "ack"} for lease in leases]
        answer = await self._settler.http(
            "POST", f"/queues/{self.plan.name}/settle", {"verdicts": verdicts}
        )
        # What is gone is done with, by whatever was said about it before.
        meanings: dict[str, Completion] = {"done": "ok", "stale": "fail", "gone": "info"}
        return [meanings[outcome] for outcome in answer["outcomes"]]

    async def _change_visibility(self, lease: Lease, seconds: int) -> list[Completion]:
        """Nor does SQS say that it changed nothing, because somebody else has the message."""
        await self._settler.sqs(
            "ChangeMessageVisibility",
            QueueUrl=url_of(self.plan.name),
            ReceiptHandle=lease.receipt,
            VisibilityTimeout=seconds,
        )
        return [_if_still_leased(lease)]


def _if_still_leased(lease: Lease) -> Completion:
    """What a success means that SQS reports whether or not another receiver had the message."""
    now = asyncio.get_running_loop().time() + _MARGIN_SECONDS
    return "ok" if now < lease.certain_until else "info"
