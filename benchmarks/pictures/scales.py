"""From a number to a place on the sheet, where the marks go, and how numbers are written."""

import math
from collections.abc import Callable

Scale = Callable[[float], float]

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)


def linear(high: float, begin: float, end: float) -> Scale:
    """0 is at `begin` and `high` at `end`."""
    assert high > 0, f"a scale from 0 to {high} has no length"
    return lambda value: begin + (end - begin) * value / high


def logarithmic(low: float, high: float, begin: float, end: float) -> Scale:
    """`low` is at `begin` and `high` at `end`; what lies outside is put at the edge."""
    assert 0 < low < high, f"no logarithm from {low} to {high}"
    span = math.log(high / low)

    def scale(value: float) -> float:
        inside = min(max(value, low), high)
        return begin + (end - begin) * math.log(inside / low) / span

    return scale


def ticks(high: float, about: int = 4) -> list[float]:
    """Round numbers from 0 up to `high`, or the next one above it."""
    assert high > 0, f"no marks from 0 to {high}"
    raw = high / about
    size: float = 10 ** math.floor(math.log10(raw))
    step = next(size * one for one in _STEPS if size * one >= raw * (1 - 1e-9))
    count = math.ceil(high / step - 1e-9)
    return [round(step * number, 10) for number in range(count + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """1, 2, 5, 10, … from the last at or below `low` to the first at or above `high`."""
    assert 0 < low <= high, f"no marks from {low} to {high}"
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    marks = [
        round(one * 10**power, max(0, -power))
        for power in range(first, last + 1)
        for one in (1, 2, 5)
    ]
    begin = max(place for place, mark in enumerate(marks) if mark <= low * (1 + 1e-9))
    end = min(place for place, mark in enumerate(marks) if mark >= high * (1 - 1e-9))
    return marks[begin : max(end, begin + 1) + 1]


def short(value: float) -> str:
    """Three digits: `1.65 M`, `783 k`, `5.4`, `0.083`."""
    for unit, one in ((" M", 1e6), (" k", 1e3)):
        if value >= one * 0.9995:
            return f"{_three(value / one)}{unit}"
    return _three(value)


def _three(value: float) -> str:
    if value <= 0:
        return "0"
    value = float(f"{value:.3g}")
    text = f"{value:.{max(0, 2 - math.floor(math.log10(value) + 1e-12))}f}"
    return text.rstrip("0").rstrip(".") if "." in text and value < 1 else text
