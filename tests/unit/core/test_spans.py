"""Long spans are remembered for as long as they may explain something."""

import pytest

from penstock.core.spans import SPANS_REMEMBERED_MAX, Spans


def test_everything_is_counted_and_what_took_long_is_remembered() -> None:
    spans = Spans()
    spans.note(10.0, 10.001)
    spans.note(11.0, 11.8)
    assert spans.histogram.statistics().count == 2
    assert spans.longest_within(9.0, 10.9) == 0.0, "a short one explains nothing"
    assert spans.longest_within(10.5, 12.0) == pytest.approx(0.8)


def test_only_the_part_counts_that_falls_into_the_time() -> None:
    spans = Spans()
    spans.note(10.0, 12.0)
    assert spans.longest_within(11.5, 20.0) == pytest.approx(0.5)
    assert spans.longest_within(12.5, 20.0) <= 0.0
    assert spans.longest_within(10.5, 11.0) == pytest.approx(0.5)


def test_only_the_last_few_are_remembered() -> None:
    spans = Spans()
    spans.note(0.0, 5.0)
    for number in range(SPANS_REMEMBERED_MAX):
        spans.note(10.0 + number, 10.5 + number)
    assert spans.longest_within(0.0, 5.0) <= 0.0
