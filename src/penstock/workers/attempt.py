"""One attempt at a message: from the moment a worker takes it to the verdict.

    judge it          poison is rejected; a suspect is worked on alone
    read its body     what cannot be read is rejected with the reason
    call              the function, with a bound on its time
    settle            ack, release with a delay, reject with a reason, or release uncounted

Guarantees differ in when the message is acknowledged:

    at most once      acknowledged before the call: an error, or a crash, loses the message
    at least once     acknowledged after the call: a crash in between repeats it
    exactly once      the call runs inside a transaction that also remembers the message's id, and
                      is acknowledged after the commit: a repeated message has no second effect

Time. An async function that takes longer than its `timeout` is cancelled, and the `TimeoutError` is
the retry policy's business. A thread cannot be cancelled: one that takes too long is reported, its
lease is no longer extended, so that the message can be tried elsewhere, and what it says in the end
counts if no other worker has the message by then.
"""

import asyncio
import contextvars
import functools
import inspect
import logging
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, cast

from penstock.client.guarantees import Guarantee
from penstock.client.message import Message
from penstock.core.clock import Clock
from penstock.core.errors import InvalidBody, PenstockError
from penstock.workers.breaker import CircuitOpen, Permit
from penstock.workers.exclusive_slot import ExclusiveSlot
from penstock.workers.poison import PoisonVerdict, PoisonWatch, poison_reason
from penstock.workers.retry import Again, Refused, Retry, reason_of
from penstock.workers.source import Source
from penstock.workers.statistics import Tally
from penstock.workers.task import Task
from penstock.workers.tracebacks import users_traceback
from penstock.workers.verdicts import NonRetryable, RetryLater

_log = logging.getLogger(__name__)


class Outcome(Enum):
    """The outcome of a message, as far as the next one needs it."""

    SETTLED = "settled"
    """Done or dead: the next one of its group may begin."""
    BACK = "back"
    """It will be delivered again, and the rest of its group must wait behind it."""
    CIRCUIT_OPEN = "circuit open"
    """It will be delivered again, and the circuit of its dependency is open."""


@dataclass(frozen=True, slots=True)
class AttemptResult:
    """An outcome, and how long to leave the dependency alone."""

    outcome: Outcome
    retry_after: float = 0.0


SETTLED = AttemptResult(Outcome.SETTLED)
BACK = AttemptResult(Outcome.BACK)


