"""A fair wait queue per work group; it prevents a thundering herd.

Hundreds of receivers may wait for messages of one work group, and one message must not cause
hundreds of requests. When messages become ready, as many waiters are woken as there are messages,
in order of arrival. A waiter that is woken acquires messages; when it has its answer and messages
are left, it wakes the next one.

Pre-acquire. A lease has to be as durable as the messages. A receiver that acquires messages only
when they are committed waits for the disk, or for a majority, a second time. A waiter may therefore
pass a function that acquires messages which are still being written. When an append is submitted,
the first such waiter submits its acquire right behind it: both share one sync and one round of
replication. A receiver that arrives while messages without a reservation are being written
acquires them without waiting. If a pre-acquire gets nothing, because the messages are
delayed or belong to older reservations, the next appends are not pre-acquired (`BACKOFF_APPENDS`).
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from functools import partial
from typing import Generic, TypeVar

from penstock.core.clock import precise_seconds
from penstock.core.types import PartitionId
from penstock.engine.topics.long_polls import Batch, Watch
from penstock.engine.topics.poll_time import note_parked

BACKOFF_APPENDS = 64
"""Back-off: after a pre-acquire that got nothing, so many appends pass without one."""

Acquiring = TypeVar("Acquiring")
PreAcquire = Callable[[PartitionId, int, Batch], Acquiring | None]
"""Acquires messages that are being written: the partition, how many, their batch. None: it is not
worth trying."""
_Turn = asyncio.Future[Acquiring | None]


class WaitQueue(Generic[Acquiring]):
    """The receives that wait for messages of a work group. `ready` counts the messages that could
    be acquired; it is passed the number of waiters, which is enough to wake all."""

    def __init__(
        self,
        ready: Callable[[int], int],
        watch: Callable[[Callable[[], None]], Watch],
        on_idle: Callable[["WaitQueue[Acquiring]"], object] = lambda _: None,
        skips: int = 0,
    ) -> None:
        """`on_idle` is called when there are no waiters and no pre-acquires under way. `skips` is
        what the previous queue of this work group had left of them."""
        self._ready = ready
        self._on_idle = on_idle
        self._watch_for = watch
        self._watch: Watch | None = None
        # A linked list: the first waiter, and one that gives up, leave in constant time. A plain
        # dictionary would be searched from its start for the first one that is left.
        self._waiting: OrderedDict[_Turn[Acquiring], PreAcquire[Acquiring] | None] = OrderedDict()
        self._reserved: dict[PartitionId, int] = {}
        """How many messages that are being written are pre-acquired."""
        self.skips = skips
        """So many appends pass without a pre-acquire."""

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(
        self,
        seconds: float,
        pre_acquire: PreAcquire[Acquiring] | None = None,
        abandon: Callable[[Acquiring], None] = lambda _: None,
        on_wait: Callable[[Callable[[], None]], object] = lambda _: None,
    ) -> Acquiring | None:
        """Return when it is this waiter's turn, or when the time is up; what `pre_acquire` returned
        if that was called. If the waiter is cancelled at that moment, `abandon` gets it. `on_wait`
        is passed a function that ends the wait early."""
        loop = asyncio.get_running_loop()
        turn: _Turn[Acquiring] = loop.create_future()
        self._waiting[turn] = pre_acquire
        if self._watch is None:
            self._watch = self._watch_for(self.wake)
            self._watch.on_clock_moved = self.wake_all
            self._watch.pre_acquire = self.pre_acquire
        timer = loop.call_later(seconds, self._give_up, turn)
        on_wait(partial(self._give_up, turn))
        began = precise_seconds()
        try:
            return await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                self._waiting.pop(turn, None)  # A waiter is removed when it is woken.
            else:
                acquiring = turn.result()
                if acquiring is not None:
                    abandon(acquiring)
                self.wake()  # The turn goes to the next waiter.
            raise
        finally:
            note_parked(precise_seconds() - began)
            timer.cancel()
            self._check_idle()

    def _give_up(self, turn: _Turn[Acquiring]) -> None:
        if not turn.done():
            self._waiting.pop(turn, None)
            turn.set_result(None)

    def _check_idle(self) -> None:
        if not self._waiting and self._watch is not None:
            self._watch.cancel()
            self._watch = None
        if not self._waiting and not self._reserved:
            self._on_idle(self)

    def wake(self) -> None:
        """Messages may be ready: wake as many waiters as there are messages without reservation."""
        waiting = len(self._waiting)
        ready = self._ready(waiting) - sum(self._reserved.values()) if waiting else 0
        while self._waiting and ready > 0:
            turn, _ = self._waiting.popitem(last=False)
            if not turn.done():
                turn.set_result(None)
                ready -= 1

    def wake_all(self) -> None:
        """The clock was moved by hand: every waiter checks whether its time is up."""
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
        self._waiting.clear()

    def pre_acquire(self, partition: PartitionId, messages: int, batch: Batch) -> None:
        """So many messages are being written: the first waiter acquires them, if it can."""
        if self.skips:
            self.skips -= 1
            return
        while self._waiting and (turn := next(iter(self._waiting))).done():
            del self._waiting[turn]
        if not self._waiting:
            return
        pre_acquire = self._waiting[turn]
        acquiring = None if pre_acquire is None else pre_acquire(partition, messages, batch)
        if acquiring is not None:
            del self._waiting[turn]
            turn.set_result(acquiring)

    def unreserved(self, partition: PartitionId, coming: int) -> int:
        """How many of the messages being written a receiver that arrives now may pre-acquire."""
        if self.skips or self._waiting:
            return 0
        return coming - self._reserved.get(partition, 0)

    def reserve(self, partition: PartitionId, messages: int) -> Callable[[bool], None]:
        """Messages being written are pre-acquired: no waiter is woken for them until the outcome is
        known. Call the result then, with whether the pre-acquire got some."""
        reserved = self._reserved
        reserved[partition] = reserved.get(partition, 0) + messages

        def on_outcome(got_some: bool) -> None:
            reserved[partition] -= messages
            if not reserved[partition]:
                del reserved[partition]
            if not got_some:
                self.skips = BACKOFF_APPENDS
            self.wake()
            self._check_idle()

        return on_outcome
