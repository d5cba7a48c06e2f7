"""Running sagas so that any process may carry on where another one died.

A saga has a log and a token. The log is a topic, `saga-<name>-log`, with an event for every step;
what it says is the state, and nothing else is. The token is one message in the queue `saga-<name>`:
who has leased it works on the saga. It is acknowledged when the saga is finished, and not before,
so a worker that dies leaves it to the next one, who reads the log and goes on with the first step
that has no event. A step that is to be tried again later is a token that is released with a delay.

    token:  |-- leased: reserve, charge --x (killed)   |-- leased: charge, ship --| acknowledged
    log:    started, reserve done                      charge done, ship done

What follows from it:

- Nothing is sent from step to step, so nothing can be sent twice or get lost between steps.
- Between an action and its event the worker may die: then the action runs again, with the same
  `key`. Between the last event and the acknowledgement it may die: then the next worker finds the
  saga finished.
- The queue is first in, first out by saga id: even if a saga was started twice, one worker at a
  time has it. If a lease is lost nevertheless, two workers write the same event number, and the
  first one counts (see `penstock.patterns.saga`).
- A worker that dies at a step again and again is taken for a failure of the step: `crashes_max`.

Every process keeps the states of unfinished sagas in memory, and of as many finished ones as
`finished_kept_max`. Events are kept for `keep_seconds`: a saga that is started again under an id
older than that is a new one.
"""

import asyncio
import contextlib
import inspect
import logging
import random
import zlib
from collections import OrderedDict
from typing import Generic, TypeVar

import msgspec

from penstock.client.client import Client
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.client.queue_admin import QueueOptions
from penstock.client.record import Record
from penstock.client.topic import Topic
from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest, Overloaded, PenstockError, SettingsDiffer
from penstock.patterns.followed_log import FollowedLog
from penstock.patterns.saga import (
    ERROR_CHARACTERS_MAX,
    SAGA_ID_CHARACTERS_MAX,
    EventKind,
    Saga,
    SagaEvent,
    SagaState,
    SagaStatus,
    Step,
    StepCall,
    StepRefused,
    fold,
    next_step,
    steps_to_undo,
)

_log = logging.getLogger(__name__)

D = TypeVar("D")

PARTITIONS = 4
UNFINISHED_MAX = 1_000_000
FINISHED_KEPT_MAX = 100_000
KEEP_SECONDS = 30 * 24 * 3600.0
DEDUPLICATION_SECONDS = 24 * 3600.0
_TROUBLE_DELAY_SECONDS = 1.0


class SagaToken(msgspec.Struct, frozen=True):
    """The message that goes with a saga."""

    id: str
    data: msgspec.Raw


def saga_queue_options(*, partitions: int = PARTITIONS, lease: float = 30.0) -> QueueOptions:
    """The settings of the token queue, for programs that create it before a runner does. A token
    comes back at once and as often as it takes: the runner counts attempts and waits itself."""
    return {
        "partitions": partitions,
        "exist_ok": True,
        "fifo": True,
        "lease": lease,
        "deliveries_max": 0,
        "retry": "none",
        "dead_letter": "",
        "deduplication": "id",
        "settings": {"queue.deduplication.window.ms": str(int(DEDUPLICATION_SECONDS * 1000))},
    }