class Attempt:
    """Processes the messages of one task in this process."""

    def __init__(
        self,
        task: Task[Callable[..., object]],
        *,
        threads: Executor | None,
        exclusive_slot: ExclusiveSlot,
        retry: Retry,
        chance: Random,
        clock: Clock,
    ) -> None:
        self._task = task
        self._threads = threads
        self._exclusive_slot = exclusive_slot
        self._retry = retry
        self._chance = chance
        self._clock = clock
        self._watch = PoisonWatch(task.options.poison_after)

    def poison_verdict(self, message: Message[Any], source: Source) -> PoisonVerdict:
        """Decide on the treatment of a message that was just received."""
        if message.deliveries == 1:
            return PoisonVerdict.NONE
        age = self._clock.wall_ms() / 1_000 - message.first_received_at.timestamp()
        return self._watch.judge(
            message.id, message.deliveries, age=age, lease=source.lease_seconds
        )

    async def perform(
        self, message: Message[Any], source: Source, tally: Tally, permit: Permit | None
    ) -> AttemptResult:
        """Work on a message; raises nothing but `CancelledError`, when there is no time left."""
        poison_verdict = self.poison_verdict(message, source)
        alone = poison_verdict is PoisonVerdict.ALONE
        try:
            if poison_verdict is PoisonVerdict.POISON:
                tally.poisoned += 1
                return await self._reject(message, poison_reason(message.deliveries), tally)
            async with (
                self._exclusive_slot.alone()
                if alone
                else self._exclusive_slot.together() as granted
            ):
                if granted:
                    ended = await self._attempt(message, source, tally, permit)
                    if alone:
                        self._watch.survived()
                    return ended
                await source.give_back([message])
                tally.returned += 1
                return BACK
        except PenstockError as problem:
            _log.warning("a message of %s could not be given back: %s", source.name, problem)
            return BACK
        finally:
            if permit is not None:
                permit.unused()  # It makes no difference to one that was used.

    async def _attempt(
        self, message: Message[Any], source: Source, tally: Tally, permit: Permit | None
    ) -> AttemptResult:
        try:
            self._task.signature.arguments(message, None)
        except InvalidBody as problem:
            return await self._reject(message, reason_of(problem), tally)
        first = self._task.options.guarantee is Guarantee.AT_MOST_ONCE
        if first and not await self._settle(message.ack, tally):
            return BACK
        began = asyncio.get_running_loop().time()
        error: BaseException | None = None
        try:
            with message.processing():
                is_new = await self._call(message, source)
        except (Exception, SystemExit) as problem:  # noqa: BLE001 - whatever a function may raise.
            error = problem
            is_new = True
        tally.took(asyncio.get_running_loop().time() - began)
        if permit is not None:
            permit.ended(error)
        if error is not None:
            return await self._failed(message, source, error, tally, settled=first)
        if not first and not await self._settle(message.ack, tally):
            return BACK
        self._forget(message)
        tally.processed += is_new
        tally.duplicates += not is_new
        return SETTLED

    # Calling.

    async def _call(self, message: Message[Any], source: Source) -> bool:
        """Call the function; False if the message had been processed before."""
        if self._task.is_async:
            seconds = self._task.options.timeout
            limit = asyncio.timeout(seconds)
            try:
                async with limit:
                    return await self._call_async(message)
            except TimeoutError as problem:
                if limit.expired():
                    raise TimeoutError(f"{self._task.name} took more than {seconds} s") from problem
                raise
        return await self._call_in_thread(message, source)

    async def _call_async(self, message: Message[Any]) -> bool:
        function = cast("Callable[..., Any]", self._task.__call__)
        store = self._task.options.processed
        if store is None:
            await function(**self._task.signature.arguments(message, None))
            return True
        async with store.once_async(message) as transaction:
            if transaction.is_new:
                await function(**self._task.signature.arguments(message, transaction))
            return transaction.is_new

    async def _call_in_thread(self, message: Message[Any], source: Source) -> bool:
        context = contextvars.copy_context()
        call = functools.partial(context.run, self._call_sync, message)
        loop = asyncio.get_running_loop()
        running = loop.run_in_executor(self._threads, call)
        seconds = self._task.options.timeout
        await asyncio.wait([running], timeout=seconds)
        if not running.done():
            _log.error(
                "%s has worked on message %s of %s for %s s; a thread cannot be cancelled, so its"
                " lease is left to run out and the message may be delivered to another worker",
                self._task.name, message.id, message.queue, seconds,
            )  # fmt: skip
            source.let_go(message)
        return await asyncio.shield(running)

    def _call_sync(self, message: Message[Any]) -> bool:
        """Call a synchronous function in a thread."""
        function = self._task.__call__
        store = self._task.options.processed
        if store is None:
            _check_done(function(**self._task.signature.arguments(message, None)), self._task.name)
            return True
        with store.once(message) as transaction:
            if transaction.is_new:
                arguments = self._task.signature.arguments(message, transaction)
                _check_done(function(**arguments), self._task.name)
            return transaction.is_new

    # Verdicts.

    async def _failed(
        self,
        message: Message[Any],
        source: Source,
        error: BaseException,
        tally: Tally,
        *,
        settled: bool,
    ) -> AttemptResult:
        if isinstance(error, CircuitOpen) and not settled:
            await source.give_back([message])
            tally.returned += 1
            return AttemptResult(Outcome.CIRCUIT_OPEN, error.retry_after)
        tally.failed += 1
        self._tell(message, error)
        if settled:
            return SETTLED
        decision = self._retry.decide(error, message.deliveries, self._chance)
        match decision:
            case Refused(reason):
                return await self._reject(message, reason, tally)
            case Again(delay):
                self._watch.reported(message.id)
                reason = reason_of(error)
                if await self._settle(lambda: message.release(delay, reason), tally):
                    tally.retried += 1
                return BACK

    async def _reject(self, message: Message[Any], reason: str, tally: Tally) -> AttemptResult:
        _log.warning("message %s of %s is rejected: %s", message.id, message.queue, reason)
        if not await self._settle(lambda: message.reject(reason=reason), tally):
            return BACK
        self._forget(message)
        tally.rejected += 1
        return SETTLED

    def _forget(self, message: Message[Any]) -> None:
        if message.deliveries > 1:  # Otherwise there is nothing to forget, and ids cost time.
            self._watch.forget(message.id)

    async def _settle(self, say: Callable[[], Any], tally: Tally) -> bool:
        """Settle at the broker; False if the lease is over or the broker cannot be reached: the
        message will be delivered again."""
        try:
            counted = bool(await say())
        except PenstockError as problem:
            _log.warning("a message could not be settled: %s", problem)
            counted = False
        tally.lost += not counted
        return counted

    def _tell(self, message: Message[Any], error: BaseException) -> None:
        expected = isinstance(error, (RetryLater, NonRetryable, *self._retry.on))
        _log.warning(
            "%s failed on message %s of %s, delivery %d: %s",
            self._task.name, message.id, message.queue, message.deliveries, reason_of(error),
            exc_info=None if expected else (type(error), error, users_traceback(error)),
        )  # fmt: skip


def _check_done(result: object, name: str) -> None:
    """A coroutine that is never awaited has done nothing: the message must not count as done."""
    if inspect.iscoroutine(result):
        result.close()
        raise TypeError(f"{name} returned a coroutine: declare it, or what wraps it, async")
