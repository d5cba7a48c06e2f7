"""Pauses between attempts: they grow to a cap, differ between callers, heed the broker, and end."""

import asyncio
from random import Random

import pytest

from penstock.core.errors import NotLeader, Overloaded, Unavailable, UnknownTopic
from penstock.core.retries import CALL, LEADER, POLL, REPAIR, Backoff, PauseBounds, Retrier, Retries

TENTH = PauseBounds(0.1, 1.0)


def test_pauses_double_up_to_the_cap_and_lie_in_their_upper_half() -> None:
    backoff = Backoff(TENTH, random=Random(1))
    for upper in (0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0):
        assert upper / 2 <= backoff.next() <= upper
    assert backoff.attempts == 7


def test_one_seed_gives_one_row_of_pauses_and_another_seed_another() -> None:
    def pauses(seed: int) -> list[float]:
        backoff = Backoff(random=Random(seed))
        return [backoff.next() for _ in range(10)]

    assert pauses(1) == pauses(1)
    assert pauses(1) != pauses(2)


def test_what_the_broker_asks_for_is_the_least() -> None:
    backoff = Backoff(PauseBounds(0.05, 2.0), random=Random(1))
    wait = backoff.next(Overloaded("slow down", retry_after_ms=5_000))
    assert 5.0 <= wait <= 5.05
    assert backoff.next(Unavailable("soon", retry_after_ms=1)) <= 0.1


def test_callers_told_the_same_pause_do_not_come_back_together() -> None:
    problem = Overloaded("slow down", retry_after_ms=1_000)
    pauses = {Backoff(random=Random(seed)).next(problem) for seed in range(50)}
    assert len(pauses) == 50


@pytest.mark.parametrize("problem", [None, UnknownTopic("no"), OSError("gone"), NotLeader("no")])
def test_other_problems_wait_all_the_same(problem: BaseException | None) -> None:
    assert 0.0 < Backoff(random=Random(1)).next(problem) < 0.2


def test_after_a_success_it_begins_anew() -> None:
    backoff = Backoff(PauseBounds(0.1, 10.0), random=Random(1))
    for _ in range(5):
        backoff.next()
    backoff.reset()
    assert backoff.attempts == 0
    assert backoff.next() <= 0.1


@pytest.mark.parametrize("bounds", [PauseBounds(0.0, 1.0), PauseBounds(2.0, 1.0)])
def test_pauses_that_would_shrink_or_vanish_are_refused(bounds: PauseBounds) -> None:
    with pytest.raises(AssertionError, match="cannot grow"):
        Backoff(bounds, random=Random(1))


@pytest.mark.parametrize("bounds", [POLL, LEADER, CALL, REPAIR])
def test_the_bounds_of_the_system_grow(bounds: PauseBounds) -> None:
    assert 0 < bounds.first < bounds.longest


class Time:
    """Passes while somebody sleeps, and not otherwise."""

    def __init__(self) -> None:
        self.now = 100.0
        self.slept: list[float] = []
        self.retrier = Retrier(now=lambda: self.now, random=Random(1), sleep=self.sleep)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def give_up(self, retries: Retries, problem: BaseException | None = None) -> int:
        """Fail until there is no further attempt; how many there were."""

        async def attempts() -> int:
            count = 1
            while await retries.pause(problem):
                count += 1
            return count

        return asyncio.run(attempts())


def test_attempts_end_before_the_deadline_and_nobody_sleeps_in_vain() -> None:
    time = Time()
    time.give_up(time.retrier.within(5.0, TENTH))
    assert 104.0 <= time.now < 105.0  # The last pause would have been at most a second.
    assert time.slept == sorted(time.slept[:4]) + time.slept[4:]
    assert all(0.5 <= one <= 1.0 for one in time.slept[4:])


def test_a_deadline_may_be_a_time_of_the_clock() -> None:
    time = Time()
    retries = time.retrier.until(100.3, TENTH)
    assert retries.left == pytest.approx(0.3)
    assert time.give_up(retries) == len(time.slept) + 1
    assert time.now < 100.3


def test_without_time_there_is_one_attempt() -> None:
    time = Time()
    assert time.give_up(time.retrier.within(0.0)) == 1
    assert time.slept == []


def test_attempts_may_be_counted_instead() -> None:
    time = Time()
    assert time.give_up(time.retrier.times(4)) == 4
    assert len(time.slept) == 3


def test_a_broker_that_wants_more_time_than_there_is_ends_it_at_once() -> None:
    time = Time()
    problem = Overloaded("slow down", retry_after_ms=6_000)
    assert time.give_up(time.retrier.within(5.0), problem) == 1
    assert time.slept == []


def test_a_success_makes_pauses_short_again_but_moves_no_deadline() -> None:
    time = Time()
    retries = time.retrier.within(5.0, TENTH)
    time.give_up(retries)
    retries.reset()
    after = retries.next()
    assert after is not None
    assert after <= 0.1
    time.now = 105.0
    assert retries.next() is None


def test_what_has_no_alternative_is_tried_for_ever() -> None:
    time = Time()
    retries = time.retrier.endless()
    time.now += 1e9
    assert all(retries.next() is not None for _ in range(100))
