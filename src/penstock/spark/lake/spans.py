"""Sets of offsets as spans [first, end): sorted, apart from each other, never empty.

All that the lake knows about what it has is said in spans, so the arithmetic is here, on plain
pairs of numbers, and nothing else is.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise

Span = tuple[int, int]
"""First offset, and the one after the last."""
Spans = tuple[Span, ...]


def union(spans: Iterable[Span]) -> Spans:
    """All offsets of these spans; those that touch become one."""
    joined: list[Span] = []
    for first, end in sorted(one for one in spans if one[0] < one[1]):
        if joined and first <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((first, end))
    return tuple(joined)


def difference(whole: Iterable[Span], taken: Iterable[Span]) -> Spans:
    """The offsets of `whole` that are not in `taken`."""
    left: list[Span] = []
    holes = union(taken)
    for first, end in union(whole):
        at = first
        for hole_first, hole_end in holes:
            if hole_end <= at or hole_first >= end:
                continue
            if hole_first > at:
                left.append((at, hole_first))
            at = max(at, hole_end)
        if at < end:
            left.append((at, end))
    return tuple(left)


def overlap(one: Iterable[Span], other: Iterable[Span]) -> Spans:
    """Return the offsets that are in both."""
    first = union(one)
    return difference(first, difference(first, other))


def gaps(spans: Sequence[Span]) -> Spans:
    """Return the gaps between the first offset and the last."""
    joined = union(spans)
    return tuple((before[1], after[0]) for before, after in pairwise(joined))


def length(spans: Iterable[Span]) -> int:
    """Return the number of offsets in spans that do not overlap."""
    return sum(end - first for first, end in spans)


def written(spans: Iterable[Span]) -> str:
    """For people: `0–99, 200–299`, both ends included."""
    return ", ".join(f"{first}–{end - 1}" for first, end in spans) or "nothing"
