"""What is worked out from stretches that somebody looked on in, and from those nobody did."""

from itertools import pairwise

import pytest

from benchmarks.observing.onlooker import Looked
from benchmarks.observing.stretches import OBSERVED, QUIET, Mark, growth, in_turns, paired
from benchmarks.observing.verdict import finding, middle, within
from benchmarks.report import Measured


def test_neighbours_are_pairs_and_every_other_pair_is_turned_round() -> None:
    stretches = in_turns(100.0, 2.0, 3)
    assert [one.way for one in stretches] == [OBSERVED, QUIET, QUIET, OBSERVED, OBSERVED, QUIET]
    assert (stretches[0].begin, stretches[-1].end) == (100.0, 112.0)
    assert all(one.end == other.begin for one, other in pairwise(stretches))
    pairs = list(paired([(one, one.begin) for one in stretches]))
    assert pairs[:2] == [{OBSERVED: 100.0, QUIET: 102.0}, {QUIET: 104.0, OBSERVED: 106.0}]


def test_what_grew_in_a_stretch_is_cut_between_marks() -> None:
    marks = [Mark(0.0, 0), Mark(1.0, 10), Mark(3.0, 50), Mark(9.0, 50)]
    one, other = in_turns(0.5, 1.5, 1)
    assert growth(marks, one) == 30 - 5
    assert growth(marks, other) == 50 - 30


def test_nothing_is_made_up_where_nobody_took_marks() -> None:
    with pytest.raises(AssertionError, match="nobody took marks"):
        growth([Mark(1.0, 0), Mark(2.0, 1)], in_turns(0.0, 1.0, 1)[0])


def test_what_is_far_out_does_not_count() -> None:
    assert middle([0.001, 1.0, 1.0, 1.0, 1_000.0]) == 1.0


def test_half_as_much_and_twice_as_much_are_as_much_together() -> None:
    assert middle([0.5, 2.0]) == pytest.approx(1.0)


def test_the_more_pairs_differ_the_less_is_certain() -> None:
    near, far = [0.99, 1.0, 1.01] * 9, [0.8, 1.0, 1.25] * 9
    assert within(near) == within(near), "it is no matter of luck"
    assert within(near)[0] < middle(near) < within(near)[1]
    assert within(far)[0] < within(near)[0]
    assert within(near)[1] < within(far)[1]


@pytest.mark.parametrize(
    ("ratios", "said"),
    [
        ([0.99] * 10, "1.0 % fewer messages; the aim of under 2 % is met"),
        ([0.9] * 10, "10.0 % fewer messages; the aim of under 2 % is missed"),
        ([0.8, 1.25] * 5, "the aim of under 2 % is met, though not for certain"),
    ],
)
def test_the_verdict(ratios: list[float], said: str) -> None:
    found = finding(
        [_row(ratio) for ratio in ratios],
        [{QUIET: 0.010, OBSERVED: 0.014}],
        Looked(lines=1_500, pages=3),
    )
    assert found.notes[1].endswith(said)
    assert "4.0 ms a second on being looked at: 0.40 %" in found.notes[3]
    assert found.numbers[0]["messages_per_second_ratio_middle"] == pytest.approx(middle(ratios))


def _row(ratio: float) -> Measured:
    row: Measured = {
        "messages_per_second_ratio": ratio,
        "broker_cpu_seconds_per_million_ratio": 1.0,
    }
    for way in (QUIET, OBSERVED):
        row[f"{way}_messages_per_second"] = 1_000.0
        row[f"{way}_broker_cpu_seconds_per_million"] = 60.0
        row[f"{way}_cpu_seconds_per_second"] = 0.9
    return row
