"""Routes requests to the node that leads, and retries them until there is an answer or the deadline
has passed. This is what a client does during a failover.

    Unavailable      nothing has happened: retried after a pause, at the leader of that time
    OutcomeUnknown   it may have happened: retried only if executing it twice is harmless
    anything else    is the answer

When the deadline passes, the caller learns which of the two it is: `DeadlinePassed`, nothing has
happened, or `OutcomeUnknown`.
"""

import asyncio
from collections.abc import Callable
from random import Random
from typing import TypeVar

from penstock.client.connection.channel import Buffer, Channel, Make, OnAnswer
from penstock.client.connection.metadata import Metadata
from penstock.client.connection.timer import fresh_time
from penstock.client.settings import ClientSettings
from penstock.client.tracer import Tracing
from penstock.core.errors import (
    DeadlinePassed,
    InvalidFrame,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    StorageFull,
    Unavailable,
    UnknownPartition,
)
from penstock.core.retries import Retrier
from penstock.wire.requests import Answer, Request, TopicInfo

A = TypeVar("A", bound=Answer)

QUEUE, TOPIC, NOTHING = "queue", "topic", ""
"""The kinds of topic that a client creates automatically: a queue, a topic, or none."""
GONE_TRIES_MAX = 20
"""A topic that was made a moment ago may be unknown to a node; one that was deleted stays so."""


