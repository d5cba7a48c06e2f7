"""When somebody looks and when nobody does: stretches of time in turns, agreed on beforehand.

The one who sends goes on all the time and knows nothing of this; the onlooker looks in his
stretches; whoever measures cuts what the others have noted down at the same places. All of them are
processes of one machine and share its monotonic clock.
"""

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

QUIET, OBSERVED = "quiet", "observed"


class Mark(NamedTuple):
    """How much there was of something that only grows, at a time."""

    at: float
    """Seconds by the monotonic clock."""
    total: float


@dataclass(frozen=True, slots=True)
class Stretch:
    """From a time to another."""

    way: str
    begin: float
    end: float


def in_turns(first: float, seconds: float, pairs: int) -> list[Stretch]:
    """Neighbours are a pair, and every other pair is turned round: what gets slower by itself does
    so for both."""
    ways = [
        way
        for number in range(pairs)
        for way in ((QUIET, OBSERVED) if number % 2 else (OBSERVED, QUIET))
    ]
    return [
        Stretch(way, first + number * seconds, first + (number + 1) * seconds)
        for number, way in enumerate(ways)
    ]


def paired(grown: Sequence[tuple[Stretch, float]]) -> Iterator[dict[str, float]]:
    """What was measured in stretches, by pairs and then by ways."""
    for one, other in zip(grown[::2], grown[1::2], strict=True):
        yield {one[0].way: one[1], other[0].way: other[1]}


def growth(marks: Sequence[Mark], stretch: Stretch) -> float:
    """By how much something grew within a stretch; between two marks it grew evenly."""
    return _total_at(marks, stretch.end) - _total_at(marks, stretch.begin)


def _total_at(marks: Sequence[Mark], at: float) -> float:
    place = bisect_left(marks, at, key=lambda mark: mark.at)
    assert 0 < place < len(marks), "nobody took marks at that time"
    before, after = marks[place - 1], marks[place]
    return before.total + (after.total - before.total) * (at - before.at) / (after.at - before.at)
