"""A coalescer of requests: calls that arrive while a request is in flight are sent together in the
next one.

One request at a time, to the leader of one partition. It leaves at the end of a turn of the loop,
so calls of the same turn are part of it, also those of callers that have just got their answer and
call again. A call that is likely to stay alone leaves sooner. As long as the leader is known and
answers, a request costs two calls of functions: one that makes it and one that takes its answer.
Everything else (finding the leader, lingering, trying again) is the work of a task, which is made
only then.

A subclass says what a request is made of, and what to do with its answer.
"""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Coroutine

from penstock.client.connection.channel import Buffer, PreparedRequest
from penstock.client.connection.request_router import RequestRouter
from penstock.core.errors import PenstockError
from penstock.wire.requests import Answer


class Coalescer(ABC):
    """See the top of this module; for one partition."""

    def __init__(self, name: str, index: int, router: RequestRouter) -> None:
        self._name = name
        self._index = index
        self._router = router
        self._loop = router.loop
        self._lingers = False
        """True if a subclass delays requests in a task of its own, so that more calls can join."""
        self._was_alone = False
        """The last request carried one thing only, so the next one is not likely to get company:
        it need not wait for the end of the turn."""
        self._busy = False
        """A request is under way, or about to leave."""
        self._begun = False
        """True from the moment the next request is scheduled until it is built."""
        self._task: asyncio.Task[None] | None = None
        self._rested: asyncio.Future[None] | None = None

    @property
    def is_idle(self) -> bool:
        return not self._busy

    # What a request is.

    @abstractmethod
    def _is_empty(self) -> bool:
        """True if no call waits."""

    @abstractmethod
    def _make(self) -> PreparedRequest | None:
        """The next request, of all that has gathered; None if there is none, or if it was given to
        a task."""

    @abstractmethod
    def _ended(self, outcome: Answer | PenstockError, payload: Buffer) -> None:
        """The request was answered, or not."""

    @abstractmethod
    async def _work(self) -> None:
        """Carry out the next request, however long that takes."""

    @abstractmethod
    def _give_up(self) -> None:
        """Fail all waiting calls: the client is closed."""

    # Going on.

    def _wake(self) -> None:
        """Schedule a request if none is in flight: a call was added."""
        if not self._busy:
            self._busy = True
            self._begin(at_once=self._was_alone)

    def _go_on(self) -> None:
        """Send the waiting calls; no request is in flight."""
        if self._is_empty():
            self._rest()
        else:
            self._begin(at_once=False)

    def _begin(self, *, at_once: bool) -> None:
        """Let the next request be made when it leaves, or else by a task."""
        self._begun = True
        if self._lingers or not self._router.begin(
            self._name, self._index, self._make, self._ended, at_once=at_once
        ):
            self._begun = False
            self._work_on(self._work())

    def _work_on(self, work: Coroutine[object, object, None]) -> None:
        """Let a task carry out what takes longer, and go on after it."""
        self._task = self._loop.create_task(work)
        self._task.add_done_callback(self._worked)

    def _worked(self, task: "asyncio.Task[None]") -> None:
        self._task = None
        if task.cancelled():
            self._give_up()
        self._go_on()

    def _rest(self) -> None:
        self._busy = False
        if self._rested is not None:
            self._rested.set_result(None)
            self._rested = None

    # Ending.

    async def drain(self) -> None:
        """Wait until everything has gone and was answered, or was given up."""
        while self._busy:
            if self._rested is None:
                self._rested = self._loop.create_future()
            await asyncio.wait([self._rested])

    async def close(self) -> None:
        """Stop without sending what waits."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        elif self._busy:
            self._begun = False
            self._give_up()
            self._rest()
