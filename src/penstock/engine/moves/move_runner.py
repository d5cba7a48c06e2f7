"""Runs one move: messages of one queue are sent to another and acknowledged in the first.

    look at a page ── lease those that are meant ── send copies ── acknowledge ── write down how far

The leader of the shard in which the move is recorded carries it out. If it dies or is replaced,
the next one goes on from what is written down. What had been sent and not acknowledged is sent
again, says where it comes from, and is passed over (see `message_copier`). While messages are on
their way they are leased: no worker of the queue gets them.

A sweep goes over each partition once, up to where it ended when the move began, so that what dies
again and comes back is not moved endlessly. Messages that are leased are noted until the end of
the sweep: it is looked at again for a while, and stays if its worker keeps it.

A message without a way (its origin is unknown, or the queue it should go to refuses it for
good) stays where it is and is counted as failed. A queue that is full or cannot be reached stops
the move until it can.
"""

import asyncio
import contextlib
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeVar

from penstock.core.errors import (
    OutcomeUnknown,
    PenstockError,
    QueueFull,
    Unavailable,
    UnknownPartition,
    UnknownWork,
)
from penstock.core.limits import BROWSE_STEPS_MAX, MIB
from penstock.core.message_states import LEASED, LIVING_STATES
from penstock.core.move_filter import id_of
from penstock.core.moved_message import died_in, origin, redriven
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.delivery.requests import BrowsedMessage
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.moves.message_copier import Change, Copy, MessageCopier
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics
from penstock.machines.machine import Refused, refusal_error
from penstock.machines.move_commands import MoveState, ProgressMove
from penstock.machines.moves import Move
from penstock.machines.queue_commands import Acquire, CopyPlace, Settle, Settlement
from penstock.machines.queues import Acquired, Settled

PAGE_MESSAGES_MAX = 100
PAGE_MESSAGES = 10
"""The number of messages in a page until their size is known."""
PAGE_BYTES = 4 * MIB
SILENT_PAGES_MAX = 50
"""The number of pages without messages to move after which the position is stored anyway."""
LEASE_MS = 30_000
HELD_MS_MAX = 60_000
"""The longest wait for messages that another receiver has leased: longer than our own lease."""
HELD_PAUSE_MS = 500
FINISH_SECONDS = 3.0
NO_COPIES: Mapping[Offset, CopyPlace] = MappingProxyType({})
T = TypeVar("T")


