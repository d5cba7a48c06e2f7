"""Verdicts on messages, joined on their way to the broker.

Verdicts on messages of one partition gather while a request is under way and go out together in
the next one (see `coalescer`), neighbours of one lease as one: a worker that acks a thousand
messages one by one, side by side, costs little more than one that acks them in one call.

A verdict may be asked for twice: only the first one changes anything. When an answer was lost and
the second attempt finds the message gone, the first one was heard.
"""

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Final, NamedTuple

from penstock.client.connection.channel import Buffer, PreparedRequest
from penstock.client.connection.coalescer import Coalescer
from penstock.client.connection.request_router import RequestRouter, problem_of
from penstock.client.message import Lease, Message
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.statistics import Counters
from penstock.client.tracer import Tracing
from penstock.core.errors import (
    ClientClosed,
    InvalidFrame,
    InvalidRequest,
    PenstockError,
    UnknownTopic,
)
from penstock.core.limits import LEASE_MS_MAX
from penstock.core.verdicts import Outcome, Verdict
from penstock.wire.requests import Answer, Settle, Settled, TopicInfo

_NAMES: Final = {
    int(Verdict.FINISH): "ack",
    int(Verdict.RELEASE): "release",
    int(Verdict.REJECT): "reject",
}
"""Verdicts that are recorded in spans."""
_UNTOLD: Final[AbstractContextManager[None]] = nullcontext()
_DONE, _GONE, _EXTEND = int(Outcome.DONE), int(Outcome.GONE), int(Verdict.EXTEND)
"""The codes on the wire. Settlements hold plain ints, because they are hashed, and hashing an enum
member runs Python code."""
SETTLEMENTS_AT_ONCE: Final = 5_000
COALESCERS_KEPT_MAX: Final = 10_000
BY_POLICY: Final = -1

Place = tuple[str, bytes, int, str]
"""Queue, topic id, partition and work group."""
Settlement = tuple[int, int, int, int, int, str]
Waiting = tuple[Settlement, float, asyncio.Future[bool]]
Joined = list[tuple[Settlement, list[Waiting]]]
"""Settlements of one request, each with the calls that wait for it."""
Failed = tuple[TopicInfo, PenstockError]


class _Attempt(NamedTuple):
    """A request in flight."""

    joined: Joined
    info: TopicInfo


