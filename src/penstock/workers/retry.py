"""The delay before a failed message is tried again, by the kind of failure.

A policy is a table from exception types to rules. The most derived type that is in the table
counts, as with `except` clauses that are in the right order:

    Retry(
        on={ConnectionError: exponential(2, cap=300), ValueError: dead},
        default=jittered(2),
    )

A rule is `dead` (to the dead letters at once), `broker` (wait as the queue itself is set), or a
delay: a function of the number of deliveries so far and a source of chance that returns seconds.
These are the usual ones; n is 1 after the first failure:

    fixed(5)          5, 5, 5 …
    linear(5)         5, 10, 15 …
    exponential(2)    2, 4, 8, 16 …           min(cap, unit · baseⁿ + U(0, spread))
    jittered(2)       2–4, 3–8, 6–16 …        between ⅜ and all of 2 · baseⁿ, never under base

Jitter is the default because failures come together: an outage hits all
workers, and without jitter all retries come in the same moment. Randomness is handed in, so a test
that seeds it knows every delay.

The policy decides about one failure. The queue's own `deliveries_max` counts on beside it and ends
in the dead letters whatever the policy says.
"""

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Final

from penstock.core.errors import InvalidBody
from penstock.core.limits import DEAD_REASON_CHARACTERS_MAX
from penstock.workers.verdicts import NonRetryable, Reject, RetryLater

Delay = Callable[[int, random.Random], float]
"""Deliveries so far (1 after the first failure) and chance to seconds."""

CAP_SECONDS = 300.0
"""Five minutes: a dependency that is back is noticed, and one that is not is left alone."""
_DOUBLINGS_MAX = 64


class Rule(Enum):
    """Rules other than a delay."""

    DEAD = "dead"
    BROKER = "broker"


dead: Final = Rule.DEAD
"""No retry can cure it: to the dead letters."""
broker: Final = Rule.BROKER
"""Wait as long as the queue's own `retry` and `retry_delay` say."""


@dataclass(frozen=True, slots=True)
class Again:
    """The message is delivered again; a delay of None is the queue's own."""

    delay: float | None


@dataclass(frozen=True, slots=True)
class Refused:
    """The message goes to the dead letters."""

    reason: str


Decision = Again | Refused


def fixed(seconds: float = 5.0) -> Delay:
    """Return the same delay every time."""
    return lambda _deliveries, _chance: seconds


def linear(seconds: float = 5.0, *, cap: float = CAP_SECONDS) -> Delay:
    """A wait that grows by the same amount every time."""
    return lambda deliveries, _chance: min(cap, seconds * deliveries)


def exponential(
    base: float = 2.0, *, unit: float = 1.0, cap: float = CAP_SECONDS, spread: float = 0.0
) -> Delay:
    """A wait that grows by a factor, and a little chance on top if `spread` is given."""

    def delay(deliveries: int, chance: random.Random) -> float:
        exact = unit * base ** min(deliveries, _DOUBLINGS_MAX)
        return min(cap, exact + chance.uniform(0.0, spread))

    return delay


def jittered(base: float = 2.0, *, cap: float = CAP_SECONDS) -> Delay:
    """The exponential wait, drawn from so wide a range that retries spread out."""

    def delay(deliveries: int, chance: random.Random) -> float:
        longest = min(cap, 2.0 * base ** min(deliveries, _DOUBLINGS_MAX))
        shortest = min(longest, max(base, longest * 3 / 8))
        return chance.uniform(shortest, longest)

    return delay


@dataclass(frozen=True, slots=True)
class Retry:
    """The delay before a failed message is tried again, by the kind of failure.

    `on` maps exception types to a delay, to `dead` (to the dead letters at once) or to `broker`
    (as the queue is set); the most derived type counts, and `default` is for all others. The
    queue's own limit of deliveries counts beside it.

        Retry(on={ConnectionError: exponential(2, cap=300), ValueError: dead}, default=jittered(2))
    """

    on: Mapping[type[Exception], Delay | Rule] = field(default_factory=dict)
    default: Delay | Rule = field(default_factory=jittered)
    deliveries_max: int | None = None
    """The number of deliveries after which to give up, if it is lower than the queue's own. None:
    only the queue's counts."""

    def decide(self, error: BaseException, deliveries: int, chance: random.Random) -> Decision:
        """Decide on a message whose delivery ended with this error."""
        if isinstance(error, RetryLater):
            return Again(error.delay)
        if isinstance(error, Reject):
            return Refused(_short(error.reason))
        if isinstance(error, NonRetryable):
            return Refused(reason_of(error))
        if isinstance(error, InvalidBody) and InvalidBody not in self.on:
            return Refused(reason_of(error))  # It will not be better the next time.
        rule = self._rule(error)
        if rule is Rule.DEAD:
            return Refused(reason_of(error))
        if self.deliveries_max is not None and deliveries >= self.deliveries_max:
            return Refused(_short(f"gave up after {deliveries} deliveries: {reason_of(error)}"))
        if rule is Rule.BROKER:
            return Again(None)
        return Again(max(0.0, rule(deliveries, chance)))

    def _rule(self, error: BaseException) -> Delay | Rule:
        for kind in type(error).__mro__:
            if kind in self.on:
                return self.on[kind]
        return self.default


def reason_of(error: BaseException) -> str:
    """An error as the dead-letter queue shows it: its type and the first line of its text."""
    lines = str(error).strip().splitlines()
    return _short(f"{type(error).__name__}: {lines[0]}" if lines else type(error).__name__)


def _short(reason: str) -> str:
    return reason[:DEAD_REASON_CHARACTERS_MAX]
