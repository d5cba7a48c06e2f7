"""Workers that wait for messages of one work group on one partition.

When messages come, as many are called as there are messages, in the order in which they came:
hundreds may wait, and a single message must not make hundreds of requests. Whoever is called asks
for messages; if some are left when he has his answer, he calls the next.
"""

import asyncio
from collections import deque
from collections.abc import Callable

from penstock.engine.parking import parked
from penstock.engine.waiting import Watch


class WaitingRoom:
    """See the top of this module. `ready` tells how many messages could be had."""

    def __init__(
        self, ready: Callable[[], int], watch: Callable[[Callable[[], None]], Watch]
    ) -> None:
        self._ready = ready
        self._watch_for = watch
        self._watch: Watch | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    async def wait(self, seconds: float) -> None:
        """Return when it is one's turn to ask, or when the time is up."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        if self._watch is None:
            self._watch = self._watch_for(self.call)
            self._watch.move_on = self.call_all
        try:
            async with asyncio.timeout(seconds):
                with parked():
                    await turn
        except TimeoutError:
            pass
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.call()  # His turn goes to the next.
            raise
        finally:
            if not turn.done():
                turn.cancel()
            if turn in self._waiting:
                self._waiting.remove(turn)
            if not self._waiting and self._watch is not None:
                self._watch.cancel()
                self._watch = None

    def call(self) -> None:
        """Messages may have come: call as many as there are messages."""
        ready = self._ready() if self._waiting else 0
        while self._waiting and ready > 0:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                ready -= 1

    def call_all(self) -> None:
        """The clock was moved by hand: everybody sees whether his time is up."""
        for turn in self._waiting:
            if not turn.done():
                turn.set_result(None)
        self._waiting.clear()
