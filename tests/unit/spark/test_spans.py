"""Arithmetic of spans, against sets of numbers."""

from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from penstock.spark.lake.spans import Span, difference, gaps, length, overlap, union, written

SPANS = st.lists(st.tuples(st.integers(0, 30), st.integers(0, 30)), max_size=6)


def offsets(spans: "list[Span] | tuple[Span, ...]") -> set[int]:
    return {offset for first, end in spans for offset in range(first, end)}


@given(SPANS)
def test_a_union_is_sorted_and_apart(spans: list[Span]) -> None:
    found = union(spans)
    assert offsets(found) == offsets(spans)
    assert length(found) == len(offsets(spans))
    assert all(before[1] < after[0] for before, after in pairwise(found))


@given(SPANS, SPANS)
def test_difference_and_overlap_are_those_of_sets(one: list[Span], other: list[Span]) -> None:
    assert offsets(difference(one, other)) == offsets(one) - offsets(other)
    assert offsets(overlap(one, other)) == offsets(one) & offsets(other)


@given(SPANS)
def test_gaps_are_what_is_missing_inside(spans: list[Span]) -> None:
    there = offsets(spans)
    inside = set(range(min(there), max(there))) - there if there else set()
    assert offsets(gaps(spans)) == inside


def test_spans_are_written_with_both_ends() -> None:
    assert written([(0, 100), (200, 201)]) == "0–99, 200–200"
    assert written([]) == "nothing"
