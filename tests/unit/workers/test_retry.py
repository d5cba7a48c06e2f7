"""Retry policies: the formulas, the table of exceptions, and what a function can say itself."""

from random import Random

import pytest

from penstock.core.errors import InvalidBody
from penstock.workers.retry import (
    Again,
    Delay,
    Refused,
    Retry,
    broker,
    dead,
    exponential,
    fixed,
    jittered,
    linear,
    reason_of,
)
from penstock.workers.verdicts import NonRetryable, Reject, RetryLater

CHANCE = Random(7)


def delays(delay: Delay, count: int) -> list[float]:
    return [delay(number, CHANCE) for number in range(1, count + 1)]


@pytest.mark.parametrize(
    ("delay", "expected"),
    [
        (fixed(5), [5, 5, 5, 5]),
        (linear(5), [5, 10, 15, 20]),
        (linear(5, cap=12), [5, 10, 12, 12]),
        (exponential(2), [2, 4, 8, 16]),
        (exponential(2, cap=9), [2, 4, 8, 9]),
        (exponential(2, unit=60, cap=3600), [120, 240, 480, 960]),
    ],
)
def test_the_formulas(delay: Delay, expected: list[float]) -> None:
    assert delays(delay, 4) == expected


def test_five_minutes_are_the_usual_cap() -> None:
    for delay in (linear(5), exponential(2), jittered(2)):
        assert delay(10_000, CHANCE) <= 300


def test_jitter_stays_in_its_range_and_uses_it() -> None:
    delay = jittered(2)
    for deliveries, low, high in ((1, 2, 4), (2, 3, 8), (3, 6, 16)):
        drawn = [delay(deliveries, CHANCE) for _ in range(500)]
        assert low <= min(drawn) < low + (high - low) * 0.05
        assert high - (high - low) * 0.05 < max(drawn) <= high


def test_a_spread_is_on_top() -> None:
    drawn = [exponential(2, spread=1.0)(3, CHANCE) for _ in range(200)]
    assert 8 <= min(drawn) < 8.1
    assert 8.9 < max(drawn) <= 9


def test_one_seed_is_one_row_of_delays() -> None:
    rows = [[jittered(2)(n, chance) for n in range(1, 9)] for chance in (Random(3), Random(3))]
    assert rows[0] == rows[1]


def test_the_nearest_type_counts() -> None:
    policy = Retry(
        on={OSError: fixed(1), ConnectionError: fixed(2), ValueError: dead}, default=fixed(9)
    )
    for error, expected in (
        (ConnectionResetError("away"), Again(2)),
        (PermissionError("no"), Again(1)),
        (KeyError("x"), Again(9)),
        (UnicodeError("bad"), Refused("UnicodeError: bad")),
    ):
        assert policy.decide(error, 1, CHANCE) == expected


def test_what_a_function_says_itself_goes_before_the_table() -> None:
    policy = Retry(on={Exception: dead})

    class NoSuchCard(NonRetryable):
        pass

    assert policy.decide(RetryLater(90), 1, CHANCE) == Again(90)
    assert policy.decide(RetryLater(), 1, CHANCE) == Again(None)
    assert policy.decide(Reject("no such order"), 1, CHANCE) == Refused("no such order")
    forgiving = Retry(on={Exception: fixed(1)})
    assert forgiving.decide(NoSuchCard("4711"), 1, CHANCE) == Refused("NoSuchCard: 4711")


def test_a_body_that_cannot_be_read_is_not_read_again() -> None:
    bad = InvalidBody("The body is no Order.")
    assert Retry().decide(bad, 1, CHANCE) == Refused("InvalidBody: The body is no Order.")
    assert Retry(on={InvalidBody: fixed(9)}).decide(bad, 1, CHANCE) == Again(9)


def test_the_queue_may_decide() -> None:
    assert Retry(default=broker).decide(KeyError(), 3, CHANCE) == Again(None)


def test_giving_up() -> None:
    policy = Retry(default=fixed(1), deliveries_max=3)
    assert policy.decide(KeyError("x"), 2, CHANCE) == Again(1)
    given_up = policy.decide(KeyError("x"), 3, CHANCE)
    assert given_up == Refused("gave up after 3 deliveries: KeyError: 'x'")


def test_reasons_are_short() -> None:
    assert reason_of(ValueError("first\nsecond")) == "ValueError: first"
    assert reason_of(ValueError()) == "ValueError"
    assert len(reason_of(ValueError("x" * 5_000))) == 1_000


def test_a_delay_is_never_negative() -> None:
    assert Retry(default=lambda _n, _chance: -5.0).decide(KeyError(), 1, CHANCE) == Again(0.0)
