"""Retries: attempts until a deadline, with exponential back-off and jitter between them.

    retries = retrier.within(5.0, LEADER)
    while True:
        try:
            return await ask()
        except Unavailable as error:
            if not await retries.pause(error):
                raise

Each pause is twice as long as the one before, up to a cap, and drawn at random from its upper half
("equal jitter": Brooker, "Exponential Backoff And Jitter", AWS 2015). So callers that failed
together do not come back together (a thundering herd), and none comes back at once. What a broker
asks for (`retry_after_ms`) is waited at least.

Clock, randomness and sleep are handed in: a test that seeds the one and moves the others knows
every pause. Threads without a loop ask `next` and sleep by themselves.
"""

from collections.abc import Awaitable, Callable
from typing import Final, NamedTuple, Protocol

from penstock.core.errors import Unavailable
from penstock.core.limits import (
    CALL_PAUSE_SECONDS,
    CALL_PAUSE_SECONDS_MAX,
    LEADER_PAUSE_SECONDS,
    LEADER_PAUSE_SECONDS_MAX,
    POLL_PAUSE_SECONDS,
    POLL_PAUSE_SECONDS_MAX,
    REPAIR_PAUSE_SECONDS,
    REPAIR_PAUSE_SECONDS_MAX,
)

NO_DEADLINE: Final = float("inf")


class JitterSource(Protocol):
    """A source of randomness; `random.Random` is one."""

    def random(self) -> float:
        """A number from 0 up to, but without, 1."""
        ...


class PauseBounds(NamedTuple):
    """The first pause after a failure and the longest one, in seconds."""

    first: float
    longest: float


POLL: Final = PauseBounds(POLL_PAUSE_SECONDS, POLL_PAUSE_SECONDS_MAX)
LEADER: Final = PauseBounds(LEADER_PAUSE_SECONDS, LEADER_PAUSE_SECONDS_MAX)
CALL: Final = PauseBounds(CALL_PAUSE_SECONDS, CALL_PAUSE_SECONDS_MAX)
REPAIR: Final = PauseBounds(REPAIR_PAUSE_SECONDS, REPAIR_PAUSE_SECONDS_MAX)


class Backoff:
    """The pauses of one call, or of one connection, from its first failure to its next success."""

    __slots__ = ("_bounds", "_random", "_upper", "attempts")

    def __init__(self, bounds: PauseBounds = CALL, *, random: JitterSource) -> None:
        assert 0 < bounds.first <= bounds.longest, f"pauses cannot grow within {bounds}"
        self._bounds = bounds
        self._random = random
        self._upper = bounds.first
        self.attempts = 0
        """The number of failed attempts since the last success."""

    def next(self, problem: BaseException | None = None) -> float:
        """Seconds to wait now, after `problem`: what it asks for counts as the least.

        A broker's wish is honoured beyond the cap, and has its own jitter on top, since the broker
        tells every client the same.
        """
        self.attempts += 1
        upper = self._upper
        self._upper = min(self._bounds.longest, upper * 2)
        wait = upper * (0.5 + self._random.random() / 2)
        if isinstance(problem, Unavailable) and problem.retry_after_ms > 0:
            least = problem.retry_after_ms / 1000
            if wait < least:
                wait = least + upper * self._random.random() / 2
        return wait

    def reset(self) -> None:
        """Start again with the first pause, after a success."""
        self._upper = self._bounds.first
        self.attempts = 0


class Retrier:
    """Makes the retries of one process or client: its clock, its randomness and its sleep."""

    __slots__ = ("now", "random", "sleep")

    def __init__(
        self,
        *,
        now: Callable[[], float],
        random: JitterSource,
        sleep: Callable[[float], Awaitable[object]],
    ) -> None:
        self.now = now
        """A monotonic clock in seconds."""
        self.random = random
        self.sleep = sleep

    def within(self, seconds: float, bounds: PauseBounds = CALL) -> "Retries":
        """Return retries that begin now and end after `seconds`."""
        return Retries(self, bounds, deadline=self.now() + seconds)

    def until(self, deadline: float, bounds: PauseBounds = CALL) -> "Retries":
        """Retries that end at a time of the clock."""
        return Retries(self, bounds, deadline=deadline)

    def times(self, attempts_max: int, bounds: PauseBounds = CALL) -> "Retries":
        """Return retries that allow `attempts_max` attempts, including the first."""
        return Retries(self, bounds, attempts_max=attempts_max)

    def endless(self, bounds: PauseBounds = CALL) -> "Retries":
        """Return retries without an end, for an operation that has no alternative, such as founding
        a cluster."""
        return Retries(self, bounds)


class Retries:
    """The attempts of one call."""

    __slots__ = ("_attempts_max", "_backoff", "_deadline", "_retrier")

    def __init__(
        self,
        retrier: Retrier,
        bounds: PauseBounds,
        *,
        deadline: float = NO_DEADLINE,
        attempts_max: int = 0,
    ) -> None:
        self._retrier = retrier
        self._backoff = Backoff(bounds, random=retrier.random)
        self._deadline = deadline
        self._attempts_max = attempts_max

    @property
    def left(self) -> float:
        """Seconds until the deadline; negative behind it."""
        return self._deadline - self._retrier.now()

    def next(self, problem: BaseException | None = None) -> float | None:
        """Seconds to wait before the next attempt; None if this was the last one, or the deadline
        would pass meanwhile."""
        wait = self._backoff.next(problem)
        if self._backoff.attempts == self._attempts_max or wait >= self.left:
            return None
        return wait

    async def pause(self, problem: BaseException | None = None) -> bool:
        """Wait for the next attempt; False, at once, if there is none."""
        wait = self.next(problem)
        if wait is None:
            return False
        await self._retrier.sleep(wait)
        return True

    def reset(self) -> None:
        """Start again with the first pause, after a success. The deadline stays."""
        self._backoff.reset()
