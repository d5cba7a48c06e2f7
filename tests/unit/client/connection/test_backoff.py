"""Waits between attempts: they grow to a cap, differ between clients, and heed the broker."""

from random import Random

import pytest

from penstock.client.connection.backoff import Backoff
from penstock.core.errors import NotLeader, Overloaded, Unavailable, UnknownTopic


def test_waits_double_up_to_the_cap_and_lie_in_their_upper_half() -> None:
    backoff = Backoff(random=Random(1), first=0.1, factor=2, cap=1.0)
    for upper in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert upper / 2 <= backoff.next() <= upper
    assert backoff.attempts == 7


def test_one_seed_gives_one_row_of_waits_and_another_seed_another() -> None:
    def waits(seed: int) -> list[float]:
        backoff = Backoff(random=Random(seed))
        return [backoff.next() for _ in range(10)]

    assert waits(1) == waits(1)
    assert waits(1) != waits(2)


def test_what_the_broker_asks_for_is_the_least() -> None:
    backoff = Backoff(random=Random(1), first=0.05, cap=2.0)
    wait = backoff.next(Overloaded("slow down", retry_after_ms=5_000))
    assert 5.0 <= wait <= 5.05
    assert backoff.next(Unavailable("soon", retry_after_ms=1)) <= 0.1


def test_clients_told_the_same_wait_do_not_come_back_together() -> None:
    problem = Overloaded("slow down", retry_after_ms=1_000)
    waits = {Backoff(random=Random(seed)).next(problem) for seed in range(50)}
    assert len(waits) == 50


@pytest.mark.parametrize("problem", [None, UnknownTopic("no"), OSError("gone"), NotLeader("no")])
def test_other_problems_wait_all_the_same(problem: BaseException | None) -> None:
    assert 0.0 < Backoff(random=Random(1)).next(problem) < 0.2


def test_after_a_success_it_begins_anew() -> None:
    backoff = Backoff(random=Random(1), first=0.1, cap=10.0)
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.attempts == 0
    assert backoff.next() <= 0.1


def test_waits_that_would_shrink_or_vanish_are_refused() -> None:
    for first, factor, cap in ((0.0, 2.0, 1.0), (2.0, 2.0, 1.0), (0.1, 0.5, 1.0)):
        with pytest.raises(AssertionError):
            Backoff(random=Random(1), first=first, factor=factor, cap=cap)
