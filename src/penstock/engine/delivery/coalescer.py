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
from penstock.core.types import TopicId
from penstock.machines.catalog import Topic

HELD_SECONDS: Final = 0.005
"""So long a bag waits at most for those before it."""
TURNS_MAX: Final = 8
TURNS_MIN: Final = 2
"""Of the loop, for those to come who were there before."""
FEW: Final = 3
"""So many do not wait for each other."""
ENOUGH: Final = 32
"""Nor do so many wait for more: meanwhile those who were told before could be heard."""

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

Place = tuple[TopicId, int]
Key = tuple[TopicId, int, object]
"""Place and kind."""

_FOR_ALL: Final = (Unavailable, OutcomeUnknown)
"""Errors that say nothing about what is in a bag."""


class _Pending:
    """One partition: what is under way, and which bags wait for that."""

    __slots__ = ("arrived", "expected", "held", "place", "turns", "under_way")

    def __init__(self, place: Place) -> None:
        self.place = place
        self.under_way = 0
        self.turns = 0
        """For how many turns of the loop it has been waited for others; 0: it is not."""
        self.held: dict[object, Callable[[], None]] = {}
        """Bags that are open, by gathering and key, and how they are closed."""
        self.arrived = 0
        """How many clients have something in them."""
        self.expected = 0


