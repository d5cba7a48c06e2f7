"""Durations, as callers give them: seconds as a number, or a `timedelta`.

Inside and on the wire time is counted in whole milliseconds. They are rounded up: a lease or a wait
is at least what was asked for, and a millisecond's half does not become none.
"""

import math
from datetime import timedelta
from typing import TypeAlias

from penstock.core.errors import InvalidRequest

Seconds: TypeAlias = float | timedelta

SECONDS_MAX = 100 * 366 * 24 * 60 * 60
"""A century: a longer duration is likely milliseconds mistaken for seconds."""


def to_milliseconds(duration: Seconds, name: str) -> int:
    """Whole milliseconds; `InvalidRequest`, which calls the duration by its name, if it is none."""
    if type(duration) is float or type(duration) is int:
        seconds: float = duration
    elif isinstance(duration, timedelta):
        seconds = duration.total_seconds()
    else:
        raise InvalidRequest(
            f"{name} is {duration!r}, and a duration is a number of seconds or a timedelta."
        )
    if not 0 <= seconds <= SECONDS_MAX:  # Not a number is not within bounds either.
        raise InvalidRequest(
            f"{name} is {duration!r}, and a duration is from 0 to {SECONDS_MAX} seconds."
        )
    # What a float adds by its last bits is no millisecond: 0.1 * 3 is 300 and not 301.
    return math.ceil(round(seconds * 1000, 6))
