"""Coalesces small requests of many clients that arrive together into one command (batching).

A client that sends one message, or settles a few, costs a command, a log entry and an answer:
several times what the messages themselves cost. A busy event loop hears from many clients in one
turn. Their requests for one partition therefore join one batch, and when the turn is over the batch
is carried out as if one client had sent it. An idle loop turns at once, so a lone client waits for
no other.

While a write is under way the disk is busy, and a request that arrives meanwhile would wait for it
anyway. So the next batches of a partition, of all kinds, stay open until that write is done
(`CoalescingGate`). The clients that are answered then often send their next request at once; if few
requests have arrived meanwhile, the loop takes a few more turns, as long as that brings clients
back. The clients of a partition thus fall into halves that alternate: while the requests of one are
written, the others are answered and read. A batch is held for a bounded time (`HELD_SECONDS`):
where a majority is far away several batches are under way at once, and so they are when a batch is
full.

The order within a batch is the order of arrival, and each client gets the outcome of its own part.
A batch is carried out whole or not at all; if it is refused for a reason that may concern a single
part, each part is tried by itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from typing import Final, Generic, TypeVar

from penstock.core.errors import OutcomeUnknown, PenstockError, Unavailable
from penstock.core.topic import Topic
from penstock.core.types import TopicId

HELD_SECONDS: Final = 0.005
"""How long a batch is held for the writes before it, at most."""
TURNS_MAX: Final = 8
TURNS_MIN: Final = 2
"""Turns of the loop in which clients that were just answered may send their next request."""
FEW: Final = 3
"""So few clients do not wait for each other."""
ENOUGH: Final = 32
"""So many requests do not wait for more."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

Place = tuple[TopicId, int]
Key = tuple[TopicId, int, object]
"""A partition, and a kind of request."""

_FOR_ALL: Final = (Unavailable, OutcomeUnknown)
"""Errors that say nothing about the requests in a batch."""


class _Pending:
    """One partition: what is under way, and which batches wait for that."""

    __slots__ = ("arrived", "expected", "held", "place", "turns", "under_way")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.under_way = 0
        self.turns = 0
        """For how many turns of the loop batches were held for more clients; 0: they are not."""
        self.held: dict[object, Callable[[], None]] = {}
        """Open batches, by coalescer and key, and the function that closes each."""
        self.arrived = 0
        """How many clients have requests in them."""
        self.expected = 0


