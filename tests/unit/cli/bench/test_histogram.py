"""The histogram of `penstock bench`: bounded error and memory, sums, and HdrHistogram's text."""

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.bench.histogram import LatencyHistogram, percentile_text

ERROR_MAX = 0.01


def histogram_of(*seconds: float) -> LatencyHistogram:
    histogram = LatencyHistogram()
    for each in seconds:
        histogram.add(each)
    return histogram


@given(st.lists(st.floats(1e-6, 4_000.0), min_size=1, max_size=50), st.floats(0, 1))
def test_a_quantile_is_a_value_within_one_percent(values: list[float], share: float) -> None:
    found = histogram_of(*values).quantile(share)
    below = sum(value <= found * (1 + 1e-9) for value in values)
    assert below >= share * len(values) - 1e-6
    nearest = min(values, key=lambda value: abs(value - found))
    assert found == pytest.approx(nearest, rel=ERROR_MAX)


def test_many_values_take_no_more_memory_and_are_as_exact() -> None:
    generator = random.Random(7)
    values = [generator.lognormvariate(-6, 2) for _ in range(20_000)]
    histogram = histogram_of(*values)
    ordered = sorted(values)
    for share in (0.5, 0.9, 0.99, 0.999):
        exact = ordered[int(share * len(values)) - 1]
        assert histogram.quantile(share) == pytest.approx(exact, rel=ERROR_MAX)
    assert histogram.mean == pytest.approx(sum(values) / len(values))
    assert len(histogram.counts) == len(histogram_of().counts) < 5_000


def test_histograms_of_several_clients_are_added_up() -> None:
    parts = histogram_of(0.001, 0.5), histogram_of(0.002), histogram_of()
    total = LatencyHistogram()
    for part in parts:
        total.merge(part)
    whole = histogram_of(0.001, 0.002, 0.5)
    assert (total.count, total.most, total.least) == (3, 0.5, 0.001)
    assert [total.quantile(one / 10) for one in range(11)] == [
        whole.quantile(one / 10) for one in range(11)
    ]


def test_the_ends_of_the_range() -> None:
    assert histogram_of().quantile(0.5) == 0
    assert histogram_of(-1.0).most == 0, "a clock that goes back took no time"
    long = histogram_of(10_000.0)
    assert long.most == 10_000.0
    assert long.quantile(1.0) == pytest.approx(4_398, rel=0.001), "what is longer counts as that"


def test_the_text_is_that_of_hdr_histogram() -> None:
    text = percentile_text(histogram_of(*(number / 1_000 for number in range(1, 1_001))))
    head, blank, *rows = text.splitlines()
    assert head.split() == ["Value", "Percentile", "TotalCount", "1/(1-Percentile)"]
    assert blank == ""
    rows, comments = rows[:-3], rows[-3:]
    table = [list(map(float, row.split())) for row in rows]
    assert [row[1] for row in table[:7]] == pytest.approx([0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.55])
    for value, share, count, *rest in table:
        assert value >= 1_000 * share * (1 - ERROR_MAX)
        assert count >= 1_000 * share
        assert rest == ([] if share == 1 else [pytest.approx(1 / (1 - share), abs=0.005)])
    assert table[-1] == [1_000.0, 1.0, 1_000.0]
    assert table == sorted(table)
    assert comments[0] == "#[Mean    =      500.500, StdDeviation   =      288.675]"
    assert comments[1] == "#[Max     =     1000.000, Total count    =         1000]"


def test_nothing_has_a_text_as_well() -> None:
    assert "Total count    =            0]" in percentile_text(histogram_of())
