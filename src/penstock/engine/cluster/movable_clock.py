"""Time that is moved by hand, as a test does, in a node that is alone.

A node looks at its clock at every tick, and ticks are real time. A clock that is moved says so
(`MovableClock`), and then everything that has become due happens at once: delays, leases and
lifetimes end, the dead are moved, and waiters check whether their wait is over. A caller that must
not see the node in between, with the new time and the old state, awaits `catch_up` first.

A clock that is moved on another thread than the node's is not moved on until the node has caught
up: for the caller that moved it, everything has happened that was due.
"""

import asyncio
import concurrent.futures
import contextlib
import threading
from collections.abc import Callable

from penstock.core.clock import Clock, MovableClock
from penstock.core.errors import PenstockError
from penstock.core.types import ShardId
from penstock.engine.cluster.node import Node
from penstock.engine.replica.shard import Shard
from penstock.machines.queue_commands import TurnClock

TURNS_MAX = 10_000
"""The number of entries that one move of the clock may take; each ends thousands of leases."""


PASS_SECONDS_MAX = 30.0
"""The longest time for moving a clock while the node's loop is busy or stopped."""


class ClockMover:
    """Lets time pass in a node when its clock is moved; any other clock needs nothing."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._loop = asyncio.get_running_loop()
        self._thread = threading.get_ident()
        self._node = node
        self._clock = clock
        self._passing: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] = lambda: None
        self.behind = False
        """The clock was moved, and what became due has not happened yet."""
        if isinstance(clock, MovableClock):
            self._unwatch = clock.watch(self._note_move)

    async def catch_up(self) -> None:
        """Return when everything that is due has happened; many may wait for it together."""
        while self.behind or self._passing is not None:
            self._begin()
            if self._passing is not None:
                await asyncio.wait([self._passing])

    async def close(self) -> None:
        """Stop watching the clock, before the node is closed."""
        self.abandon()
        if self._passing is not None:
            self._passing.cancel()
            await asyncio.wait([self._passing])

    def abandon(self) -> None:
        """Stop watching the clock."""
        self._unwatch()
        self.behind = False

    def _note_move(self) -> None:
        """Called on the thread that moves the clock."""
        self.behind = True
        if self._loop.is_closed():
            return
        if threading.get_ident() == self._thread:
            self._loop.call_soon(self._begin)
            return
        catching_up = self.catch_up()
        try:
            passed = asyncio.run_coroutine_threadsafe(catching_up, self._loop)
        except RuntimeError:  # The loop was closed just now, and nothing waits on it.
            catching_up.close()
            return
        with contextlib.suppress(TimeoutError, concurrent.futures.CancelledError):
            passed.result(PASS_SECONDS_MAX)

    def _begin(self) -> None:
        if self.behind and self._passing is None:
            self._passing = asyncio.create_task(self._pass())

    async def _pass(self) -> None:
        try:
            while self.behind:
                self.behind = False
                for shard in self._node.shards:
                    await self._turn(shard)
                # What ended may be dead, and is then moved; and waiters may look now.
                self._node.look_after_now()
        except PenstockError:
            pass  # A shard that is being opened again comes to it by its own ticks.
        finally:
            self._passing = None

    async def _turn(self, shard: ShardId) -> None:
        for _ in range(TURNS_MAX):
            running = self._node.shards.get(shard)
            if running is None or not self._is_due(running):
                return
            await running.change(TurnClock())

    def _is_due(self, running: Shard) -> bool:
        due_ms = running.machine.queues.due_ms()
        return due_ms is not None and due_ms <= self._clock.wall_ms()
