"""A place in a log as people write it: where to begin to read, and where a group is to go on.

    start      the oldest message there is             (also: earliest, beginning)
    end        what comes from now on                  (also: latest)
    -10        the last ten of each partition
    +5         the oldest but five of each partition
    17         offset 17
    @TIME      the first message of this time or later: @2026-01-31, @2026-01-31T09:30:00Z,
               @1700000000000 (milliseconds since 1970), @-1h (an hour ago)

The words are those of kcat and rpk. A time is found by the broker; everything else follows from
where a partition begins and ends.
"""

import datetime as dt
from enum import Enum, auto

import msgspec

from penstock.core.durations import read_duration_ms

ALLOWED = "start, end, -10, +5, an offset, or a time such as @2026-01-31T09:30:00Z or @-1h"
DIGITS_MAX = 18

_WORDS = {"start": 0, "earliest": 0, "beginning": 0}
_END_WORDS = ("end", "latest")


class Anchor(Enum):
    """The point that a place is relative to."""

    START = auto()
    END = auto()
    ZERO = auto()
    TIME = auto()


class Place(msgspec.Struct, frozen=True, kw_only=True):
    """A place in every partition of a topic."""

    anchor: Anchor
    number: int = 0
    """The distance from the anchor; for a time, milliseconds since 1970."""

    def offset_in(self, *, start: int, end: int) -> int:
        """The offset in a partition with these bounds; never outside of them."""
        assert self.anchor is not Anchor.TIME, "the broker finds a time"
        origin = {Anchor.START: start, Anchor.END: end, Anchor.ZERO: 0}[self.anchor]
        return max(start, min(end, origin + self.number))

    @property
    def time(self) -> dt.datetime:
        """The moment that a place of this kind names, in UTC."""
        assert self.anchor is Anchor.TIME
        return dt.datetime.fromtimestamp(self.number / 1_000, dt.UTC)


def parse_place(written: str, now_ms: int) -> Place:
    """Parse a place; raise ValueError if it is malformed."""
    if written in _WORDS:
        return Place(anchor=Anchor.START)
    if written in _END_WORDS:
        return Place(anchor=Anchor.END)
    if written.startswith("@"):
        return Place(anchor=Anchor.TIME, number=parse_moment_ms(written[1:], now_ms))
    if written.startswith("-"):
        return Place(anchor=Anchor.END, number=-_number(written[1:]))
    if written.startswith("+"):
        return Place(anchor=Anchor.START, number=_number(written[1:]))
    return Place(anchor=Anchor.ZERO, number=_number(written))


def parse_moment_ms(written: str, now_ms: int) -> int:
    """Parse a moment, in milliseconds since 1970: an ISO time, in UTC unless it has an offset, such
    a number itself, or a duration ago as in "-1h"."""
    if written.startswith("-"):
        return now_ms - read_duration_ms(written[1:])
    if written.isascii() and written.isdecimal() and len(written) > 8:
        return _number(written)  # Shorter ones are dates: 20260131.
    time = dt.datetime.fromisoformat(written)
    if time.tzinfo is None:
        time = time.replace(tzinfo=dt.UTC)
    return int(time.timestamp() * 1_000)


def _number(written: str) -> int:
    if not (written.isascii() and written.isdecimal() and len(written) <= DIGITS_MAX):
        raise ValueError("no number")
    return int(written)