class CoalescingGate:
    """What is under way at each partition, and which batches stay open until it is done; shared by
    coalescers of several kinds of request."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._pending: dict[Place, _Pending] = {}

    def busy(self, place: Place) -> _Pending | None:
        """Where batches are held; None if nothing is under way there."""
        return self._pending.get(place)

    def began(self, place: Place) -> None:
        """A batch is under way."""
        pending = self._pending.get(place)
        if pending is None:
            pending = self._pending[place] = _Pending(place)
        pending.under_way += 1

    def release_waiting(self, place: Place) -> bool:
        """A batch is done, and its clients are not answered yet; True if enough others wait, whose
        batches are submitted now."""
        pending = self._pending[place]
        if pending.under_way > 1 or pending.arrived < ENOUGH:
            return False
        held, pending.held = pending.held, {}
        for close in held.values():
            close()
        return True

    def ended(self, place: Place, clients: int) -> None:
        """A batch is done, and so many clients were answered."""
        pending = self._pending[place]
        pending.under_way -= 1
        if not pending.under_way:
            pending.expected = min(clients + pending.arrived, ENOUGH)
            if pending.expected <= max(FEW, pending.arrived):
                self._release(pending)
            elif not pending.turns:
                pending.turns = 1
                self._loop.call_soon(self._look, pending, pending.arrived)

    def _look(self, pending: _Pending, before: int) -> None:
        """A turn is over: has it brought more clients?"""
        more = pending.arrived > before or pending.turns < TURNS_MIN
        if pending.under_way:
            pending.turns = 0
        elif more and pending.arrived < pending.expected and pending.turns < TURNS_MAX:
            pending.turns += 1
            self._loop.call_soon(self._look, pending, pending.arrived)
        else:
            self._release(pending)

    def _release(self, pending: _Pending) -> None:
        del self._pending[pending.place]
        for close in pending.held.values():
            close()


class _Batch(Generic[Item, Outcome]):
    """Requests for one partition that are carried out together."""

    __slots__ = ("index", "items", "parts", "pending", "room", "timer", "topic")

    def __init__(self, topic: Topic, index: int, room: int) -> None:
        self.topic = topic
        self.index = index
        self.room = room
        self.pending: _Pending | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.items: list[Item] = []
        self.parts: list[tuple[int, Callable[[Sequence[Outcome] | PenstockError], object]]] = []
        """How many items each client has added, and its callback."""


class Coalescer(Generic[Item, Outcome]):
    """One for each kind of request."""

    def __init__(
        self,
        execute: Callable[[Topic, int, Sequence[Item]], Awaitable[Sequence[Outcome]]],
        gate: CoalescingGate | None = None,
    ) -> None:
        """`execute` carries out a batch, whole: one outcome for each item."""
        self._execute_batch = execute
        self._gate = CoalescingGate() if gate is None else gate
        self._loop = asyncio.get_running_loop()
        self._batches: dict[Key, _Batch[Item, Outcome]] = {}
        """The open ones."""
        self._due: list[Key] = []
        """Batches that are closed when the turn is over."""
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self,
        topic: Topic,
        index: int,
        items: Sequence[Item],
        on_done: Callable[[Sequence[Outcome] | PenstockError], object],
        *,
        size: int,
        room: int,
        kind: object = None,
    ) -> None:
        """Carry out a request for a partition together with others; `on_done` is called once, not
        before this returns, and must not raise. A batch has `room` for requests of so much `size`.
        Requests of different kinds do not share a batch."""
        key = topic.topic_id, index, kind
        batch = self._batches.get(key)
        if batch is None or batch.room < size or batch.topic is not topic:
            if batch is not None:
                self._close(key)
            batch = self._open(key, topic, room)
        batch.room -= size
        batch.items += items
        batch.parts.append((len(items), on_done))
        if batch.pending is not None:
            batch.pending.arrived += 1

    def _open(self, key: Key, topic: Topic, room: int) -> _Batch[Item, Outcome]:
        batch = self._batches[key] = _Batch(topic, key[1], room)
        batch.pending = self._gate.busy(key[:2])
        if batch.pending is not None:
            batch.pending.held[self, key] = partial(self._close, key)
            batch.timer = self._loop.call_later(HELD_SECONDS, self._close, key)
        else:
            if not self._due:
                self._loop.call_soon(self._close_due)
            self._due.append(key)
        return batch

    def _close_due(self) -> None:
        due, self._due = self._due, []
        for key in due:
            self._close(key)

    def _close(self, key: Key) -> None:
        """Submit the open batch, if there is one."""
        batch = self._batches.pop(key, None)
        if batch is None:
            return
        if batch.timer is not None:
            batch.timer.cancel()
        if batch.pending is not None:
            batch.pending.arrived -= len(batch.parts)
        self._gate.began(key[:2])
        task = self._loop.create_task(self._run(key[:2], batch))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, place: Place, batch: _Batch[Item, Outcome]) -> None:
        clients = len(batch.parts)
        unknown = OutcomeUnknown("the broker gave up while this was under way")
        outcomes: Sequence[Outcome] | PenstockError = unknown
        try:
            outcomes = await self._try(batch)
            if isinstance(outcomes, PenstockError) and not isinstance(outcomes, _FOR_ALL):
                if clients > 1:
                    outcomes = unknown
                    await self._try_singly(batch)
            if self._gate.release_waiting(place):
                await asyncio.sleep(0)  # The next batches are submitted.
                await asyncio.sleep(0)  # The disk is busy while clients are answered.
        finally:
            _call_back(batch, outcomes)
            self._gate.ended(place, clients)

    async def _try(self, batch: _Batch[Item, Outcome]) -> Sequence[Outcome] | PenstockError:
        try:
            outcomes = await self._execute_batch(batch.topic, batch.index, batch.items)
        except PenstockError as error:
            return error
        assert len(outcomes) == len(batch.items), "an outcome for each"
        return outcomes

    async def _try_singly(self, batch: _Batch[Item, Outcome]) -> None:
        """Carry out each part by itself; a part that is answered leaves the batch."""
        start = 0
        while batch.parts:
            count, on_done = batch.parts[0]
            one: _Batch[Item, Outcome] = _Batch(batch.topic, batch.index, 0)
            one.items = batch.items[start : start + count]
            outcomes = await self._try(one)
            start += count
            del batch.parts[0]
            on_done(outcomes)


def _call_back(batch: _Batch[Item, Outcome], outcomes: Sequence[Outcome] | PenstockError) -> None:
    if isinstance(outcomes, PenstockError):
        for _, on_done in batch.parts:
            on_done(outcomes)
        return
    start = 0
    for count, on_done in batch.parts:
        on_done(outcomes[start : start + count])
        start += count
