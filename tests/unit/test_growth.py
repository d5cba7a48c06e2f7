"""What the soak `everything` says of a cluster that works for long."""

import os
from dataclasses import replace

import pytest

from tests.abuse.target import MIB, Sample
from tests.soak.growth import Minute, growth, open_handles, row_of, table

ROW = Minute(memory_mib=50, handles=100, calm_ms=20, median_ms=40, slowest_ms=4_000, answers=9)


def test_what_stays_as_it_was_has_not_grown() -> None:
    assert growth([ROW] * 12) == []


def test_the_first_third_is_warming_up() -> None:
    cold = replace(ROW, memory_mib=5, handles=10, calm_ms=1)
    assert growth([cold] * 4 + [ROW] * 8) == []


@pytest.mark.parametrize(
    ("figure", "later"),
    [("memory_mib", 90.0), ("handles", 180), ("calm_ms", 90.0), ("median_ms", 600.0)],
)
def test_a_figure_that_grows_is_named(figure: str, later: float) -> None:
    grown = Minute(**{**vars(ROW), figure: later})
    (complaint,) = growth([ROW] * 8 + [grown] * 4)
    assert f"{later:.1f} in the last" in complaint
    assert growth([ROW] * 8 + [grown]) == [], "one row is not all there is"


def test_of_a_few_minutes_nothing_is_said() -> None:
    assert growth([ROW, ROW, replace(ROW, memory_mib=900)]) == []


def test_a_minute_is_made_of_the_answers_of_all_protocols() -> None:
    samples = [Sample("kafka", 0.0, at / 1_000, 0, "") for at in range(1, 101)]
    row = row_of([*samples, Sample("echo", 0.0, 9.0, 0, "")], 64 * MIB, 7)
    assert (row.memory_mib, row.handles, row.answers) == (64, 7, 100)
    assert (row.calm_ms, row.median_ms, row.slowest_ms) == pytest.approx((25, 50, 99), abs=1)


def test_a_minute_without_an_answer_is_as_slow_as_can_be() -> None:
    row = row_of([], 0, 0)
    assert row.median_ms == float("inf")
    assert "inf" in table([row])


def test_handles_of_a_process_that_is_gone_are_none() -> None:
    assert open_handles(os.getpid()) > 0
    assert open_handles(-1) == 0
