"""Senders and workers for a real cluster, from the making of queues to their emptying.

All clients live in one event loop in a thread of its own; whoever runs the test tells them what to
do from outside, and waits. It has the same face as `Workload`, so that a run can have either.
"""

import asyncio
import itertools
from collections import Counter
from collections.abc import Callable, Coroutine, Mapping
from random import Random
from typing import Any

from tests.cluster.clients import Operator
from tests.cluster.history import Recorder
from tests.cluster.queue_checker import check_queues
from tests.cluster.queue_client import QueueClient, Refused, Unknown
from tests.cluster.queue_facts import QueueFacts
from tests.cluster.queue_plans import PLANS, Plan
from tests.cluster.queue_senders import BATCH_MAX, Sender
from tests.cluster.queue_workers import LEASE_SECONDS, RateLimit, Worker
from tests.cluster.steady import SteadyClient
from tests.cluster.verdict import Verdict
from tests.cluster.waiting import wait_until

HELD = 1_000
HELD_LEASE_SECONDS = 8
HELD_WITHIN_SECONDS = 30.0
DRAIN_WITHIN_SECONDS = 120.0
MADE_WITHIN_SECONDS = 60.0
_LOOK_SECONDS = 0.2
_LIVING = ("ready", "leased", "delayed", "dead")

BARE: Mapping[str, object] = {
    "deliveries_max": 0,
    "retry_policy": "none",
    "dead_letter_topic": "",
}
"""Of every plan that says nothing else: a message fails as often as it likes, and stays."""


class _Loop(SteadyClient):
    """A thread in which coroutines are run."""

    def __init__(self) -> None:
        super().__init__("queue-clients")
        self.loop = asyncio.new_event_loop()

    def work(self) -> None:
        asyncio.set_event_loop(self.loop)
        self.loop.run_forever()
        left = asyncio.all_tasks(self.loop)
        for task in left:
            task.cancel()
        self.loop.run_until_complete(asyncio.gather(*left, return_exceptions=True))
        self.loop.close()

    def stop(self) -> None:
        super().stop()
        self.loop.call_soon_threadsafe(self.loop.stop)


