"""Numbers as people write and read them on the command line: rates, sizes, times, money.

What is read is exact and has one meaning; what is shown has three digits, since no plan needs
four. A time without a unit is in seconds, as everywhere in the Python interface; the broker's own
settings, which are older, want the unit.
"""

import math

from cyclopts import CycloptsError

from penstock.core.limits import GIB, KIB, MIB
from penstock.server.notation import parse_duration_ms, parse_size

TIB = GIB << 10
_TIMES = ((172_800.0, 86_400.0, "d"), (3_600.0, 3_600.0, "h"), (120.0, 60.0, "min"))
"""For each unit, the smallest time shown in it, and its length."""
_SMALL_TIMES = ((1.0, 1.0, "s"), (1e-3, 1e3, "ms"), (1e-6, 1e6, "µs"))


def parse_seconds(flag: str, written: str) -> float:
    """Seconds from "0.2", "200ms", "10s" or "7d"."""
    try:
        found = float(written)
    except ValueError:
        try:
            return parse_duration_ms(written) / 1_000
        except ValueError as error:
            raise CycloptsError(
                msg=f'{flag} = "{written}" must be a time such as 0.2 (seconds), 200ms, 10s or 7d.'
            ) from error
    if not math.isfinite(found) or found < 0:
        raise CycloptsError(msg=f'{flag} = "{written}" must be a time of 0 or more.')
    return found


def parse_bytes(flag: str, written: str) -> int:
    """Bytes from "100", "1KiB" or "64MiB"."""
    try:
        return parse_size(written)
    except ValueError as error:
        raise CycloptsError(
            msg=f'{flag} = "{written}" must be a size such as 100, 1KiB or 64MiB.'
        ) from error


def show_time(seconds: float) -> str:
    """Format a time, as `1.5 ms`, `10 s`, `2.1 h`."""
    if math.isinf(seconds):
        return "for ever"
    for least, length, unit in _TIMES:
        if seconds >= least:
            return f"{_digits(seconds / length)} {unit}"
    for shortest, factor, unit in _SMALL_TIMES:
        if seconds >= shortest:
            return f"{_digits(seconds * factor)} {unit}"
    return "0 s" if seconds < 1e-9 else f"{_digits(seconds * 1e9)} ns"


def show_size(size_bytes: float) -> str:
    """`1.5 GiB`."""
    for unit, length in (("TiB", TIB), ("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if size_bytes >= length:
            return f"{_digits(size_bytes / length)} {unit}"
    return f"{size_bytes:.0f} B"


def show_count(value: float) -> str:
    """`1,429`, `36.0 M`: whole below a million, since workers and partitions are."""
    for length, unit in ((1e12, "T"), (1e9, "G"), (1e6, "M")):
        if value >= length:
            return f"{_digits(value / length)} {unit}"
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.2g}"


def show_money(dollars: float) -> str:
    """Format an amount of money, as `$875,000`, `$0.42`."""
    return f"${dollars:,.0f}" if abs(dollars) >= 100 else f"${dollars:,.2f}"


def _digits(value: float) -> str:
    """Three, and no point where it would be the last."""
    if value >= 100:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if value >= 10 else f"{value:.2f}".removesuffix(".00")
