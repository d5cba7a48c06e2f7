"""Poison is told from failures, and from innocent neighbours."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.workers.poison import (
    INNOCENT_ENOUGH,
    REPORTED_MAX,
    PoisonVerdict,
    PoisonWatch,
    poison_reason,
)

LONG = 10_000.0


def judge(watch: PoisonWatch, deliveries: int, age: float = LONG, name: str = "m") -> PoisonVerdict:
    return watch.judge(name, deliveries, age=age, lease=30)


def test_silence_is_counted() -> None:
    watch = PoisonWatch(after=3)
    expected = [PoisonVerdict.NONE, PoisonVerdict.NONE, PoisonVerdict.ALONE, PoisonVerdict.POISON]
    assert [judge(watch, deliveries) for deliveries in (1, 2, 3, 4)] == expected


def test_what_fails_does_not_kill() -> None:
    watch = PoisonWatch(after=3)
    watch.reported("m")
    assert {judge(watch, deliveries) for deliveries in range(1, 20)} == {PoisonVerdict.NONE}


def test_no_more_leases_ran_out_than_time_allows() -> None:
    watch = PoisonWatch(after=3)
    assert judge(watch, 9, age=29) is PoisonVerdict.NONE
    assert judge(watch, 9, age=61) is PoisonVerdict.ALONE
    assert judge(watch, 9, age=91) is PoisonVerdict.POISON


def test_what_is_dealt_with_is_forgotten() -> None:
    watch = PoisonWatch(after=2)
    watch.reported("m")
    watch.forget("m")
    assert judge(watch, 3) is PoisonVerdict.POISON


def test_the_memory_has_a_bound() -> None:
    watch = PoisonWatch()
    for number in range(REPORTED_MAX + 5):
        watch.reported(f"m{number}")
    assert judge(watch, 9, name="m4") is PoisonVerdict.POISON
    assert judge(watch, 9, name="m5") is PoisonVerdict.NONE


def test_innocence_makes_trust() -> None:
    watch = PoisonWatch(after=3)
    for _ in range(INNOCENT_ENOUGH):
        assert judge(watch, 3) is PoisonVerdict.ALONE
        watch.survived()
    assert judge(watch, 3) is PoisonVerdict.NONE
    assert judge(watch, 4) is PoisonVerdict.ALONE, (
        "if it is poison, the next process knows no trust"
    )
    assert judge(PoisonWatch(after=3), 4) is PoisonVerdict.POISON


@pytest.mark.parametrize(("after", "deliveries"), [(None, 100), (1, 1)])
def test_nothing_is_suspected(after: int | None, deliveries: int) -> None:
    assert judge(PoisonWatch(after=after), deliveries) is PoisonVerdict.NONE


def test_after_one_nobody_is_alone() -> None:
    assert judge(PoisonWatch(after=1), 2) is PoisonVerdict.POISON
    with pytest.raises(InvalidRequest):
        PoisonWatch(after=0)


def test_the_reason_says_poison() -> None:
    assert poison_reason(4).startswith("poison: 3 earlier deliveries, too many of them without")
