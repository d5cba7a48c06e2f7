"""Small requests of many clients that come in the same moment, carried out as one.

A client that sends one message, or settles a few, costs a command, an entry of the log and an
answer, which is several times what the messages themselves cost. A busy loop hears of many clients
in one turn. So what they ask of one partition is put into one bag, and when the turn is over the
bag is carried out as if one client had brought it. An idle loop turns at once: nobody waits for
others.

Nothing else changes. What is in a bag is in the order in which it came, and everybody is told what
came of his own part. A bag is carried out whole or not at all; if it is refused for a reason that
may be one part's alone, each part is tried for itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Generic, TypeVar

from penstock.core.errors import OutcomeUnknown, PenstockError, Unavailable
from penstock.core.types import TopicId
from penstock.machines.catalog import Topic

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")

_FOR_ALL: Final = (Unavailable, OutcomeUnknown)
"""Errors that say nothing about what is in a bag."""


class _Bag(Generic[Item, Outcome]):
    """What is asked of one partition together."""

    __slots__ = ("index", "items", "parts", "room", "topic")

    def __init__(self, topic: Topic, index: int, room: int) -> None:
        self.topic = topic
        self.index = index
        self.room = room
        self.items: list[Item] = []
        self.parts: list[tuple[int, Callable[[Sequence[Outcome] | PenstockError], None]]] = []
        """How many items each client has brought, and how it is told."""


class Gathering(Generic[Item, Outcome]):
    """See the top of this module; one for each kind of request."""

    def __init__(
        self, carry: Callable[[Topic, int, Sequence[Item]], Awaitable[Sequence[Outcome]]]
    ) -> None:
        """`carry` carries out a bag, in one piece: one outcome for each item."""
        self._carry = carry
        self._loop = asyncio.get_running_loop()
        self._bags: dict[tuple[TopicId, int], _Bag[Item, Outcome]] = {}
        self._tasks: set[asyncio.Task[None]] = set()

    def add(
        self,
        topic: Topic,
        index: int,
        items: Sequence[Item],
        told: Callable[[Sequence[Outcome] | PenstockError], None],
        *,
        size: int,
        room: int,
    ) -> None:
        """Carry out with others what a client asks of a partition; `told` is called once, not
        before this returns, and must not raise. A bag has room for parts of so much size."""
        if not self._bags:
            self._loop.call_soon(self._close_all)
        key = topic.topic_id, index
        bag = self._bags.get(key)
        if bag is None or bag.room < size or bag.topic is not topic:
            if bag is not None:
                self._close(bag)
            bag = self._bags[key] = _Bag(topic, index, room)
        bag.room -= size
        bag.items += items
        bag.parts.append((len(items), told))

    def _close_all(self) -> None:
        bags, self._bags = self._bags, {}
        for bag in bags.values():
            self._close(bag)

    def _close(self, bag: _Bag[Item, Outcome]) -> None:
        task = self._loop.create_task(self._carry_out(bag))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _carry_out(self, bag: _Bag[Item, Outcome]) -> None:
        try:
            outcomes = await self._carry(bag.topic, bag.index, bag.items)
        except PenstockError as error:
            if len(bag.parts) > 1 and not isinstance(error, _FOR_ALL):
                await self._carry_out_singly(bag)
            else:
                _tell_all(bag, error)
        except BaseException:
            _tell_all(bag, OutcomeUnknown("the broker gave up while this was under way"))
            raise
        else:
            assert len(outcomes) == len(bag.items), "an outcome for each"
            start = 0
            for count, told in bag.parts:
                told(outcomes[start : start + count])
                start += count

    async def _carry_out_singly(self, bag: _Bag[Item, Outcome]) -> None:
        start = 0
        for count, told in bag.parts:
            one: _Bag[Item, Outcome] = _Bag(bag.topic, bag.index, 0)
            one.items = bag.items[start : start + count]
            one.parts = [(count, told)]
            start += count
            await self._carry_out(one)


def _tell_all(bag: _Bag[Item, Outcome], error: PenstockError) -> None:
    for _, told in bag.parts:
        told(error)