class Settler:
    """Carries the verdicts of one client; see the top of this module."""

    def __init__(self, router: RequestRouter, counters: Counters) -> None:
        self._router = router
        self._counters = counters
        self._coalescers: dict[Place, _SettleCoalescer] = {}

    @property
    def tracing(self) -> Tracing:
        """True if settlements are recorded in spans."""
        return self._router.tracing

    async def ack(self, messages: Sequence[Message[Any]]) -> int:
        """Acknowledge messages."""
        count = await self.settle(messages, Verdict.FINISH)
        self._counters.acked += count
        return count

    async def release(
        self, messages: Sequence[Message[Any]], delay: Seconds | None, reason: str
    ) -> int:
        """Release messages for another delivery."""
        delay_ms = BY_POLICY if delay is None else to_milliseconds(delay, "delay")
        count = await self.settle(messages, Verdict.RELEASE, delay_ms, reason)
        self._counters.released += count
        return count

    async def reject(self, messages: Sequence[Message[Any]], reason: str) -> int:
        """Reject messages: they become dead letters."""
        count = await self.settle(messages, Verdict.REJECT, reason=reason)
        self._counters.rejected += count
        return count

    async def give_back(self, messages: Sequence[Message[Any]]) -> int:
        """Messages that no caller has seen."""
        return await self.settle(messages, Verdict.RETURN)

    async def extend(self, messages: Sequence[Message[Any]], lease: Seconds | None) -> int:
        """Extend the leases of messages."""
        if lease is None:
            count = 0
            for duration_ms in {message.lease.duration_ms for message in messages}:
                those = [one for one in messages if one.lease.duration_ms == duration_ms]
                count += await self._extend(those, duration_ms)
            return count
        return await self._extend(messages, to_milliseconds(lease, "lease"))

    async def _extend(self, messages: Sequence[Message[Any]], lease_ms: int) -> int:
        if not 0 <= lease_ms <= LEASE_MS_MAX:
            raise InvalidRequest(f"a lease lasts at most {LEASE_MS_MAX // 1_000} seconds")
        leases = {message.lease: message.lease.clock.monotonic_ms() for message in messages}
        count = await self.settle(messages, Verdict.EXTEND, lease_ms)
        for lease, began_ms in leases.items():
            lease.until_ms = began_ms + lease_ms
        self._counters.extended += count
        return count

    async def settle(
        self,
        messages: Sequence[Message[Any]],
        verdict: Verdict,
        delay_ms: int = BY_POLICY,
        reason: str = "",
    ) -> int:
        """Give one verdict on messages; returns on how many it counted."""
        deadline = self._router.deadline(None)
        messages = [message for message in messages if not message.settled]
        if not messages:
            return 0
        code = int(verdict)
        asked = code, delay_ms, reason
        spans = self._router.tracing.on() if code in _NAMES else None
        with _UNTOLD if spans is None else spans.settling(_NAMES[code], messages):
            work = [
                self._settle_run(messages[start:end], asked, deadline)
                for start, end in _runs(messages)
            ]
            count = await work[0] if len(work) == 1 else sum(await asyncio.gather(*work))
        self._counters.leases_lost += len(messages) - count
        return count

    async def _settle_run(
        self, run: Sequence[Message[Any]], verdict: tuple[int, int, str], deadline: float
    ) -> int:
        """Neighbours of one lease count as a whole; if they do not, each is asked for itself."""
        lease, first, end = run[0].lease, run[0].offset, run[-1].offset + 1
        coalescer = self._coalescer(lease)
        if await coalescer.put(first, end, lease.epoch, verdict, deadline):
            counted: Sequence[Message[Any]] = run
        elif len(run) == 1:
            return 0
        else:
            outcomes = await asyncio.gather(
                *(
                    coalescer.put(one.offset, one.offset + 1, lease.epoch, verdict, deadline)
                    for one in run
                )
            )
            counted = [one for one, outcome in zip(run, outcomes, strict=True) if outcome]
        if verdict[0] != _EXTEND:
            for message in counted:
                message.settled = True
            if lease.held is not None:
                lease.held.difference_update([message.offset for message in counted])
        return len(counted)

    async def settle_ranges(
        self, lease: Lease, ranges: Sequence[tuple[int, int]], verdict: Verdict, delay_ms: int
    ) -> int:
        """Give one verdict on offsets of one lease; returns on how many ranges it counted."""
        deadline = self._router.deadline(None)
        coalescer = self._coalescer(lease)
        asked = int(verdict), delay_ms, ""
        counted = await asyncio.gather(
            *(coalescer.put(first, end, lease.epoch, asked, deadline) for first, end in ranges)
        )
        return sum(counted)

    def _coalescer(self, lease: Lease) -> "_SettleCoalescer":
        place = lease.queue, lease.topic_id, lease.index, lease.group
        coalescer = self._coalescers.get(place)
        if coalescer is None:
            if len(self._coalescers) >= COALESCERS_KEPT_MAX:
                self._coalescers = {
                    key: one for key, one in self._coalescers.items() if not one.is_idle
                }
            coalescer = self._coalescers[place] = _SettleCoalescer(place, self._router)
        return coalescer

    async def flush(self) -> None:
        """Wait until all verdicts are given."""
        await asyncio.gather(*(coalescer.drain() for coalescer in list(self._coalescers.values())))

    async def close(self) -> None:
        """Stop without waiting for answers."""
        await asyncio.gather(*(coalescer.close() for coalescer in list(self._coalescers.values())))


