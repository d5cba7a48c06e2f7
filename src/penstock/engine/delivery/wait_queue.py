"""Workers that wait for messages of one work group on one partition.

When messages come, as many are called as there are messages, in the order in which they came:
hundreds may wait, and a single message must not make hundreds of requests. Whoever is called asks
for messages; if some are left when he has his answer, he calls the next.

A lease has to be as durable as the messages, so that a worker who asks only when they are there
waits for the disk, or for a majority, a second time. Hence whoever waits may leave word how he
would ask. When messages are about to be written, the first who did has his request written right
behind them: one sync, one round to the other nodes, for both. Who comes while messages are being
written, that nobody has a claim on, need not wait at all: he asks at once, and is next to be
written. Should either get him nothing, since the messages are for later or others had older claims,
the room refrains from it for a while.
"""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from penstock.core.clock import precise_seconds
from penstock.core.types import PartitionId
from penstock.engine.topics.long_polls import Batch, Watch
from penstock.engine.topics.poll_time import note_parked

VAIN_SKIPS = 64
"""After a request ahead of its messages got nothing, so many writes pass without one."""

Asked = TypeVar("Asked")
Ahead = Callable[[PartitionId, int, Batch], Asked | None]
"""Asks for messages that are being written: the partition, how many, their batch. None: it was not
worth it."""
_Place = tuple[asyncio.Future[Asked | None], Ahead[Asked] | None]


class WaitQueue(Generic[Asked]):
    """`ready` tells how many messages could be had."""

    def __init__(
        self,
        ready: Callable[[], int],
        watch: Callable[[Callable[[], None]], Watch],
        on_idle: Callable[[], object] = lambda: None,
        skips: int = 0,
    ) -> None:
        """`on_idle` is called when nobody waits any more and nobody's request is under way. `skips`
        is what the room before it at this place had left of them."""
        self._ready = ready
        self._on_idle = on_idle
        self._watch_for = watch
        self._watch: Watch | None = None
        self._waiting: deque[_Place[Asked]] = deque()
        self._claimed: dict[PartitionId, int] = {}
        self.skips = skips
        """So many writes pass without a request ahead of them."""

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(
        self,
        seconds: float,
        ahead: Ahead[Asked] | None = None,
        abandon: Callable[[Asked], None] = lambda _: None,
    ) -> Asked | None:
        """Return when it is one's turn to ask, or when the time is up; what `ahead` gave if that
        was called. What it gave to somebody who leaves at that moment goes to `abandon`."""
        loop = asyncio.get_running_loop()
        turn: asyncio.Future[Asked | None] = loop.create_future()
        place = turn, ahead
        self._waiting.append(place)
        if self._watch is None:
            self._watch = self._watch_for(self.call)
            self._watch.move_on = self.call_all
            self._watch.foresee = self.foresee
        patience = loop.call_later(seconds, self._give_up, place)
        began = precise_seconds()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._drop(place)
            else:
                asked = turn.result()
                if asked is not None:
                    abandon(asked)
                self.call()  # His turn goes to the next.
            raise
        finally:
            note_parked(precise_seconds() - began)
            patience.cancel()
            self._leave()

    def _give_up(self, place: _Place[Asked]) -> None:
        """His time is up."""
        if not place[0].done():
            self._drop(place)
            place[0].set_result(None)

    def _drop(self, place: _Place[Asked]) -> None:
        with contextlib.suppress(ValueError):  # He may have been passed over already.
            self._waiting.remove(place)

    def _leave(self) -> None:
        if not self._waiting and self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self._waiting and not self._claimed:
            self._on_idle()

    def call(self) -> None:
        """Messages may have come: call as many as there are messages nobody has a claim on."""
        ready = self._ready() - sum(self._claimed.values()) if self._waiting else 0
        while self._waiting and ready > 0:
            turn, _ = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                ready -= 1

    def call_all(self) -> None:
        """The clock was moved by hand: everybody sees whether his time is up."""
        for turn, _ in self._waiting:
            if not turn.done():
                turn.set_result(None)
        self._waiting.clear()

    def foresee(self, partition: PartitionId, messages: int, batch: Batch) -> None:
        """So many messages are about to be written: the first who left word asks for them."""
        if self.skips:
            self.skips -= 1
            return
        while self._waiting and self._waiting[0][0].done():
            self._waiting.popleft()
        if not self._waiting:
            return
        turn, ahead = self._waiting[0]
        asked = None if ahead is None else ahead(partition, messages, batch)
        if asked is not None:
            self._waiting.popleft()
            turn.set_result(asked)

    def unclaimed(self, partition: PartitionId, coming: int) -> int:
        """How many of so many messages that are being written are his who comes now."""
        if self.skips or self._waiting:
            return 0
        return coming - self._claimed.get(partition, 0)

    def claim(self, partition: PartitionId, messages: int) -> Callable[[bool], None]:
        """Somebody has asked for so many that are on their way: nobody else is called for them,
        until he has his answer. Tell then whether he got some."""
        claimed = self._claimed
        claimed[partition] = claimed.get(partition, 0) + messages

        def answered(got_some: bool) -> None:
            claimed[partition] -= messages
            if not claimed[partition]:
                del claimed[partition]
            if not got_some:
                self.skips = VAIN_SKIPS
            self.call()
            self._leave()

        return answered
