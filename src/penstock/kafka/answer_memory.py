"""What the rows of one request, and those of its answer, draw on the memory budget of the node.

Rows of a long request are drawn while it is decoded, before anything is changed. Rows of an answer,
of which a short request can have very many, are drawn while they are encoded. Without room the
request waits, and is refused in the end: what waits holds memory, and if all waited for each other
none would go on. For the same reason only few long answers are built at once.
"""

import asyncio
from typing import TYPE_CHECKING

from penstock.core.errors import InvalidRequest, Overloaded
from penstock.core.limits import (
    KAFKA_ANSWER_BYTES_MAX,
    KAFKA_LONG_ANSWERS_MAX,
    KAFKA_ROOM_SECONDS_MAX,
    KAFKA_SMALL_ANSWER_BYTES,
)
from penstock.core.memory_budget import ANSWERS

if TYPE_CHECKING:
    from penstock.core.memory_budget import MemoryAccount
    from penstock.engine.replica.time_slices import TimeSlices


class LongAnswers(asyncio.Semaphore):
    """The places for long answers of a port; `release` gives one back."""

    def __init__(self) -> None:
        super().__init__(KAFKA_LONG_ANSWERS_MAX)

    async def wait(self) -> None:
        """Take a place, when there is one."""
        await self.acquire()


class AnswerMemory:
    """Of one request; `close` it when the request is over."""

    def __init__(
        self, account: "MemoryAccount", slices: "TimeSlices", long_answers: LongAnswers
    ) -> None:
        self._account = account
        self._slices = slices
        self._long_answers = long_answers
        self._places = 0
        """Of those for long answers, it has one if its answer is long."""
        self._drawn = 0
        self._is_closed = False
        self._room_seconds = KAFKA_ROOM_SECONDS_MAX
        """How much longer it may wait for room."""

    async def draw(self, size: int) -> None:
        """Draw bytes until the request is over; waits for room."""
        drawn = self._drawn + size
        if drawn > KAFKA_ANSWER_BYTES_MAX:
            raise InvalidRequest(
                f"the request and its answer take more than {KAFKA_ANSWER_BYTES_MAX} bytes; ask for"
                " less at once"
            )
        if not self._has_room(drawn):
            await self._wait_for_room(drawn)
        if self._is_closed:  # Another row failed beside this one.
            raise Overloaded("the request has ended")
        self._account.take(ANSWERS, size)
        self._drawn += size

    async def note_answer(self, size: int) -> None:
        """So much of the answer is there: wait for a place if it is a long one."""
        if size > KAFKA_SMALL_ANSWER_BYTES and not self._places:
            await self._wait_for_place()

    async def _wait_for_place(self) -> None:
        self._slices.end()
        await self._long_answers.wait()
        if self._places or self._is_closed:  # Rows that are made side by side wait for it, too.
            self._long_answers.release()
        else:
            self._places = 1
        self._slices.begin()

    def _has_room(self, size: int) -> bool:
        # The reserve of the budget is for what is small.
        return self._account.admits(0 if size <= KAFKA_SMALL_ANSWER_BYTES else size)

    async def _wait_for_room(self, size: int) -> None:
        account, loop = self._account, asyncio.get_running_loop()
        self._slices.end()
        began = loop.time()
        try:
            async with asyncio.timeout(self._room_seconds):
                while not self._has_room(size):
                    has_room = asyncio.Event()
                    account.wait(has_room.set)
                    await has_room.wait()
        except TimeoutError:
            raise Overloaded(
                f"memory is short: {account.budget.held} of {account.budget.bytes_max} bytes are"
                " held; try again later, or raise limits.memory_max"
            ) from None
        finally:
            self._room_seconds -= loop.time() - began
            self._slices.begin()

    def close(self) -> None:
        """The request is over: its connection draws for the answer now, or is lost."""
        self._is_closed = True
        self._account.give_back(ANSWERS, self._drawn)
        if self._places:
            self._long_answers.release()
