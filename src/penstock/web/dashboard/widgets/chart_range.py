"""The time range of the charts on a page: `?range=6h` in the address."""

from collections.abc import Mapping

import msgspec
from starlette.requests import Request

DEFAULT_RANGE = "15m"
RANGES: Mapping[str, int] = {"15m": 900, "1h": 3_600, "6h": 21_600, "1d": 86_400, "7d": 604_800}
"""The ranges in seconds."""


class ChartRange(msgspec.Struct, frozen=True):
    """The chosen one, and all of them."""

    name: str
    seconds: int
    names: tuple[str, ...] = tuple(RANGES)


def chart_range(request: Request) -> ChartRange:
    """Return the range that the address selects."""
    name = request.query_params.get("range", DEFAULT_RANGE)
    name = name if name in RANGES else DEFAULT_RANGE
    return ChartRange(name, RANGES[name])
