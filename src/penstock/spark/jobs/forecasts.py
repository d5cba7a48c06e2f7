"""Forecasts of a queue, by Little's law and linear extrapolation.

Little (1961): in a system that neither grows nor shrinks, L = λ W: as many messages are in it as
arrive each second times the seconds that each stays. So the depth L and the rate of arrival λ that
are measured give the time W that a message spends here, without looking at a single message.

With a rate of departure μ that differs from λ, the depth moves by λ - μ each second. It is empty
after L / (μ - λ) seconds if more leave than come, and never otherwise. A line is all that two rates
can say: no season and no trend is read into them.
"""

import math
from dataclasses import dataclass
from typing import Final

HORIZONS_SECONDS: Final = (300, 3_600, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """Of one queue, or one group on a topic."""

    depth: int
    arrivals_per_second: float
    departures_per_second: float
    stay_seconds: float | None
    """W = L / λ; None if nothing arrives."""
    drain_seconds: float | None
    """Until it is empty; None: never, as it goes."""
    depth_in_5m: int
    depth_in_1h: int
    depth_in_1d: int


def forecast(depth: int, *, arrivals_per_second: float, departures_per_second: float) -> Forecast:
    """Both rates were measured over the same time."""
    growth = arrivals_per_second - departures_per_second
    soon, later, latest = (max(0, round(depth + growth * at)) for at in HORIZONS_SECONDS)
    return Forecast(
        depth=depth,
        arrivals_per_second=arrivals_per_second,
        departures_per_second=departures_per_second,
        stay_seconds=depth / arrivals_per_second if arrivals_per_second > 0 else None,
        drain_seconds=drain_seconds(depth, growth),
        depth_in_5m=soon,
        depth_in_1h=later,
        depth_in_1d=latest,
    )


def drain_seconds(depth: int, growth_per_second: float) -> float | None:
    """Until a queue is empty that grows so fast; None if it never is."""
    if depth <= 0:
        return 0.0
    if growth_per_second >= 0 or math.isclose(growth_per_second, 0.0, abs_tol=1e-9):
        return None
    return depth / -growth_per_second