class _SettleCoalescer(Coalescer):
    """The verdicts on messages of one partition and work group; one request at a time."""

    def __init__(self, place: Place, router: RequestRouter) -> None:
        queue, self._topic_id, index, self._group = place
        super().__init__(queue, index, router)
        self._waiting: list[Waiting] = []
        self._leaving: list[Waiting] = []
        self._attempt: _Attempt | None = None
        """The request under way, if no task looks after it."""

    def put(
        self, first: int, end: int, epoch: int, verdict: tuple[int, int, str], deadline: float
    ) -> "asyncio.Future[bool]":
        """Give a verdict; done when it was heard, and says whether it counted."""
        done: asyncio.Future[bool] = self._loop.create_future()
        self._waiting.append(((first, end, epoch, *verdict), deadline, done))
        self._wake()
        return done

    # The next request.

    def _is_empty(self) -> bool:
        return not self._waiting

    def _gather(self) -> list[Waiting]:
        waiting, self._waiting = (
            self._waiting[:SETTLEMENTS_AT_ONCE],
            self._waiting[SETTLEMENTS_AT_ONCE:],
        )
        self._leaving = [one for one in waiting if not one[2].done()]
        return self._leaving

    def _make(self) -> PreparedRequest | None:
        self._begun = False
        waiting = self._gather()
        info = self._router.metadata.known(self._name)
        if not waiting:
            self._go_on()
        elif info is None:
            self._work_on(self._settle(_join(waiting)))
        else:
            joined = _join(waiting)
            self._attempt = _Attempt(joined, info)
            deadline = self._router.attempt_deadline(_latest(joined))
            return self._request(joined), b"", deadline
        return None

    def _request(self, joined: Joined) -> Settle:
        settlements = tuple([settlement for settlement, _ in joined])
        return Settle(self._topic_id, self._index, self._group, settlements)

    def _ended(self, outcome: Answer | PenstockError, payload: Buffer) -> None:  # noqa: ARG002
        attempt, self._attempt = self._attempt, None
        if self._begun:  # It could not leave.
            self._begun = False
            self._work_on(self._work())
        elif attempt is None:
            return  # It was closed meanwhile.
        elif isinstance(outcome, Settled) and len(outcome.outcomes) == len(attempt.joined):
            alone = _tell(attempt.joined, outcome.outcomes)
            if alone:
                self._work_on(self._settle(alone))
            else:
                self._go_on()
        else:
            failed = attempt.info, problem_of(outcome, Settled)
            self._work_on(self._settle(attempt.joined, failed))

    def _give_up(self) -> None:
        self._attempt = None
        closed = ClientClosed("the client was closed before the outcome of a verdict was known")
        _fail([*self._leaving, *self._waiting], closed)
        self._leaving = []
        self._waiting = []

    # Whatever takes longer.

    async def _work(self) -> None:
        waiting = self._gather()
        if waiting:
            await self._settle(_join(waiting))

    async def _settle(self, joined: Joined, failed: Failed | None = None) -> None:
        """Settle these; `failed` is an attempt at it that was made before."""
        try:
            outcomes = await self._ask(joined, failed)
        except PenstockError as error:
            for _, members in joined:
                _fail(members, error)
            return
        alone = _tell(joined, outcomes)
        if alone:
            await self._settle(alone)

    async def _ask(self, joined: Joined, failed: Failed | None) -> Sequence[int]:
        attempts = 0 if failed is None else 1
        request = self._request(joined)

        def make(_info: TopicInfo) -> tuple[Settle, bytes]:
            nonlocal attempts
            attempts += 1
            return request, b""

        try:
            answer, _ = await self._router.ask_leader(
                self._name, self._index, make, Settled, deadline=_latest(joined), failed=failed
            )
        except UnknownTopic:  # Deleted, and the messages with it.
            return (_GONE,) * len(joined)
        if len(answer.outcomes) != len(joined):
            raise InvalidFrame("the broker's answer does not match the request")
        if attempts == 1:
            return answer.outcomes
        return [
            _DONE if outcome == _GONE and settlement[3] != _EXTEND else outcome
            for outcome, (settlement, _) in zip(answer.outcomes, joined, strict=True)
        ]


def _tell(joined: Joined, outcomes: Sequence[int]) -> Joined:
    """Tell who waits; those that have to be asked for one by one, since one of several that were
    joined may be lost, and the others need not be."""
    alone: Joined = []
    for (_, members), outcome in zip(joined, outcomes, strict=True):
        if outcome != _DONE and len(members) > 1:
            alone += [(one[0], [one]) for one in members]
            continue
        for _, _, done in members:
            if not done.done():
                done.set_result(outcome == _DONE)
    return alone


def _fail(waiting: Sequence[Waiting], error: PenstockError) -> None:
    for _, _, done in waiting:
        if not done.done():
            done.set_exception(error)


def _latest(joined: Joined) -> float:
    return max([deadline for _, members in joined for _, deadline, _ in members])


def _join(waiting: list[Waiting]) -> Joined:
    """Equal verdicts on neighbours become one."""
    if len(waiting) == 1:
        return [(waiting[0][0], waiting)]
    joined: Joined = []
    for one in sorted(waiting, key=_by_place):
        settlement = one[0]
        if joined:
            last, members = joined[-1]
            if last[1] == settlement[0] and last[2:] == settlement[2:]:
                members.append(one)
                joined[-1] = (last[0], settlement[1], *last[2:]), members
                continue
        joined.append((settlement, [one]))
    return joined


def _by_place(one: Waiting) -> tuple[int, int]:
    return one[0][2], one[0][0]


def _runs(messages: Sequence[Message[Any]]) -> Iterator[tuple[int, int]]:
    """Rows of neighbours of one lease, by their places in the list."""
    if len(messages) == 1:
        yield 0, 1
        return
    lease: Lease | None = None
    start = expected = 0
    for number, message in enumerate(messages):
        if message.lease is lease and message.offset == expected:
            expected += 1
            continue
        if lease is not None:
            yield start, number
        lease, start, expected = message.lease, number, message.offset + 1
    yield start, len(messages)
