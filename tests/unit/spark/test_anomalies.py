"""What stands out against what was just before it."""

from random import Random

from penstock.spark.jobs.anomalies import LEAST, ODD, robust_scores


def odd(values: list[float], trailing: int = 30) -> list[int]:
    scores = robust_scores(values, trailing)
    return [at for at, score in enumerate(scores) if score is not None and abs(score) > ODD]


def test_a_burst_and_a_gap_stand_out() -> None:
    chance = Random(7)
    values = [float(chance.randint(95, 105)) for _ in range(60)]
    assert odd(values) == []
    values[30], values[45] = 300.0, 0.0
    assert odd(values) == [30, 45]


def test_a_burst_does_not_hide_the_next_one() -> None:
    values = [100.0, 101.0, 99.0, 100.0, 102.0, 98.0] * 3 + [500.0, 500.0]
    assert odd(values) == [18, 19]


def test_a_level_that_stays_becomes_usual() -> None:
    values = [10.0] * 20 + [1_000.0] * 30
    assert odd(values, trailing=10) == list(range(20, 25))


def test_the_first_ones_are_not_judged() -> None:
    scores = robust_scores([1.0, 1_000.0] * 5)
    assert scores[:LEAST] == [None] * LEAST
    assert all(score is not None for score in scores[LEAST:])


def test_counting_noise_of_a_constant_series_is_not_odd() -> None:
    assert odd([100.0] * 10 + [110.0]) == []
    assert odd([0.0] * 10 + [2.0]) == []
    assert odd([0.0] * 10 + [50.0]) == [10]
