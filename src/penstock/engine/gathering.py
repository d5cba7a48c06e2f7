"""Small requests of many clients that come in the same moment, carried out as one.

A client that sends one message, or settles a few, costs a command, an entry of the log and an
answer, which is several times what the messages themselves cost. A busy loop hears of many clients
in one turn. So what they ask of one partition is put into one bag, and when the turn is over the
bag is carried out as if one client had brought it. An idle loop turns at once: nobody waits for
others.

While something is under way the disk is busy, and what comes meanwhile would wait for it anyway. So
the next bags of a partition, of all kinds, stay open until that is done (`Crowd`). Those who are
told then may well ask for more at once, so if few have come meanwhile the loop turns some times
more, as long as that brings somebody who was there before. Many clients of a partition thus fall
into parts that take turns: while the one's requests are written the other's are answered and heard.
Few go to the disk together. No bag waits for long (`HELD_SECONDS`): where a majority is far away,
several are under way at once, and so they are when a bag is full.

Nothing else changes. What is in a bag is in the order in which it came, and everybody is told what
came of his own part. A bag is carried out whole or not at all; if it is refused for a reason that
may be one part's alone, each part is tried for itself.
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


class _Stand:
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


class Crowd:
    """What is under way at each partition, and which bags stay open until it is done; shared by
    gatherings of several kinds."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stands: dict[Place, _Stand] = {}

    def busy(self, place: Place) -> _Stand | None:
        """Where bags must be held; None if nothing is under way there."""
        return self._stands.get(place)

    def began(self, place: Place) -> None:
        """Something is under way."""
        stand = self._stands.get(place)
        if stand is None:
            stand = self._stands[place] = _Stand(place)
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

    def _look(self, stand: _Stand, before: int) -> None:
        """A turn is over: has it brought somebody?"""
        more = stand.arrived > before or stand.turns < TURNS_MIN
        if stand.under_way:
            stand.turns = 0
        elif more and stand.arrived < stand.expected and stand.turns < TURNS_MAX:
            stand.turns += 1
            self._loop.call_soon(self._look, stand, stand.arrived)
        else:
            self._release(stand)

    def _release(self, stand: _Stand) -> None:
        del self._stands[stand.place]
        for close in stand.held.values():
            close()


class _Bag(Generic[Item, Outcome]):
    """What is asked of one partition together."""

    __slots__ = ("index", "items", "parts", "room", "stand", "timer", "topic")

    def __init__(self, topic: Topic, index: int, room: int) -> None:
        self.topic = topic
        self.index = index
        self.room = room
        self.stand: _Stand | None = None
        self.timer: asyncio.TimerHandle | None = None
        self.items: list[Item] = []
        self.parts: list[tuple[int, Callable[[Sequence[Outcome] | PenstockError], object]]] = []
        """How many items each client has brought, and how it is told."""


class Gathering(Generic[Item, Outcome]):
    """See the top of this module; one for each kind of request."""

    def __init__(
        self,
        carry: Callable[[Topic, int, Sequence[Item]], Awaitable[Sequence[Outcome]]],
        crowd: Crowd | None = None,
    ) -> None:
        """`carry` carries out a bag, in one piece: one outcome for each item."""
        self._carry = carry
        self._crowd = Crowd() if crowd is None else crowd
        self._loop = asyncio.get_running_loop()
        self._bags: dict[Key, _Bag[Item, Outcome]] = {}
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

    def _open(self, key: Key, topic: Topic, room: int) -> _Bag[Item, Outcome]:
        bag = self._bags[key] = _Bag(topic, key[1], room)
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

    async def _carry_out(self, place: Place, bag: _Bag[Item, Outcome]) -> None:
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

    async def _try(self, bag: _Bag[Item, Outcome]) -> Sequence[Outcome] | PenstockError:
        try:
            outcomes = await self._carry(bag.topic, bag.index, bag.items)
        except PenstockError as error:
            return error
        assert len(outcomes) == len(bag.items), "an outcome for each"
        return outcomes

    async def _try_singly(self, bag: _Bag[Item, Outcome]) -> None:
        """Each part for itself; who is told is in the bag no more."""
        start = 0
        while bag.parts:
            count, told = bag.parts[0]
            one: _Bag[Item, Outcome] = _Bag(bag.topic, bag.index, 0)
            one.items = bag.items[start : start + count]
            outcomes = await self._try(one)
            start += count
            del bag.parts[0]
            told(outcomes)


def _tell(bag: _Bag[Item, Outcome], outcomes: Sequence[Outcome] | PenstockError) -> None:
    if isinstance(outcomes, PenstockError):
        for _, told in bag.parts:
            told(outcomes)
        return
    start = 0
    for count, told in bag.parts:
        told(outcomes[start : start + count])
        start += count