class MoveRunner:
    """Runs one move; call `run` once."""

    def __init__(
        self,
        move: Move,
        source: Topic,
        running: Shard,
        *,
        topics: Topics,
        delivery: DeliveryService,
        copier: MessageCopier,
        change: Change,
        held_ms_max: int = HELD_MS_MAX,
    ) -> None:
        """`running` is the shard that the move is written down in."""
        self._move = move
        self._source = source
        self._running = running
        self._topics = topics
        self._delivery = delivery
        self._copier = copier
        self._change = change
        self._held_ms_max = held_ms_max
        self._pace = RateLimit(move.rate)
        self._positions = list(move.positions)
        self._held: list[set[Offset]] = [set() for _ in move.ends]
        self._page_messages = min(PAGE_MESSAGES, move.rate)
        self._silent_pages = 0
        self._retries = topics.retrier.endless()

    async def run(self) -> str:
        """Returns when there is nothing left to do, or the move is to stop: why it failed, or
        nothing. Raises `PenstockError` if this node does not lead any more."""
        if self._destination_is_gone():
            return "the queue that messages should go to does not exist any more"
        for index in range(len(self._move.ends)):
            failure = await self._sweep(index)
            if failure or self._is_to_stop():
                return failure
        deadline_ms = self._topics.clock.monotonic_ms() + self._held_ms_max
        while any(self._held) and self._topics.clock.monotonic_ms() < deadline_ms:
            await asyncio.sleep(HELD_PAUSE_MS / 1_000)
            for index, held in enumerate(self._held):
                failure = await self._sweep(index, only=held) if held else ""
                if failure or self._is_to_stop():
                    return failure
        return ""

    def _is_to_stop(self) -> bool:
        record = self._running.machine.moves.get(self._move.source, self._move.move_id)
        return record is None or record.state is not MoveState.RUNNING

    def _destination_is_gone(self) -> bool:
        destination = self._move.destination
        return destination != NO_TOPIC_ID and self._topics.catalog.topic_by_id(destination) is None

    async def _sweep(self, index: int, only: set[Offset] | None = None) -> str:
        """Go over one partition, or over these messages of it; why that failed, or nothing."""
        position, end = self._move.filter.span(index, self._move.ends[index])
        if only is None:
            position = max(position, self._positions[index])
        else:
            position, end = min(only), Offset(max(only) + 1)
            self._held[index] = set()
        while position < end and not self._is_to_stop():
            try:
                position = await self._move_page(index, position, end, only)
                self._retries.reset()
            except (Unavailable, OutcomeUnknown, QueueFull) as error:
                if not self._running.replica.leads:
                    raise
                self._page_messages = max(1, self._page_messages // 2)
                await self._retries.pause(error)
            except (UnknownPartition, UnknownWork) as error:
                if self._topics.catalog.topic_by_id(self._source.topic_id) is None:
                    return "the queue was deleted"
                if self._destination_is_gone():
                    return "the queue that messages should go to was deleted"
                await self._retries.pause(error)
        return ""

    async def _move_page(
        self, index: int, position: Offset, end: Offset, only: set[Offset] | None
    ) -> Offset:
        """Move the matching messages of a page; return the start of the next one."""
        most = self._page_messages
        began_ms = self._topics.clock.monotonic_ms()
        page = await self._delivery.browse(
            self._source, index=index, start=position, states=LIVING_STATES, messages_max=most
        )
        after = Offset(page[-1].message.offset + 1) if page else position
        if len(page) < most:
            after = max(after, Offset(position + BROWSE_STEPS_MAX))
        after = min(after, end)
        meant = [one for one in page if self._is_meant(index, end, only, one)]
        held = {one.message.offset for one in meant if one.state == LEASED}
        free = [one for one in meant if one.state != LEASED]
        moved, failed, taken = await _finish(self._carry(index, free))
        self._held[index] |= held | taken
        self._positions[index] = min([after, *self._held[index]])
        await self._progress(moved, failed)
        self._fit_page(page)
        now_ms = self._topics.clock.monotonic_ms()
        wait_ms = self._pace.pay(moved, began_ms=began_ms, now_ms=now_ms)
        if wait_ms:
            await asyncio.sleep(wait_ms / 1_000)
        return after

    def _is_meant(
        self, index: int, end: Offset, only: set[Offset] | None, one: BrowsedMessage
    ) -> bool:
        message = one.message
        if message.offset >= end or (only is not None and message.offset not in only):
            return False
        return is_there(one) and self._move.filter.matches(self._source.topic_id, index, message)

    def _fit_page(self, page: Sequence[BrowsedMessage]) -> None:
        size = max((_size(one) for one in page), default=1)
        fitting = min(PAGE_BYTES // size, PAGE_MESSAGES_MAX, self._move.rate)
        self._page_messages = max(1, min(fitting, 2 * self._page_messages))

    async def _progress(self, moved: int, failed: int) -> None:
        self._silent_pages += 1
        if not moved and not failed and self._silent_pages < SILENT_PAGES_MAX:
            return
        self._silent_pages = 0
        command = ProgressMove(
            source=self._move.source,
            move_id=self._move.move_id,
            moved=moved,
            failed=failed,
            positions=tuple(self._positions),
        )
        reply = await self._running.change(command)
        if isinstance(reply, Refused):
            raise refusal_error(reply)

    # One page.

    async def _carry(
        self, index: int, free: Sequence[BrowsedMessage]
    ) -> tuple[int, int, set[Offset]]:
        """Move these messages. Return how many were moved, how many cannot be, and which were
        leased by another receiver meanwhile. The last may happen after their copies were sent, if
        that took longer than the lease: such a copy is sent again when they are free, and is
        recognised as a duplicate."""
        targets = {one.message.offset: self._target(one) for one in free}
        lost = sum(target is None for target in targets.values())
        wanted = [one for one in free if targets[one.message.offset] is not None]
        if not wanted:
            return 0, lost, set()
        epoch, lives = await self._lease(index, [one.message.offset for one in wanted])
        leased = [one for one in wanted if one.message.offset in lives]
        taken = {one.message.offset for one in wanted} - lives.keys()
        by_topic: dict[str, tuple[Topic, list[Copy]]] = {}
        for one in leased:
            target = targets[one.message.offset]
            assert target is not None, "a message without a way was leased"
            topic, place = target
            copy = self._copy(index, one, place, lives[one.message.offset])
            by_topic.setdefault(topic.name, (topic, []))[1].append(copy)
        places: dict[Offset, CopyPlace] = {}
        try:
            for topic, copies in by_topic.values():
                places |= (await self._copier.deliver(topic, copies)).places
        except PenstockError:
            await self._give_back(index, epoch, lives)
            raise
        refused = lives.keys() - places.keys()
        late = await self._settle(index, epoch, places, Verdict.FINISH, places)
        if refused:
            await self._settle(index, epoch, refused, Verdict.RELEASE)
        return len(leased) - len(refused) - len(late), lost + len(refused), taken | late

    def _target(self, one: BrowsedMessage) -> tuple[Topic, int] | None:
        """Return the destination of a message, and its partition if that is known; None if there is
        none."""
        catalog = self._topics.catalog
        if self._move.destination != NO_TOPIC_ID:
            found = catalog.topic_by_id(self._move.destination)
            if found is None:
                raise UnknownPartition("the queue that messages should go to was deleted")
            return found, -1
        died = died_in(one.message)
        found = catalog.topic(died[0]) if died is not None else None
        if died is None or found is None or found.topic_id == self._source.topic_id:
            return None
        return found, died[1] if died[1] < len(found.partitions) else -1

    def _copy(self, index: int, one: BrowsedMessage, place: int, life: int) -> Copy:
        offset = one.message.offset
        said = origin(self._source.topic_id, index, offset, DEFAULT_WORK_GROUP, life)
        copy = redriven(one.message, said, id_of(self._source.topic_id, index, one.message))
        known = place >= 0
        return Copy(offset, place if known else index, copy, fixed=known)

    async def _lease(self, index: int, offsets: list[Offset]) -> tuple[int, dict[Offset, int]]:
        """Lease these messages: the lease's epoch, and of each that was got when it was first."""
        partition = self._source.partitions[index]
        command = Acquire(
            partition=partition,
            group=DEFAULT_WORK_GROUP,
            messages_max=len(offsets),
            lease_ms=LEASE_MS,
            offsets=tuple(offsets),
            receiver=f"move {self._move.move_id}",
        )
        reply = await self._change(self._topics.shard_of(partition), command)
        assert isinstance(reply, Acquired), f"an acquire was answered with {reply}"
        lives = {
            Offset(offset): run.first_ms
            for run in reply.runs
            for offset in range(run.first, run.end)
        }
        return reply.epoch, lives

    async def _give_back(self, index: int, epoch: int, offsets: Iterable[Offset]) -> None:
        with contextlib.suppress(PenstockError):  # Their lease ends by itself.
            await self._settle(index, epoch, offsets, Verdict.RELEASE)

    async def _settle(
        self,
        index: int,
        epoch: int,
        offsets: Iterable[Offset],
        verdict: Verdict,
        copies: Mapping[Offset, CopyPlace] = NO_COPIES,
    ) -> set[Offset]:
        """Settle messages; doing it twice does no harm. Return those that another receiver has
        leased since, because the lease had expired: they are not settled."""
        ordered = sorted(offsets)
        settlements = tuple(
            Settlement(offset, Offset(offset + 1), epoch, verdict, 0) for offset in ordered
        )
        if not settlements:
            return set()
        partition = self._source.partitions[index]
        command = Settle(
            partition=partition,
            group=DEFAULT_WORK_GROUP,
            settlements=settlements,
            copies=tuple(copies[offset] for offset in ordered) if copies else (),
        )
        shard = self._topics.shard_of(partition)
        try:
            reply = await self._change(shard, command)
        except OutcomeUnknown:
            reply = await self._change(shard, command)
        assert isinstance(reply, Settled), f"a settle was answered with {reply}"
        stale = zip(ordered, reply.outcomes, strict=True)
        return {offset for offset, outcome in stale if outcome is Outcome.STALE}


async def _finish(work: Coroutine[Any, Any, T]) -> T:
    """Finish an operation even if the node stops, within a time limit: unfinished messages are not
    delivered for a while."""
    task = asyncio.ensure_future(work)
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        await asyncio.wait([task], timeout=FINISH_SECONDS)
        task.cancel()
        raise


def is_there(one: BrowsedMessage) -> bool:
    """Whether a message that was looked at still exists: it may have been compacted away."""
    message = one.message
    return message.timestamp_ms >= 0 or message.value is not None or bool(message.headers)


def _size(one: BrowsedMessage) -> int:
    message = one.message
    headers = sum(len(name) + len(value or b"") for name, value in message.headers)
    return 100 + len(message.key or b"") + len(message.value or b"") + headers


_SECOND_US = 1_000_000


class RateLimit:
    """A rate limit: at most so many operations a second.

    Cost is paid afterwards, unlike with a token bucket: a caller that has done a hundred operations
    at a limit of ten a second waits until ten seconds have passed since it began. Idle time earns
    no burst."""

    def __init__(self, rate: int) -> None:
        """`rate` is how many each second."""
        assert rate > 0, f"{rate} each second would never end"
        self._rate = rate
        self._free_us = 0

    def pay(self, count: int, *, began_ms: int, now_ms: int) -> int:
        """So many were done since `began_ms`; how many milliseconds to wait before the next."""
        began_us = max(self._free_us, began_ms * 1_000)
        self._free_us = began_us + count * _SECOND_US // self._rate
        return max(0, -(-(self._free_us - now_ms * 1_000) // 1_000))
