"""How long to wait before the next attempt.

Each wait is longer than the one before, up to a cap, and drawn at random from its upper half: so
that clients which failed together do not come back together, and none comes back at once. What the
broker asks for (`retry_after_ms`) is waited at least. No clock and no loop: whoever asks sleeps
himself, and one who hands in a seeded `Random` gets the same waits every time.
"""

from random import Random

from penstock.core.errors import Unavailable

FIRST_SECONDS = 0.05
FACTOR = 2.0
CAP_SECONDS = 2.0


class Backoff:
    """The waits of one call, or of one connection, from its first failure to its next success."""

    def __init__(
        self,
        *,
        random: Random,
        first: float = FIRST_SECONDS,
        factor: float = FACTOR,
        cap: float = CAP_SECONDS,
    ) -> None:
        assert 0 < first <= cap, f"first {first} must be positive and at most the cap {cap}"
        assert factor >= 1, f"factor {factor} must not shrink the wait"
        self._random = random
        self._first = first
        self._factor = factor
        self._cap = cap
        self._upper = first
        self.attempts = 0
        """How often a wait was asked for since the last success."""

    def next(self, problem: BaseException | None = None) -> float:
        """Seconds to wait now, after `problem`: what it asks for counts as the least.

        A broker's wish is honoured beyond the cap, and has its own jitter on top, since the broker
        tells every client the same.
        """
        self.attempts += 1
        upper = self._upper
        self._upper = min(self._cap, upper * self._factor)
        wait = upper * (0.5 + self._random.random() / 2)
        if isinstance(problem, Unavailable) and problem.retry_after_ms > 0:
            least = problem.retry_after_ms / 1000
            if wait < least:
                wait = least + upper * self._random.random() / 2
        return wait

    def reset(self) -> None:
        """It worked: the next failure is a first one."""
        self._upper = self._first
        self.attempts = 0
