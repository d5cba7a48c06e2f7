"""The circuit breaker, by moving its clock."""

import asyncio
from itertools import product

import pytest

from penstock.core.errors import InvalidRequest
from penstock.testing.clock import ManualClock
from penstock.workers.breaker import TRANSITIONS, CircuitBreaker, CircuitOpen, Event, State


def make(clock: ManualClock, **settings: int) -> CircuitBreaker:
    return CircuitBreaker(
        "payments", failures=3, within=30, open_for=10, on=(OSError,), clock=clock, **settings
    )


def look(breaker: CircuitBreaker) -> State:
    """Its state now; asked for anew, so that the type checker does not remember the last one."""
    return breaker.state


def fail(breaker: CircuitBreaker, times: int = 1) -> None:
    for _ in range(times):
        permit = breaker.permit()
        assert permit is not None
        permit.ended(OSError("down"))


def test_the_table_has_every_move_and_no_other() -> None:
    reached = {state for (_, _), state in TRANSITIONS.items()}
    assert reached == set(State)
    assert {event for _, event in TRANSITIONS} == set(Event)
    assert len(TRANSITIONS) == 4 < len(list(product(State, Event)))


def test_it_opens_after_enough_failures_in_time() -> None:
    clock = ManualClock()
    breaker = make(clock)
    fail(breaker, 2)
    assert look(breaker) is State.CLOSED
    fail(breaker)
    assert look(breaker) is State.OPEN
    assert breaker.permit() is None
    assert breaker.retry_after() == 10
    clock.advance(4_000)
    assert breaker.retry_after() == 6
    assert breaker.opened == 1


def test_failures_long_ago_do_not_count() -> None:
    clock = ManualClock()
    breaker = make(clock)
    for _ in range(5):
        fail(breaker)
        clock.advance(20_000)
    assert look(breaker) is State.CLOSED


def test_other_errors_say_nothing() -> None:
    breaker = make(ManualClock())
    for _ in range(10):
        permit = breaker.permit()
        assert permit is not None
        permit.ended(ValueError("the message is at fault"))
    assert look(breaker) is State.CLOSED


def test_one_probe_closes_it() -> None:
    clock = ManualClock()
    breaker = make(clock)
    fail(breaker, 3)
    clock.advance(10_000)
    assert look(breaker) is State.HALF_OPEN
    probe = breaker.permit()
    assert probe is not None
    assert breaker.permit() is None, "one probe at a time"
    probe.ended()
    assert look(breaker) is State.CLOSED
    fail(breaker, 2)
    assert look(breaker) is State.CLOSED, "earlier failures are forgotten"


def test_a_failed_probe_opens_it_again_for_the_whole_time() -> None:
    clock = ManualClock()
    breaker = make(clock)
    fail(breaker, 3)
    clock.advance(10_000)
    fail(breaker)
    assert look(breaker) is State.OPEN
    assert breaker.retry_after() == 10
    assert breaker.opened == 2


def test_a_probe_that_was_not_used_lets_another_go() -> None:
    clock = ManualClock()
    breaker = make(clock)
    fail(breaker, 3)
    clock.advance(10_000)
    probe = breaker.permit()
    assert probe is not None
    probe.unused()
    probe.ended(OSError("too late: it is over"))
    assert look(breaker) is State.HALF_OPEN
    assert breaker.permit() is not None


def test_what_began_before_it_opened_does_not_close_it() -> None:
    clock = ManualClock()
    breaker = make(clock)
    early = breaker.permit()
    assert early is not None
    fail(breaker, 3)
    clock.advance(10_000)
    early.ended()
    assert look(breaker) is State.HALF_OPEN


def test_several_probes() -> None:
    clock = ManualClock()
    breaker = make(clock, probes=2)
    fail(breaker, 3)
    clock.advance(10_000)
    assert breaker.permit() is not None
    assert breaker.permit() is not None
    assert breaker.permit() is None


def test_a_block() -> None:
    clock = ManualClock()
    breaker = make(clock)
    for _ in range(3):
        with pytest.raises(ConnectionError), breaker:
            raise ConnectionError("down")
    with pytest.raises(CircuitOpen, match="payments is not asked for another 10.0 s"), breaker:
        pass
    clock.advance(10_000)
    with breaker:
        pass
    assert look(breaker) is State.CLOSED


async def in_blocks() -> State:
    """A probe that succeeds late, while a block that began when it was closed fails early."""
    clock = ManualClock()
    breaker = make(clock)
    one, other = asyncio.Event(), asyncio.Event()

    async def slow(go: asyncio.Event) -> None:
        with breaker:
            await go.wait()

    before = asyncio.create_task(slow(one))
    await asyncio.sleep(0)
    fail(breaker, 3)
    clock.advance(10_000)
    probe = asyncio.create_task(slow(other))
    await asyncio.sleep(0)
    one.set()
    await before
    assert look(breaker) is State.HALF_OPEN, "the one from before was no probe"
    other.set()
    await probe
    return breaker.state


def test_blocks_of_several_tasks_are_told_apart() -> None:
    assert asyncio.run(in_blocks()) is State.CLOSED


@pytest.mark.parametrize(
    ("failures", "within", "open_for", "probes"),
    [(0, 30, 10, 1), (5, 0, 10, 1), (5, 30, 0, 1), (5, 30, 10, 0)],
)
def test_what_cannot_be(failures: int, within: float, open_for: float, probes: int) -> None:
    with pytest.raises(InvalidRequest):
        CircuitBreaker(
            "payments", failures=failures, within=within, open_for=open_for, probes=probes
        )
