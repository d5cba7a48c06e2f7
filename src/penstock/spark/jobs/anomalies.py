"""Detection of numbers in a series that differ from those just before them.

The measure is the robust z-score of Iglewicz and Hoaglin (1993): 0.6745 (x - median) / MAD, where
MAD is the median distance from the median. Mean and standard deviation would not do: one outlier
moves both, and hides itself and the next one.

Each number is held against the `trailing` ones before it and never against itself or later ones, so
a flag can be raised when the window closes. Where they are all equal the MAD is 0, and any change
would be infinitely odd; so the spread is never taken as less than what counting alone makes (the
square root of the median, as of a Poisson process), nor as less than one.
"""

from collections.abc import Sequence
from typing import Final

import numpy as np

TRAILING: Final = 30
LEAST: Final = 5
"""Fewer numbers before it than this, and a number is not judged."""
ODD: Final = 3.5
_TO_SIGMA: Final = 1.4826
"""A normal distribution's standard deviation in MADs."""


def robust_scores(values: Sequence[float], trailing: int = TRAILING) -> list[float | None]:
    """Return the deviation of each number in standard deviations; None where too few numbers
    precede it."""
    numbers = np.asarray(values, dtype=float)
    scores: list[float | None] = []
    for at, value in enumerate(numbers):
        before = numbers[max(0, at - trailing) : at]
        if len(before) < LEAST:
            scores.append(None)
            continue
        median = float(np.median(before))
        spread = _TO_SIGMA * float(np.median(np.abs(before - median)))
        spread = max(spread, float(np.sqrt(abs(median))), 1.0)
        scores.append(float((value - median) / spread))
    return scores