class CoalescingGate:
    """What is under way at each partition, and which bags stay open until it is done; shared by
    gatherings of several kinds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stands: dict[Place, _Pending] = {}

    def busy(self, place: Place) -> _Pending | None:
        """Where bags must be held; None if nothing is under way there."""
        return self._stands.get(place)

    def began(self, place: Place) -> None:
        """Something is under way."""
        stand = self._stands.get(place)
        if stand is None:
            stand = self._stands[place] = _Pending(place)
        stand.under_way += 1

    def relieve(self, place: Place) -> bool:
        """What is under way is done, and nobody has been told yet; True if enough others wait, who
        now begin."""
        stand = self._stands[place]
        if stand.under_way > 1 or stand.arrived < ENOUGH:
            return False
        held, stand.held = stand.held, {}
        for close in held.values():
            close()
        return True

    def ended(self, place: Place, clients: int) -> None:
        """It is done, and so many were told."""
        stand = self._stands[place]
        stand.under_way -= 1
        if not stand.under_way:
            stand.expected = min(clients + stand.arrived, ENOUGH)
            if stand.expected <= max(FEW, stand.arrived):
                self._release(stand)
            elif not stand.turns:
                stand.turns = 1
                self._loop.call_soon(self._look, stand, stand.arrived)

    def _look(self, stand: _Pending, before: int) -> None:
        """A turn is over: has it brought somebody?"""
        more = stand.arrived > before or stand.turns < TURNS_MIN
        if stand.under_way:
            stand.turns = 0
        elif more and stand.arrived < stand.expected and stand.turns < TURNS_MAX:
            stand.turns += 1
            self._loop.call_soon(self._look, stand, stand.arrived)
        else:
            self._release(stand)

    def _release(self, stand: _Pending) -> None:
        del self._stands[stand.place]
        for close in stand.held.values():
            close()


class _Batch(Generic[Item, Outcome]):
    """What is asked of one partition together."""

    __slots__ = ("index", "items", "parts", "room", "stand", "timer", "topic")

    def __init__(self, topic: Topic, index: int, room: int) -> None:
        self.topic = topic
        self.index = index
        self.room = room
        self.stand: _Pending | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.items: list[Item] = []
        self.parts: list[tuple[int, Callable[[Sequence[Outcome] | PenstockError], object]]] = []
        """How many items each client has brought, and how it is told."""


class Coalescer(Generic[Item, Outcome]):
    """One for each kind of request."""

    def __init__(
        self,
        carry: Callable[[Topic, int, Sequence[Item]], Awaitable[Sequence[Outcome]]],
        crowd: CoalescingGate | None = None,
    ) -> None:
        """`carry` carries out a bag, in one piece: one outcome for each item."""
        self._carry = carry
        self._crowd = CoalescingGate() if crowd is None else crowd
        self._loop = asyncio.get_running_loop()
        self._bags: dict[Key, _Batch[Item, Outcome]] = {}
        """Those that are open."""
        self._due: list[Key] = []
        """Whose bags are closed when the turn is over."""
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self,
        topic: Topic,
        index: int,
        items: Sequence[Item],
        told: Callable[[Sequence[Outcome] | PenstockError], object],
        *,
        size: int,
        room: int,
        kind: object = None,
    ) -> None:
        """Carry out with others what a client asks of a partition; `told` is called once, not
        before this returns, and must not raise. A bag has room for parts of so much size. What is
        not of one kind does not go into one bag."""
        key = topic.topic_id, index, kind
        bag = self._bags.get(key)
        if bag is None or bag.room < size or bag.topic is not topic:
            if bag is not None:
                self._close(key)
            bag = self._open(key, topic, room)
        bag.room -= size
        bag.items += items
        bag.parts.append((len(items), told))
        if bag.stand is not None:
            bag.stand.arrived += 1

    def _open(self, key: Key, topic: Topic, room: int) -> _Batch[Item, Outcome]:
        bag = self._bags[key] = _Batch(topic, key[1], room)
        bag.stand = self._crowd.busy(key[:2])
        if bag.stand is not None:
            bag.stand.held[self, key] = partial(self._close, key)
            bag.timer = self._loop.call_later(HELD_SECONDS, self._close, key)
        else:
            if not self._due:
                self._loop.call_soon(self._close_due)
            self._due.append(key)
        return bag

    def _close_due(self) -> None:
        due, self._due = self._due, []
        for key in due:
            self._close(key)

    def _close(self, key: Key) -> None:
        """Carry out the open bag, if there is one."""
        bag = self._bags.pop(key, None)
        if bag is None:
            return
        if bag.timer is not None:
            bag.timer.cancel()
        if bag.stand is not None:
            bag.stand.arrived -= len(bag.parts)
        self._crowd.began(key[:2])
        task = self._loop.create_task(self._carry_out(key[:2], bag))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, place: Place, bag: _Batch[Item, Outcome]) -> None:
        clients = len(bag.parts)
        unknown = OutcomeUnknown("the broker gave up while this was under way")
        outcomes: Sequence[Outcome] | PenstockError = unknown
        try:
            outcomes = await self._try(bag)
            if isinstance(outcomes, PenstockError) and not isinstance(outcomes, _FOR_ALL):
                if clients > 1:
                    outcomes = unknown
                    await self._try_singly(bag)
            if self._crowd.relieve(place):
                await asyncio.sleep(0)  # They ask.
                await asyncio.sleep(0)  # The disk hears of it, and is busy while these are told.
        finally:
            _tell(bag, outcomes)
            self._crowd.ended(place, clients)

    async def _try(self, bag: _Batch[Item, Outcome]) -> Sequence[Outcome] | PenstockError:
        try:
            outcomes = await self._carry(bag.topic, bag.index, bag.items)
        except PenstockError as error:
            return error
        assert len(outcomes) == len(bag.items), "an outcome for each"
        return outcomes

    async def _try_singly(self, bag: _Batch[Item, Outcome]) -> None:
        """Each part for itself; who is told is in the bag no more."""
        start = 0
        while bag.parts:
            count, told = bag.parts[0]
            one: _Batch[Item, Outcome] = _Batch(bag.topic, bag.index, 0)
            one.items = bag.items[start : start + count]
            outcomes = await self._try(one)
            start += count
            del bag.parts[0]
            told(outcomes)


def _tell(bag: _Batch[Item, Outcome], outcomes: Sequence[Outcome] | PenstockError) -> None:
    if isinstance(outcomes, PenstockError):
        for _, told in bag.parts:
            told(outcomes)
        return
    start = 0
    for count, told in bag.parts:
        told(outcomes[start : start + count])
        start += count