class QueueWorkload:
    """All clients of one run."""

    def __init__(
        self,
        addresses: Callable[[], str],
        web: Callable[[], list[str]],
        recorder: Recorder,
        *,
        seed: int,
        held: int = HELD,
        braces: int = 1 << 30,
        plans: tuple[Plan, ...] = PLANS,
        nodes_stop: bool = False,
    ) -> None:
        """`addresses` are those of Kafka, `web` those of HTTP, of whoever is there then.
        So many messages are `held` when a fault strikes, at the first so many strikes.
        `nodes_stop`: see `RateLimit`."""
        self.in_flight_then: list[int] = []
        """How many messages were leased when a fault struck, as the cluster has it."""
        self.operator = Operator(addresses())
        self.recorder = recorder
        self._held_target = held
        self._braces = braces
        self._web = web
        self._plans = plans
        self._seeds = itertools.count(1_000_000 * seed)
        self._thread = _Loop()
        self._clients: list[QueueClient] = []
        self._senders: list[Sender] = []
        self._workers: list[Worker] = []
        self._sending: list[asyncio.Task[None]] = []
        self._working: list[asyncio.Task[None]] = []
        self._ending = asyncio.Event()
        self._pace = RateLimit()
        self._pace.nodes_stop = nodes_stop

    # From outside.

    def start(self) -> None:
        """Make the queues, start everybody, and wait until messages flow."""
        self._thread.start()
        self._run(self._make_queues(), seconds=MADE_WITHIN_SECONDS)
        self._run(self._start())
        self.wait_acked(50, seconds=60)
        wait_until(
            lambda: all(worker.received for worker in self._workers if worker.plan.per_second),
            "every worker gets something",
            seconds=60,
        )
        for client in self._clients:
            # A queue that is a moment old is not known everywhere, and clients are told so.
            client.errors.clear()

    @property
    def acked(self) -> int:
        return sum(sender.acked for sender in self._senders)

    @property
    def held(self) -> int:
        """How many messages workers have, of which they have said nothing."""
        return len(self._pace.held)

    @property
    def errors(self) -> Counter[str]:
        """What clients were told that was no answer."""
        total: Counter[str] = Counter()
        for client in self._clients:
            total.update(client.errors)
        return total

    @property
    def topic(self) -> str:
        """The queue whose leader is harmed."""
        return self._plans[0].name

    def brace(self) -> None:
        """Send many messages, and have workers lease as many and say nothing of them until the
        fault has struck: then they go on with receipts of before."""
        if not self._held_target or len(self.in_flight_then) >= self._braces:
            return
        self._pace.lease_seconds = HELD_LEASE_SECONDS
        self._call(self._pace.settling.clear)
        self._run(self._burst(self._held_target), seconds=HELD_WITHIN_SECONDS)
        wait_until(
            lambda: self._check() or self.held >= self._held_target,
            lambda: f"{self._held_target} messages are held; {self.held} are",
            seconds=HELD_WITHIN_SECONDS,
        )
        self.in_flight_then.append(self.leased())

    def wait_acked(self, more: int, *, seconds: float) -> None:
        """Wait until so many more messages are acknowledged."""
        self._let_go()
        target = self.acked + more
        wait_until(
            lambda: self._check() or self.acked >= target,
            lambda: f"{more} more acknowledgements; clients were told {dict(self.errors)}",
            seconds=seconds,
        )

    def _let_go(self) -> None:
        self._pace.lease_seconds = LEASE_SECONDS
        self._call(self._pace.settling.set)

    def leased(self) -> int:
        """How many messages are leased, of all queues, as the cluster has it."""
        counts = self._run(self._all_counts(self._new_client()))
        return sum(found["leased"] for found in counts.values() if found is not None)

    def stop(self) -> None:
        """Send nothing more; workers go on."""
        self._call(self._ending.set)

    def abandon(self) -> None:
        """Stop in the middle of a failure."""
        self._thread.stop()
        self._thread.join()

    def drain(self) -> None:
        """Work everything off, until the cluster says that nothing is left."""
        operation = self.recorder.invoke("drain", "drain")
        self._pace.draining = True
        self._let_go()
        try:
            left = self._run(self._wait_empty(), seconds=2 * DRAIN_WITHIN_SECONDS)
        except BaseException as error:
            operation.complete("info", note=repr(error))
            raise
        operation.complete("info" if left else "ok", note=left)

    def check(self) -> Verdict:
        """End everybody and judge."""
        self._run(self._end(), seconds=60)
        self._thread.stop()
        self._thread.join()
        return check_queues(self.recorder.history())

    def _run(self, work: Coroutine[Any, Any, Any], *, seconds: float = 30.0) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._thread.loop).result(seconds)

    def _call(self, function: Callable[[], None]) -> None:
        self._thread.loop.call_soon_threadsafe(function)

    def _check(self) -> bool:
        """Raise what went wrong in there; never True."""
        self._thread.check()
        for task in (*self._sending, *self._working):
            if task.done() and not task.cancelled() and task.exception() is not None:
                task.result()
        return False

    # In the loop.

    def _new_client(self) -> QueueClient:
        client = QueueClient(self._web, Random(next(self._seeds)))
        self._clients.append(client)
        return client

    async def _make_queues(self) -> None:
        client = self._new_client()
        # A queue comes after the one its dead letters go to, which would be made with it.
        for plan in sorted(self._plans, key=lambda plan: bool(plan.promises.dead_letters)):
            facts = QueueFacts(plan.name, promises=plan.promises)
            content = {"name": plan.name, "settings": {**BARE, **plan.settings}}
            while True:
                try:
                    await client.http("POST", "/queues", content)
                except Refused as refusal:
                    if refusal.code == "TopicExists":
                        break
                except Unknown:
                    pass
                else:
                    break
                await asyncio.sleep(_LOOK_SECONDS)
            self.recorder.invoke("maker", "queue", queue=facts).complete("ok", queue=facts)

    async def _start(self) -> None:
        for plan in self._plans:
            if plan.per_second:
                random = Random(next(self._seeds))
                sender = Sender(self.recorder, self._new_client(), plan, random)
                self._senders.append(sender)
                self._sending.append(asyncio.create_task(sender.work(self._ending)))
            for _ in range(plan.workers):
                random = Random(next(self._seeds))
                worker = Worker(self.recorder, self._new_client, plan, random, self._pace)
                self._workers.append(worker)
                self._working.append(asyncio.create_task(worker.work()))

    async def _burst(self, messages: int) -> None:
        sender = Sender(
            self.recorder, self._new_client(), self._plans[0], Random(next(self._seeds))
        )
        self._senders.append(sender)
        while sender.acked < messages:
            await sender.send(BATCH_MAX)

    async def _wait_empty(self) -> str:
        """What is left when the time is up; nothing if there is nothing."""
        loop = asyncio.get_running_loop()
        await asyncio.gather(*self._sending)
        deadline = loop.time() + DRAIN_WITHIN_SECONDS
        client = self._new_client()
        left = ""
        while loop.time() < deadline:
            await asyncio.sleep(_LOOK_SECONDS)
            self._check()
            left = ", ".join(
                f"{name}: {found}"
                for name, found in (await self._all_counts(client)).items()
                if found is None or any(found[state] for state in _LIVING)
            )
            if not left and not self._pace.held:
                return ""
        return left or "workers have not said what became of their messages"

    async def _all_counts(self, client: QueueClient) -> dict[str, dict[str, int] | None]:
        return {plan.name: await self._counts(client, plan) for plan in self._plans}

    async def _counts(self, client: QueueClient, plan: Plan) -> dict[str, int] | None:
        """What the cluster says is in which state, if it says anything."""
        facts = QueueFacts(plan.name)
        operation = self.recorder.invoke("counter", "counts", queue=facts)
        try:
            answer = await client.http("GET", f"/queues/{plan.name}")
        except (Refused, Unknown) as error:
            operation.complete("info", queue=facts, note=str(error))
            return None
        if not answer["groups"]:
            operation.complete("info", queue=facts, note="it does not know who works here")
            return None
        (group,) = answer["groups"]
        counts = {name: group[_NAME_AT_0_1.get(name, name)] for name in _COUNTED}
        counts["dead"] -= group.get("dead_lettered", 0)  # They have been moved.
        operation.complete("ok", queue=QueueFacts(plan.name, counts=counts))
        return counts

    async def _end(self) -> None:
        self._ending.set()
        self._pace.ending.set()
        self._pace.settling.set()
        await asyncio.gather(*self._sending, *self._working)
        for client in self._clients:
            client.close()


_NAME_AT_0_1 = {"ready": "visible", "leased": "in_flight"}
"""Brokers of every version send these fields."""
_COUNTED = (
    "sent",
    *_LIVING,
    *("acked", "moved", "expired", "purged", "dropped", "duplicates"),
)
