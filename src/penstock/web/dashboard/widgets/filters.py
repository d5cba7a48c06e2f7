"""The filters and functions of the templates: formats of numbers, times and names.

What is not known is a dash, never a zero. Times are UTC, as in logs; how long ago something was is
said in the two largest units, as people do.

`cell` and `spark` are functions and not macros, because they stand on a page hundreds of times and
a macro of a template costs five times as much. An open page is asked for every two seconds.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import lru_cache
from html import escape
from urllib.parse import quote

import msgspec

from penstock.core.decoders import UNREADABLE

UNKNOWN = "–"
_UNITS = (("d", 86_400_000), ("h", 3_600_000), ("min", 60_000), ("s", 1_000))
_SHORT_AGE = {"s": 180, "min": 120, "h": 72}
"""The largest number that is shown in each unit."""
_SIZES = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHORT = ("", "k", "M", "G")


def number(value: float | None) -> str:
    """12345 as 12,345; of a fraction, only what matters."""
    if value is None:
        return UNKNOWN
    if isinstance(value, int) or value == int(value):
        return f"{int(value):,}"
    return f"{value:,.1f}" if abs(value) < 100 else f"{value:,.0f}"


def short_number(value: float | None) -> str:
    """12345 as 12.3k, for where there is little room."""
    if value is None:
        return UNKNOWN
    size, power = float(value), 0
    while abs(size) >= 999.5 and power < len(_SHORT) - 1:
        size, power = size / 1_000, power + 1
    if power == 0:
        return number(value)
    return f"{size:.1f}{_SHORT[power]}" if abs(size) < 99.95 else f"{size:.0f}{_SHORT[power]}"


def rate(value: float | None) -> str:
    """Format a rate per second."""
    if value is None:
        return UNKNOWN
    if value == 0:
        return "0/s"
    if value < 0.1:
        return "<0.1/s"
    return f"{value:.1f}/s" if value < 10 else f"{short_number(round(value))}/s"


def age(ms: float | None) -> str:
    """Format a duration in its two largest units: 3 min 20 s."""
    if ms is None or ms < 0:
        return UNKNOWN
    if ms < 1_000:
        return "0 s" if ms < 1 else f"{ms / 1_000:.1f} s"
    for place, (unit, size) in enumerate(_UNITS):
        if ms >= size:
            whole, rest = divmod(int(ms), size)
            if place + 1 < len(_UNITS) and rest >= _UNITS[place + 1][1]:
                return f"{whole} {unit} {rest // _UNITS[place + 1][1]} {_UNITS[place + 1][0]}"
            return f"{whole} {unit}"
    raise AssertionError(f"{ms} ms has no unit")


def short_age(ms: float | None) -> str:
    """Format a duration in one unit, for narrow columns: 200 s, 75 min, 30 h."""
    if ms is None or ms < 0:
        return UNKNOWN
    if ms < 1_000:
        return "<1 s"
    for unit, size in reversed(_UNITS):
        if ms < size * _SHORT_AGE.get(unit, math.inf):
            return f"{int(ms / size)} {unit}"
    raise AssertionError(f"{ms} ms has no unit")


def moment(ms: float | None) -> str:
    """A time of day with its date: 2026-01-31 12:00:05."""
    return UNKNOWN if ms is None or ms <= 0 else f"{_moment(ms):%Y-%m-%d %H:%M:%S}"


def clock(ms: float | None) -> str:
    """Format a time of day: 12:00:05."""
    return UNKNOWN if ms is None or ms <= 0 else f"{_moment(ms):%H:%M:%S}"


def machine_moment(ms: float) -> str:
    """For the `datetime` of a `<time>`."""
    return _moment(ms).isoformat(timespec="milliseconds")


def size(count: float | None) -> str:
    """Bytes, in the unit that fits."""
    if count is None:
        return UNKNOWN
    value, unit = float(count), 0
    while value >= 1_024 and unit < len(_SIZES) - 1:
        value, unit = value / 1_024, unit + 1
    return f"{int(value)} B" if unit == 0 else f"{value:.1f} {_SIZES[unit]}"


def share(value: float | None) -> str:
    """A part of a whole: 0.5 as 50 %."""
    if value is None:
        return UNKNOWN
    return f"{value * 100:.0f} %" if value == 0 or value >= 0.1 else f"{value * 100:.1f} %"


def count_of(count: int, one: str, many: str = "") -> str:
    """Format a count with its noun: 1 queue, 2 queues."""
    return f"{number(count)} {one if count == 1 else many or one + 's'}"


def details(text: str) -> str:
    """The details of an order, for people: `{"max": 10, "dry_run": true}` as `max 10, dry run
    yes`. What is cut off, or no JSON, stays as it is."""
    try:
        return _plain(msgspec.json.decode(text)) if text else ""
    except UNREADABLE:
        return text


def _plain(value: object, within: bool = False) -> str:
    match value:
        case dict():
            parts = [
                f"{str(name).replace('_', ' ')} {_plain(one, True)}" for name, one in value.items()
            ]
        case list():
            parts = [_plain(one, True) for one in value]
        case bool():
            return "yes" if value else "no"
        case None:
            return UNKNOWN
        case _:
            return str(value)
    return f"({', '.join(parts)})" if within else ", ".join(parts)


def segment(name: object) -> str:
    """A name as one part of a path."""
    return quote(str(name), safe="")


def curve(points: Sequence[float], width: int = 96, height: int = 24) -> str:
    """The `points` of a small line that shows how something went; empty if there is too little.
    It starts at zero unless it is below, so that a line at the bottom is nothing.

    A page has dozens of these, most of queues of which nothing has changed: they are remembered."""
    return "" if len(points) < 2 else _curve(tuple(points), width, height)


@lru_cache(1_024)
def _curve(points: tuple[float, ...], width: int, height: int) -> str:
    low, high = min(0.0, *points), max(points)
    inner = height - 3
    scale = inner / ((high - low) or 1.0)
    bottom = 1.5 + inner + low * scale
    places = _places(len(points), width)
    return " ".join(
        [
            f"{place},{bottom - value * scale:.1f}"
            for place, value in zip(places, points, strict=True)
        ]
    )


@lru_cache(64)
def _places(count: int, width: int) -> tuple[str, ...]:
    """The x coordinates of the points of a line."""
    return tuple(f"{place * width / (count - 1):.1f}" for place in range(count))


def _moment(ms: float) -> datetime:
    return datetime.fromtimestamp(ms / 1_000, UTC)


_HOW: Mapping[str, Callable[[float | None], str]] = {
    "number": number,
    "rate": rate,
    "age": age,
    "size": size,
}
_BEFORE = (
    '<svg class="spark" viewBox="0 0 96 24" preserveAspectRatio="none" aria-hidden="true">'
    '<polyline points="'
)
_AFTER = '"/></svg>'


class Html(str):
    """Text that is HTML already: templates put it into a page as it is."""

    __slots__ = ()

    def __html__(self) -> str:
        return self


def cell(value: float | None, how: str = "number") -> Html:
    """A number in a table; nothing is written softly. How: number, rate, age or size."""
    return Html(f'<td class="number{"" if value else " none"}">{escape(_HOW[how](value))}</td>')


def spark(points: Sequence[float]) -> Html:
    """A small line; nothing if there is too little to draw."""
    line = curve(points)
    return Html(f"{_BEFORE}{line}{_AFTER}" if line else "")
