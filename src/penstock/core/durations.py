"""Durations as people write them: "250ms", "30s", "5m", "12h", "7d".

A bare number is no duration: whether "30" means seconds or milliseconds is the classic way to be
wrong by a factor of a thousand, so the unit is asked for.
"""

import re
from collections.abc import Mapping

DURATION_UNITS_MS: Mapping[str, int] = {
    "d": 86_400_000,
    "h": 3_600_000,
    "m": 60_000,
    "s": 1_000,
    "ms": 1,
}
_DURATION = re.compile(r"(\d{1,15})(ms|s|m|h|d)")


def read_duration_ms(written: str) -> int:
    """The milliseconds of a duration; raises ValueError if it is none."""
    found = _DURATION.fullmatch(written.replace(" ", ""))
    if found is None:
        raise ValueError("no duration")
    return int(found[1]) * DURATION_UNITS_MS[found[2]]


def format_duration_ms(duration_ms: int) -> str:
    """In the largest unit that divides it: 90000 as "90s", 120000 as "2m"."""
    for unit, factor in DURATION_UNITS_MS.items():
        if duration_ms and duration_ms % factor == 0:
            return f"{duration_ms // factor}{unit}"
    return "0s"
