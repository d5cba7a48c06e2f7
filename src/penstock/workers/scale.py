"""The number of workers that a queue needs, by Little's law.

L = λ·W: messages that arrive at a rate λ and take W seconds each keep λ·W workers busy. That holds
the queue as long as it is. To work off what has piled up within `target_seconds`, as many more are
needed as the backlog takes of that time:

    wanted = ⌈ λ·W  +  backlog·W / target_seconds ⌉        between minimum and maximum

Lag is what counts, not load: a queue whose oldest message is older than the target gets at least
one more worker, even if the arithmetic, which knows only averages, does not see why.

More workers come at once; fewer only after the wish has held for `cool_down` seconds, and only if
it is well below (`hysteresis`) what there is. A burst is answered in one step and does not make the
number dance.
"""

import math
from dataclasses import dataclass, field

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest

WORKERS_MAX = 10_000


@dataclass(frozen=True, slots=True)
class Load:
    """A reading of a queue and of its workers."""

    arrival_rate: float
    """Messages per second."""
    service_seconds: float
    """The time that a worker needs for one message; 0 if it is not known yet."""
    backlog: int
    """The number of waiting messages."""
    oldest_seconds: float | None = None
    """The age of the oldest that waits."""


@dataclass(frozen=True, slots=True)
class Scaling:
    """The number of workers follows the load, between `minimum` and `maximum`: as many as keep up
    with what arrives and work off the backlog within `target_seconds`.

    More come at once, fewer only after `cool_down` seconds in which fewer were enough.

        @app.worker("pictures", scaling=Scaling(minimum=1, maximum=20))
    """

    minimum: int = 1
    maximum: int = 10
    target_seconds: float = 10.0
    """Within this time a backlog should be worked off."""
    hysteresis: float = 0.2
    """Go down only if this part, or more, of the workers is not needed."""
    cool_down: float = 30.0
    """Seconds for which fewer must have been enough."""
    interval: float = 5.0
    """The interval between measurements of the load."""

    def __post_init__(self) -> None:
        if not 1 <= self.minimum <= self.maximum <= WORKERS_MAX:
            raise InvalidRequest(
                f"{self.minimum} to {self.maximum} workers is no range within 1 to {WORKERS_MAX}"
            )
        positive = self.target_seconds > 0 and self.interval > 0
        if not positive or not 0 <= self.hysteresis < 1 or self.cool_down < 0:
            raise InvalidRequest(
                f"{self} is invalid: target_seconds is more than 0, hysteresis from 0 to below 1,"
                " interval more than 0, and cool_down not negative"
            )

    def wanted(self, load: Load, current: int) -> int:
        """The number of workers for this load, regardless of the current number."""
        steady = load.arrival_rate * load.service_seconds
        catching_up = load.backlog * load.service_seconds / self.target_seconds
        count = math.ceil(round(steady + catching_up, 6))
        late = load.oldest_seconds is not None and load.oldest_seconds > self.target_seconds
        if load.backlog and late:
            count = max(count, current + 1)
        return min(self.maximum, max(self.minimum, count))


@dataclass(slots=True)
class Gauge:
    """Turns counts that only grow into rates: how much came since it was last read."""

    _before: tuple[float, int] | None = None

    def read(
        self,
        at: float,
        *,
        sent: int,
        service_seconds: float,
        backlog: int,
        oldest_seconds: float | None,
    ) -> Load | None:
        """The load at a time, by any clock in seconds; None the first time."""
        before, self._before = self._before, (at, sent)
        if before is None or at <= before[0]:
            return None
        return Load(
            arrival_rate=max(0, sent - before[1]) / (at - before[0]),
            service_seconds=service_seconds,
            backlog=backlog,
            oldest_seconds=oldest_seconds,
        )


@dataclass(slots=True)
class Scaler:
    """A scaling at work: it remembers since when fewer would do."""

    scaling: Scaling
    clock: Clock = field(default_factory=SystemClock)
    _lower_since_ms: int | None = None
    _most_wanted: int = 0

    def next_count(self, load: Load, current: int) -> int:
        """The new number of workers."""
        wanted = self.scaling.wanted(load, current)
        clearly_less = wanted < current and wanted <= current * (1 - self.scaling.hysteresis)
        if wanted >= current or not clearly_less:
            self._lower_since_ms = None
            if wanted > current:
                return wanted
            return min(self.scaling.maximum, max(self.scaling.minimum, current))
        now_ms = self.clock.monotonic_ms()
        if self._lower_since_ms is None:
            self._lower_since_ms, self._most_wanted = now_ms, wanted
        self._most_wanted = max(self._most_wanted, wanted)
        if now_ms - self._lower_since_ms < self.scaling.cool_down * 1_000:
            return current
        self._lower_since_ms = None
        return self._most_wanted