class SagaRunner(Generic[D]):
    """Starts sagas of one definition, reports their state, and runs their steps."""

    def __init__(
        self,
        client: Client,
        saga: Saga[D],
        *,
        attempts_max: int = 5,
        compensation_attempts_max: int = 20,
        crashes_max: int = 20,
        retry_delay: float = 1.0,
        retry_delay_max: float = 60.0,
        partitions: int = PARTITIONS,
        lease: float = 30.0,
        keep_seconds: float = KEEP_SECONDS,
        finished_kept_max: int = FINISHED_KEPT_MAX,
        clock: Clock | None = None,
        chance: random.Random | None = None,
    ) -> None:
        self.saga = saga
        self.queue: Queue[SagaToken] = client.queue(f"saga-{saga.name}", codec=SagaToken)
        self.log: Topic[SagaEvent] = client.topic(f"saga-{saga.name}-log", codec=SagaEvent)
        self._client = client
        self._attempts_max = attempts_max
        self._compensation_attempts_max = compensation_attempts_max
        self._crashes_max = crashes_max
        self._retry_delay = retry_delay
        self._retry_delay_max = retry_delay_max
        self._partitions = partitions
        self._lease = lease
        self._keep_seconds = keep_seconds
        self._finished_kept_max = finished_kept_max
        self._clock = clock or SystemClock()
        self._chance = chance or random.Random()  # noqa: S311 - jitter is no secret
        self._opening = asyncio.Lock()
        self._opened = False
        self._unfinished: dict[str, SagaState] = {}
        self._finished: OrderedDict[str, SagaState] = OrderedDict()
        self._followed = FollowedLog(client, self.log.name, codec=SagaEvent, tell=self._learn)

    # For callers that start sagas.

    async def open(self) -> None:
        """Create the queue and the log where they are not there yet. Everything calls it."""
        async with self._opening:
            if self._opened:
                return
            options = saga_queue_options(partitions=self._partitions, lease=self._lease)
            with contextlib.suppress(SettingsDiffer):  # Who created it chose partitions and lease.
                await self._client.create_queue(self.queue.name, **options)
            log = await self._client.create_topic(
                self.log.name,
                partitions=self._partitions,
                exist_ok=True,
                configs={"retention.ms": str(int(self._keep_seconds * 1000))},
            )
            self._partitions = len(log.partitions)
            self._opened = True

    async def start(self, saga_id: str, data: D) -> SagaState:
        """Start a saga, once: with an id that was started before nothing happens.

        If this raises `OutcomeUnknown` or `Unavailable`, call it again with the same id."""
        if not 0 < len(saga_id) <= SAGA_ID_CHARACTERS_MAX:
            raise InvalidRequest(f"a saga's id has 1 to {SAGA_ID_CHARACTERS_MAX} characters")
        known = await self.state(saga_id)
        if known is not None:
            return known
        # The token first: an event without a token would be a saga that no runner continues.
        raw = msgspec.Raw(msgspec.json.encode(data))
        await self.queue.send(SagaToken(saga_id, raw), key=saga_id, dedup_id=saga_id)
        return await self._write(None, self._started(saga_id, raw))

    async def state(self, saga_id: str) -> SagaState | None:
        """The state of a saga; None if it was never started."""
        await self.open()
        await self._followed.catch_up(self._partition(saga_id))
        return self._known(saga_id)

    async def states(self, status: SagaStatus | None = None) -> list[SagaState]:
        """All sagas that are remembered, or those of one status: `SagaStatus.STUCK`, say."""
        await self.open()
        for partition in range(self._partitions):
            await self._followed.catch_up(partition)
        every = [*self._unfinished.values(), *self._finished.values()]
        return [state for state in every if status is None or state.status is status]

    async def wait(self, saga_id: str, *, timeout: float = 60.0, every: float = 0.05) -> SagaState:
        """Wait until a saga is finished; `TimeoutError` if it is not by then."""
        async with asyncio.timeout(timeout):
            while True:
                state = await self.state(saga_id)
                if state is not None and state.status.is_final:
                    return state
                await asyncio.sleep(every)

    async def retry(self, saga_id: str) -> SagaState:
        """Resume a saga that is stuck, or send a new token for one whose token was purged."""
        state = await self.state(saga_id)
        if state is None:
            raise InvalidRequest(f"there is no saga {saga_id} of {self.saga.name}")
        if state.status in (SagaStatus.COMPLETED, SagaStatus.COMPENSATED):
            return state
        token = SagaToken(saga_id, msgspec.Raw(state.data))
        if state.status is SagaStatus.STUCK:
            state = await self._write(state, self._event(state, EventKind.RESUMED))
        await self.queue.send(token, key=saga_id, dedup_id=f"{saga_id}/{state.number}")
        return state

    # For workers.

    async def run(self, *, concurrency: int = 10) -> None:
        """Run sagas until cancelled, up to `concurrency` at once."""
        await self.open()
        places = asyncio.Semaphore(concurrency)
        async with asyncio.TaskGroup() as tasks, self.queue.consume(prefetch=concurrency) as tokens:

            async def one(token: Message[SagaToken]) -> None:
                try:
                    await self.carry_on_or_release(token)
                finally:
                    places.release()

            async for token in tokens:
                await places.acquire()
                tasks.create_task(one(token))

    async def work(self, max_messages: int = 10, *, wait: float = 0.0) -> int:
        """Receive some tokens and carry on with their sagas; how many there were."""
        await self.open()
        tokens = await self.queue.receive(max_messages, wait=wait, lease=self._lease)
        await asyncio.gather(*(self.carry_on_or_release(token) for token in tokens))
        return len(tokens)

    async def carry_on_or_release(self, token: Message[SagaToken]) -> None:
        """Carry on with a saga; if the broker cannot be reached, give the token back."""
        try:
            await self.carry_on(token)
        except asyncio.CancelledError:
            with contextlib.suppress(PenstockError):
                # A graceful stop: the next runner need not wait for the lease.
                await token.release(0)
            raise
        except PenstockError as error:
            _log.warning("saga %s of %s waits: %s", token.key, self.saga.name, error)
            try:
                await token.release(_TROUBLE_DELAY_SECONDS)
            except PenstockError:
                _log.debug("the token of %s comes back when its lease ends", token.key)

    async def carry_on(self, token: Message[SagaToken]) -> SagaState:
        """Work on the saga of a token until it is finished or has to wait, and settle the token."""
        state = await self.advance(token)
        if not state.status.is_final:
            await token.release(self.delay(state))
        elif state.status is SagaStatus.STUCK:
            await token.reject(f"saga {state.id} is stuck: {state.error}"[:ERROR_CHARACTERS_MAX])
        else:
            await token.ack()
        return state

    async def advance(self, token: Message[SagaToken]) -> SagaState:
        """Work on the saga of a token until it is finished or has to wait for `delay(state)`.

        The token is left to the caller: `carry_on` settles it, a worker of an `App` says the same
        by returning or raising."""
        await self.open()
        saga_id = token.body.id
        await self._followed.catch_up(self._partition(saga_id))
        state = self._known(saga_id)
        if state is None:
            state = await self._write(None, self._started(saga_id, token.body.data))
        while not state.status.is_final:
            event = await self._try(state, token)
            state = await self._write(state, event)
            if event.kind is EventKind.FAILED:
                break
        return state

    def delay(self, state: SagaState) -> float:
        """The delay before a failed step is retried: exponential, with jitter over the upper half,
        so that sagas that failed together are retried apart."""
        doublings = min(max(0, state.attempts - 1), 30)
        longest = min(self._retry_delay_max, self._retry_delay * 2.0**doublings)
        return longest * (0.5 + self._chance.random() / 2)

    # One step.

    async def _try(self, state: SagaState, token: Message[SagaToken]) -> SagaEvent:
        deliveries = token.deliveries
        step = next_step(self.saga, state)
        if step is None:
            return self._event(state, EventKind.COMPLETED, deliveries=deliveries)
        crashes = deliveries - state.deliveries - 1
        if crashes > self._crashes_max:
            return self._failed(state, step, deliveries, f"{crashes} workers died of it", last=True)
        undoing = state.status is SagaStatus.COMPENSATING
        try:
            result = await self._call(step, state, undoing=undoing)
        except StepRefused as refusal:
            if undoing:
                return self._failed(state, step, deliveries, _told(refusal), last=True)
            undo = steps_to_undo(self.saga, state)
            return self._event(
                state,
                EventKind.GAVE_UP,
                step=step.name,
                undo=undo,
                error=_told(refusal),
                deliveries=deliveries,
            )
        except Exception as error:  # noqa: BLE001 - whatever a user's step may raise
            most = self._compensation_attempts_max if undoing else self._attempts_max
            _log.info("saga %s: %s failed: %s", state.id, step.name, _told(error))
            last = state.attempts + 1 >= most
            return self._failed(state, step, deliveries, _told(error), last=last)
        if undoing:
            return self._event(state, EventKind.UNDONE, step=step.name, deliveries=deliveries)
        last = all(one.name in state.results for one in self.saga.steps if one is not step)
        return self._event(
            state,
            EventKind.DONE,
            step=step.name,
            result=result,
            last=last,
            deliveries=deliveries,
        )

    def _failed(
        self, state: SagaState, step: Step[D], deliveries: int, error: str, *, last: bool
    ) -> SagaEvent:
        """The event for a failure: another attempt, compensation, or stuck."""
        undo: tuple[str, ...] = ()
        if not last:
            kind = EventKind.FAILED
        elif state.status is SagaStatus.COMPENSATING:
            kind = EventKind.STUCK
        else:
            kind = EventKind.GAVE_UP
            undo = steps_to_undo(self.saga, state, including=step.name)
        return self._event(
            state, kind, step=step.name, error=error, undo=undo, deliveries=deliveries
        )

    async def _call(self, step: Step[D], state: SagaState, *, undoing: bool) -> object:
        function = step.compensation if undoing else step.action
        if function is None:
            return None
        key = f"{self.saga.name}/{state.id}/{step.name}"
        call = StepCall(
            saga_id=state.id,
            step=step.name,
            key=f"{key}/undo" if undoing else key,
            attempt=state.attempts + 1,
            data=self.saga.decoder.decode(state.data),
            results=state.results,
        )
        if inspect.iscoroutinefunction(function):
            result = await function(call)
        else:
            result = await asyncio.to_thread(function, call)
            if inspect.isawaitable(result):
                result = await result
        return msgspec.to_builtins(result)

    # The log.

    def _started(self, saga_id: str, data: msgspec.Raw) -> SagaEvent:
        at_ms = self._clock.wall_ms()
        return SagaEvent(id=saga_id, number=1, kind=EventKind.STARTED, data=data, at_ms=at_ms)

    def _event(
        self,
        state: SagaState,
        kind: EventKind,
        *,
        step: str = "",
        result: object = None,
        error: str = "",
        last: bool = False,
        undo: tuple[str, ...] = (),
        deliveries: int = 0,
    ) -> SagaEvent:
        return SagaEvent(
            id=state.id,
            number=state.number + 1,
            kind=kind,
            step=step,
            result=result,
            error=error,
            last=last,
            undo=undo,
            deliveries=deliveries,
            at_ms=self._clock.wall_ms(),
        )

    async def _write(self, state: SagaState | None, event: SagaEvent) -> SagaState:
        """Write an event and return the state after it: ours, or that of a worker who was first."""
        partition = self._partition(event.id)
        sent = await self.log.send(event, key=event.id, partition=partition)
        await self._followed.catch_up(partition, past=sent.offset)
        after = self._known(event.id)
        assert after is not None, f"saga {event.id} has event {event.number} and no state"
        assert state is None or after.number > state.number, f"saga {event.id} went back"
        return after

    def _learn(self, record: Record[SagaEvent]) -> None:
        event = record.body
        state = fold(self._known(event.id), event)
        if state is None:
            return
        if state.status in (SagaStatus.COMPLETED, SagaStatus.COMPENSATED):
            self._unfinished.pop(event.id, None)
            self._finished[event.id] = state
            self._finished.move_to_end(event.id)
            while len(self._finished) > self._finished_kept_max:
                self._finished.popitem(last=False)
            return
        if event.id not in self._unfinished and len(self._unfinished) >= UNFINISHED_MAX:
            raise Overloaded(f"{UNFINISHED_MAX} sagas of {self.saga.name} are unfinished")
        self._unfinished[event.id] = state

    def _known(self, saga_id: str) -> SagaState | None:
        return self._unfinished.get(saga_id) or self._finished.get(saga_id)

    def _partition(self, saga_id: str) -> int:
        return zlib.crc32(saga_id.encode()) % self._partitions


def _told(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX]