class RequestRouter:
    """See the top of this module; one per client."""

    def __init__(self, channel: Channel, metadata: Metadata, settings: ClientSettings) -> None:
        self._channel = channel
        self.loop = asyncio.get_running_loop()
        self.metadata = metadata
        self.settings = settings
        self.tracing = Tracing(settings.client_id)
        self.random = Random(settings.seed)  # noqa: S311 - jitter.
        self.retrier = Retrier(now=fresh_time, random=self.random, sleep=asyncio.sleep)
        self.retries = 0

    def begin(self, name: str, index: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        """Send a request to the leader of a partition without a waiting task, if the leader is
        known and can take it at once; see `Channel.begin`. If it fails, `ask_leader` continues with
        it."""
        info = self.metadata.known(name)
        node = 0 if info is None or index >= len(info.leaders) else info.leaders[index]
        return node != 0 and self._channel.begin(node, make, ended, at_once=at_once)

    def attempt_deadline(self, deadline: float) -> float:
        """By when an attempt that begins now must be over."""
        return min(deadline, fresh_time() + self.settings.attempt_timeout)

    def deadline(self, timeout: float | None) -> float:
        """The loop's time by which a call must be over."""
        seconds = self.settings.timeout if timeout is None else timeout
        return fresh_time() + seconds

    async def ask(
        self,
        request: Request,
        kind: type[A],
        *,
        deadline: float | None = None,
        harmless: bool = True,
        seconds: float | None = None,
    ) -> A:
        """Ask any node; `seconds` is how long an attempt may take, if not as long as usual."""
        tries = _Deadline(self, deadline or self.deadline(None), harmless, request)
        while True:
            try:
                answer, _ = await self._channel.ask(None, request, timeout=tries.attempt(seconds))
                return expect(answer, kind)
            except (Unavailable, OutcomeUnknown) as error:
                await tries.wait_after(error)

    async def find(self, name: str, create: str, deadline: float) -> TopicInfo:
        """Return the metadata of a topic, from the cache if possible."""
        known = self.metadata.known(name)
        if known is not None:
            return known
        create = create if self.settings.auto_create else NOTHING
        tries = _Deadline(self, deadline, True, None)
        while True:
            try:
                return await self.metadata.topic(name, create, tries.attempt())
            except (Unavailable, OutcomeUnknown) as error:
                await tries.wait_after(error)

    async def ask_leader(
        self,
        name: str,
        index: int,
        make: Callable[[TopicInfo], tuple[Request, Buffer]],
        kind: type[A],
        *,
        deadline: float,
        create: str = NOTHING,
        harmless: bool = True,
        seconds: float | None = None,
        failed: tuple[TopicInfo, PenstockError] | None = None,
    ) -> tuple[A, Buffer]:
        """Ask the node that leads a partition by then. `make` is called for each
        attempt; `seconds` is how long one may take, if not as long as usual; `failed` is how one
        ended that was made before, and which node it asked."""
        tries = _Deadline(self, deadline, harmless, None)
        if failed is not None:
            await self._fail_attempt(tries, name, index, *failed)
        while True:
            info = await self.find(name, create, deadline)
            try:
                if index >= len(info.leaders):
                    raise UnknownPartition(
                        f"{name} has partitions 0 to {len(info.leaders) - 1}, not {index}"
                    )
                node = info.leaders[index]
                if not node:
                    raise NotLeader(f"partition {index} of {name} has no leader now")
                request, payload = make(info)
                answer, extra = await self._channel.ask(
                    node, request, payload, timeout=tries.attempt(seconds)
                )
                return expect(answer, kind), extra
            except PenstockError as error:
                await self._fail_attempt(tries, name, index, info, error)

    async def _fail_attempt(
        self, tries: "_Deadline", name: str, index: int, info: TopicInfo, error: PenstockError
    ) -> None:
        """Wait for the next attempt, at the leader by then; or raise, if this is the answer."""
        if isinstance(error, StorageFull):
            raise error
        if isinstance(error, Unavailable | OutcomeUnknown):
            self.metadata.forget(name, info)
            await tries.wait_after(error)
        elif isinstance(error, UnknownPartition) and index < len(info.leaders):
            # Of a topic that was made a moment ago: its id, or a partition in its shard.
            self.metadata.forget(name, info)
            await tries.wait_for_topic(error)
        else:
            raise error

    async def ask_node(
        self, node: int, request: Request, kind: type[A], seconds: float
    ) -> tuple[A, Buffer]:
        """Send a request to one node, without retries."""
        answer, extra = await self._channel.ask(node, request, timeout=seconds)
        if isinstance(answer, kind):
            return answer, extra
        raise problem_of(answer, kind)


class _Deadline:
    """The attempts of one call."""

    def __init__(
        self, router: RequestRouter, deadline: float, harmless: bool, request: Request | None
    ) -> None:
        self._router = router
        self._retries = router.retrier.until(deadline)
        self._harmless = harmless
        self._what = "" if request is None else f" {type(request).__name__}"
        self._unknown: OutcomeUnknown | None = None
        self._gone = 0

    def attempt(self, seconds: float | None = None) -> float:
        """The timeout of the next attempt."""
        most = self._router.settings.attempt_timeout if seconds is None else seconds
        return max(0.001, min(most, self._retries.left))

    async def wait_after(self, error: PenstockError) -> None:
        """Wait for the next attempt, or raise if there may not be one."""
        if isinstance(error, OutcomeUnknown):
            if not self._harmless:
                raise error
            self._unknown = error
        pause = self._retries.next(error)
        if pause is None:
            if self._unknown is not None:
                raise OutcomeUnknown(
                    f"the deadline has passed and it is not known whether it happened:"
                    f" {self._unknown}"
                ) from error
            raise DeadlinePassed(f"nothing has happened within the deadline: {error}") from error
        self._router.retries += 1
        await self._router.retrier.sleep(pause)

    async def wait_for_topic(self, error: PenstockError) -> None:
        """The node does not know the topic's id; a topic that was deleted is known by no name."""
        self._gone += 1
        if self._gone >= GONE_TRIES_MAX:
            raise error
        await self.wait_after(Unavailable(str(error)))


def expect(answer: Answer, kind: type[A]) -> A:
    """The answer, if it is of the kind that was asked for."""
    if not isinstance(answer, kind):
        raise problem_of(answer, kind)
    return answer


def problem_of(outcome: Answer | PenstockError, kind: type[Answer]) -> PenstockError:
    """Return the error for an answer that is not of the expected type."""
    if isinstance(outcome, PenstockError):
        return outcome
    return InvalidFrame(f"the broker answered with {type(outcome).__name__}, not {kind.__name__}")
