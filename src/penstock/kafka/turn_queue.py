"""A fair queue for turns of the event loop: so many callbacks run in one turn, the others in the
next ones, in the order in which they came. Work that clients begin a thousand times over then
cannot keep the loop for longer than the same work begun a few times.
"""

import asyncio
from collections import deque
from collections.abc import Callable


class TurnQueue:
    def __init__(self, per_turn: int) -> None:
        self._per_turn = per_turn
        self._next = 0
        """How many run in the next turn."""
        self._later: deque[Callable[[], object]] = deque()

    def call_soon(self, callback: Callable[[], object]) -> None:
        """Call back in the next turn, or in a later one if many are before it."""
        if self._next == self._per_turn:
            self._later.append(callback)
            return
        loop = asyncio.get_running_loop()
        if not self._next:
            loop.call_soon(self._begin_turn)
        self._next += 1
        loop.call_soon(callback)

    def _begin_turn(self) -> None:
        self._next = 0
        for _ in range(min(len(self._later), self._per_turn)):
            self.call_soon(self._later.popleft())

    async def wait(self) -> None:
        turn = asyncio.Event()
        self.call_soon(turn.set)
        await turn.wait()
