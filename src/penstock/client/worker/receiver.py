"""Receiving from one queue for one work group: asking who leads it, and reading what comes.

A node answers for all partitions it leads. If several nodes lead parts of a queue, they are asked
one after the other, each time beginning with another one; a wait is at all of them, and
takes what comes first. What the others had leased by then is released. A node is sent which
partitions it is believed to lead, and says if it is not so: then who leads is asked anew.

Batches are opened here, not at the broker. An offset that was leased and is in no batch has been
compacted away: it is acked, or it would come back for ever.
"""

import asyncio
from bisect import bisect_right
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, Final, Generic, TypeVar

import msgspec

from penstock.client.codecs import Codec
from penstock.client.connection.channel import Buffer
from penstock.client.connection.request_router import QUEUE, RequestRouter
from penstock.client.connection.timer import fresh_time
from penstock.client.message import Grant, Lease, Message
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.client.statistics import Counters
from penstock.client.worker.queue_lookup import find_queue
from penstock.client.worker.settler import BY_POLICY, Settler
from penstock.core.clock import Clock
from penstock.core.delivery_headers import UNREADABLE
from penstock.core.errors import (
    DeadlinePassed,
    InvalidBatch,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownPartition,
)
from penstock.core.limits import ACQUIRE_MESSAGES_MAX, LEASE_MS_MAX
from penstock.core.lone_batches import read_lone
from penstock.core.message import Message as StoredMessage
from penstock.core.message_batches import OpenBatch, iter_batches
from penstock.core.plain_batches import unpack_plain
from penstock.core.record_bodies import LOG_APPEND_TIME, unpack_body
from penstock.core.records import read_header
from penstock.core.retries import Backoff, Retries
from penstock.core.types import Offset
from penstock.core.verdicts import Verdict
from penstock.wire.leadership_mark import led_mark
from penstock.wire.requests import ReceivedPart, ReceiveRequest, ReceiveResponse, TopicInfo

T = TypeVar("T")

WAIT_SECONDS_AT_ONCE: Final = 20.0
"""A longer wait is several requests."""
_UNREADABLE: Final = ((UNREADABLE, b"1"),)

Run = tuple[int, int, int, int]


