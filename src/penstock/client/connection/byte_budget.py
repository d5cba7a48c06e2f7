"""Back-pressure: a byte budget that several senders share; a sender that finds none left waits for
it, in order of arrival (a fair semaphore counted in bytes).
"""

import asyncio
from collections import deque


class ByteBudget:
    """See the top of this module. One that is larger than everything gets in when it is empty."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self.taken = 0
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()

    def enter_nowait(self, size: int) -> bool:
        """Draw bytes if there are enough; no caller overtakes those that wait."""
        if self._waiting or (self.taken and self.taken + size > self._bytes_max):
            return False
        self.taken += size
        return True

    async def enter(self, size: int) -> None:
        """Take room, and wait for it if need be."""
        if self.enter_nowait(size):
            return
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((size, turn))
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave(size)
            else:
                self._waiting = deque(one for one in self._waiting if one[1] is not turn)
                self._admit()
            raise

    def leave(self, size: int) -> None:
        """Release `size` bytes."""
        self.taken -= size
        assert self.taken >= 0, f"{self.taken} bytes are taken"
        if self._waiting:
            self._admit()

    def _admit(self) -> None:
        while self._waiting:
            size, turn = self._waiting[0]
            if self.taken and self.taken + size > self._bytes_max:
                return
            self._waiting.popleft()
            if not turn.done():
                self.taken += size
                turn.set_result(None)