class Receiver(Generic[T]):
    """For one queue and work group; see the top of this module."""

    def __init__(
        self,
        queue: str,
        group: str,
        codec: Codec[T],
        router: RequestRouter,
        settler: Settler,
        counters: Counters,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self.queue = queue
        self.group = group
        self._codec: Codec[Any] = codec
        self._router = router
        self._settler = settler
        self._counters = counters
        self._turn = 0
        self._led: tuple[TopicInfo | None, dict[int, int]] = (None, {})
        """The metadata of the queue, and the leaders derived from it."""
        self._gaps: set[asyncio.Task[int]] = set()

    async def receive(
        self, messages_max: int, wait: float, lease: Seconds | None, *, create: bool = False
    ) -> list[Message[T]]:
        """Lease messages; waits for some if there are none. A queue that does not exist is made if
        `create` says so."""
        if not messages_max >= 1:
            raise InvalidRequest(f"max_messages is {messages_max}; ask for one or more.")
        lease_ms = -1 if lease is None else to_milliseconds(lease, "lease")
        if lease_ms > LEASE_MS_MAX:
            raise InvalidRequest(f"a lease lasts at most {LEASE_MS_MAX // 1_000} seconds.")
        router = self._router
        settings = router.settings
        wait_until = fresh_time() + wait
        deadline = wait_until + settings.timeout
        spans = router.tracing.on()
        began_ns = 0 if spans is None else spans.now_ns()
        retries: Retries | None = None
        moves: Backoff | None = None
        while True:
            info = router.metadata.known(self.queue)
            if info is None:
                if create:
                    info = await router.find(self.queue, QUEUE, deadline)
                else:
                    info = await find_queue(router, self.queue, deadline)
            left = min(max(0.0, wait_until - fresh_time()), WAIT_SECONDS_AT_ONCE)
            request = ReceiveRequest(
                info.topic_id,
                self.group,
                min(messages_max, ACQUIRE_MESSAGES_MAX),
                settings.receive_bytes_max,
                lease_ms,
                int(left * 1_000),
                settings.client_id,
            )
            try:
                found = await self._receive_from(info, request, left)
            except (Unavailable, OutcomeUnknown, UnknownPartition) as error:
                # Nothing was leased, or it comes back by itself.
                router.metadata.forget(self.queue, info)
                retries = retries or router.retrier.until(deadline)
                if not await retries.pause(error):
                    raise DeadlinePassed(
                        f"{self.queue} could not be reached within the deadline: {error}"
                    ) from error
                router.retries += 1
                continue
            if found and spans is not None:
                spans.received(self.queue, self.group, found, began_ns)
            if found or fresh_time() >= wait_until:
                return found
            if not self._knows(info):
                # Leadership has moved; while it moves, not all nodes know where to.
                moves = moves or Backoff(random=router.random)
                await asyncio.sleep(min(moves.next(), max(0.0, wait_until - fresh_time())))

    # Asking.

    def _knows(self, info: TopicInfo) -> bool:
        """True if this is still the cached metadata of the queue."""
        return self._router.metadata.known(self.queue) is info

    def _leaders(self, info: TopicInfo) -> dict[int, int]:
        """The nodes that lead partitions, each with the mark of those it leads."""
        known, leaders = self._led
        if known is not info:
            led: dict[int, list[int]] = {}
            for index, node in enumerate(info.leaders):
                led.setdefault(node, []).append(index)
            led.pop(0, None)
            leaders = {node: led_mark(len(info.leaders), those) for node, those in led.items()}
            self._led = info, leaders
        return leaders

    async def _receive_from(
        self, info: TopicInfo, request: ReceiveRequest, wait: float
    ) -> list[Message[T]]:
        nodes = list(self._leaders(info))
        if not nodes:
            raise NotLeader(f"no partition of {self.queue} has a leader now")
        if len(nodes) == 1:
            found = await self._ask(nodes[0], info, request, wait)
            if 0 in info.leaders:
                self._router.metadata.forget(self.queue, info)
            return found
        self._turn += 1
        turn = self._turn % len(nodes)
        nodes = nodes[turn:] + nodes[:turn]
        at_once = msgspec.structs.replace(request, wait_ms=0)
        problems: list[PenstockError] = []
        for node in nodes:
            try:
                found = await self._ask(node, info, at_once, 0.0)
            except (Unavailable, OutcomeUnknown) as error:
                problems.append(error)  # The others may have something.
                continue
            if found:
                if problems:
                    self._router.metadata.forget(self.queue, info)
                return found
        if problems:
            raise problems[0]
        if wait <= 0:
            return []
        return await self._first(nodes, info, request, wait)

    async def _first(
        self, nodes: Sequence[int], info: TopicInfo, request: ReceiveRequest, wait: float
    ) -> list[Message[T]]:
        """Wait at all nodes and take what comes first. Nothing is awaited once messages are there:
        a cancelled caller would take them along."""
        pending = {asyncio.create_task(self._ask(node, info, request, wait)) for node in nodes}
        found: list[Message[T]] = []
        problem: BaseException | None = None
        try:
            while pending and not found and problem is None and self._knows(info):
                done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
                for task in done:
                    problem = task.exception() or problem
                    found += [] if task.exception() else task.result()
        finally:
            for task in pending:
                task.cancel()
                task.add_done_callback(self._return_spare)
        if problem is not None and not found:
            raise problem
        return found

    def _return_spare(self, task: "asyncio.Task[list[Message[T]]]") -> None:
        """Return the messages of a receive that is no longer wanted."""
        if not task.cancelled() and task.exception() is None and task.result():
            self.give_back(task.result())

    async def _ask(
        self, node: int, info: TopicInfo, request: ReceiveRequest, wait: float
    ) -> list[Message[T]]:
        clock = self._clock
        began_ms = clock.monotonic_ms()
        seconds = wait + self._router.settings.attempt_timeout
        request = msgspec.structs.replace(request, led=self._leaders(info)[node])
        answer, payload = await self._router.ask_node(node, request, ReceiveResponse, seconds)
        if answer.moved:
            self._router.metadata.forget(self.queue, info)
        if not answer.parts:
            return []
        found: list[Message[T]] = []
        position = 0
        for part in answer.parts:
            if position + part.bytes > len(payload):
                raise InvalidBatch("the broker's answer is shorter than it says")
            duration_ms = max(1, part.until_ms - answer.now_ms)
            # A lease is counted from before it was asked for: it must not seem longer than it is.
            until_ms = (clock.monotonic_ms() if wait else began_ms) + duration_ms
            lease = Lease(
                queue=self.queue,
                topic_id=info.topic_id,
                index=part.index,
                group=self.group,
                epoch=part.epoch,
                until_ms=until_ms,
                duration_ms=duration_ms if request.lease_ms < 0 else request.lease_ms,
                codec=self._codec,
                settling=self._settler,
                clock=clock,
            )
            found += self._read(lease, part, payload[position : position + part.bytes])
            position += part.bytes
        self._counters.receives += 1
        self._counters.received += len(found)
        self._counters.received_bytes += len(payload)
        return found

    # Reading.

    def _read(self, lease: Lease, part: ReceivedPart, payload: Buffer) -> list[Message[T]]:
        if len(part.runs) == 1 and (lone := read_lone(memoryview(payload))) is not None:
            first, end, deliveries, first_ms = part.runs[0]
            offset, time_ms, body = lone
            if first == offset == end - 1:
                return [
                    Message(Grant(lease, deliveries, first_ms), offset, time_ms, None, body, ())
                ]
        found: list[Message[T]] = []
        runs = Runs(part.runs)
        for batch in iter_batches(payload):
            found += _open(lease, runs, batch)
        wanted = sum([end - first for first, end, _, _ in part.runs])
        if len(found) != wanted:
            there = {message.offset for message in found}
            gaps = [
                (offset, offset + 1)
                for first, end, _, _ in part.runs
                for offset in range(first, end)
                if offset not in there
            ]
            task = asyncio.create_task(
                self._settler.settle_ranges(lease, gaps, Verdict.ACK, BY_POLICY)
            )
            self._gaps.add(task)
            task.add_done_callback(self._forget_gaps)
        if len(part.runs) == 1 or _ascend(part.runs):
            return found
        return _in_turn(found, part.runs)

    def _forget_gaps(self, task: "asyncio.Task[int]") -> None:
        self._gaps.discard(task)
        if not task.cancelled():
            task.exception()  # The lease ends, and the gap is found again.

    def give_back(self, messages: Sequence[Message[T]]) -> None:
        """Release messages that no caller will see; the delivery is not counted."""
        task = asyncio.create_task(self._settler.give_back(messages))
        self._gaps.add(task)
        task.add_done_callback(self._forget_gaps)

    async def close(self) -> None:
        """Wait for the releases in flight."""
        await asyncio.gather(*self._gaps, return_exceptions=True)


def _ascend(runs: Sequence[Run]) -> bool:
    return all(before[1] <= after[0] for before, after in pairwise(runs))


def _in_turn(found: list[Message[T]], runs: Sequence[Run]) -> list[Message[T]]:
    """Return the messages in the order in which they were granted: by priority and rotation."""
    by_offset = {message.offset: message for message in found}
    return [
        by_offset[offset]
        for first, end, _, _ in runs
        for offset in range(first, end)
        if offset in by_offset
    ]


class Runs:
    """Runs by offset, of which there may be thousands, for batch after batch."""

    def __init__(self, runs: Sequence[Run]) -> None:
        self._runs = sorted(runs)
        self._ends = [run[1] for run in self._runs]

    def between(self, first: int, end: int) -> list[Run]:
        """The runs that have something between two offsets."""
        at = bisect_right(self._ends, first)
        found: list[Run] = []
        while at < len(self._runs) and self._runs[at][0] < end:
            found.append(self._runs[at])
            at += 1
        return found


def _open(lease: Lease, runs: Runs, batch: memoryview) -> list[Message[Any]]:
    """The leased messages of a batch."""
    header = read_header(batch)
    base, count = header.base_offset, header.record_count
    end = base + header.last_offset_delta + 1
    inside = runs.between(base, end)
    found: list[Message[Any]] = []
    try:
        bodies: list[bytes] | None = None
        if 1 < count <= end - base:
            # Of a batch that was cut, the last records are there.
            records = unpack_body(batch, header.attributes, count)
            bodies = unpack_plain(records, count, end - base - count)
        if bodies is not None:
            log_time = header.attributes & LOG_APPEND_TIME
            time_ms = header.max_timestamp if log_time else header.base_timestamp
            start = end - count
            for first, stop, deliveries, first_ms in inside:
                grant = Grant(lease, deliveries, first_ms)
                low, high = max(first, start), min(stop, end)
                found += [
                    Message(grant, offset, time_ms, None, body, ())
                    for offset, body in zip(
                        range(low, high), bodies[low - start : high - start], strict=True
                    )
                ]
            return found
        messages: dict[int, StoredMessage] = {
            one.offset: one for one in OpenBatch(batch).messages()
        }
    except InvalidBatch:
        messages = {}
        for first, stop, _, _ in inside:
            for offset in range(max(first, base), min(stop, end)):
                messages[offset] = StoredMessage(Offset(offset), -1, None, None, _UNREADABLE)
    for first, stop, deliveries, first_ms in inside:
        grant = Grant(lease, deliveries, first_ms)
        for offset in range(max(first, base), min(stop, end)):
            one = messages.get(offset)
            if one is not None:
                found.append(
                    Message(grant, offset, one.timestamp_ms, one.key, one.value, one.headers)
                )
    return found
