"""How many workers: Little's law, patience, and no dancing."""

from penstock.testing.clock import ManualClock
from penstock.workers.scale import Load, Scaler, Scaling


def load(
    rate: float = 0.0, service: float = 0.5, backlog: int = 0, oldest: float | None = None
) -> Load:
    return Load(arrival_rate=rate, service_seconds=service, backlog=backlog, oldest_seconds=oldest)


def test_littles_law() -> None:
    scaling = Scaling(minimum=1, maximum=100, target_seconds=10)
    assert scaling.wanted(load(rate=20), current=1) == 10
    assert scaling.wanted(load(rate=20, backlog=100), current=1) == 15
    assert scaling.wanted(load(rate=20.1, backlog=100), current=1) == 16


def test_between_the_bounds() -> None:
    scaling = Scaling(minimum=2, maximum=8)
    assert scaling.wanted(load(), current=5) == 2
    assert scaling.wanted(load(rate=1_000), current=5) == 8


def test_a_late_queue_gets_one_more_whatever_the_average_says() -> None:
    scaling = Scaling(minimum=1, maximum=8, target_seconds=10)
    slow = load(rate=1, service=0, backlog=50, oldest=11)
    assert scaling.wanted(slow, current=3) == 4
    assert scaling.wanted(load(rate=1, service=0, backlog=50, oldest=9), current=3) == 1


def test_up_at_once_and_down_slowly() -> None:
    clock = ManualClock()
    scaler = Scaler(Scaling(minimum=1, maximum=50, cool_down=30), clock)
    assert scaler.next_count(load(rate=40), 1) == 20
    for _ in range(3):
        assert scaler.next_count(load(rate=4), 20) == 20
        clock.advance(9_000)
    clock.advance(3_000)
    assert scaler.next_count(load(rate=4), 20) == 2


def test_a_wish_that_does_not_hold_is_forgotten() -> None:
    clock = ManualClock()
    scaler = Scaler(Scaling(minimum=1, maximum=50, cool_down=30), clock)
    scaler.next_count(load(rate=4), 20)
    clock.advance(29_000)
    assert scaler.next_count(load(rate=40), 20) == 20, "all of them are needed again"
    clock.advance(2_000)
    assert scaler.next_count(load(rate=4), 20) == 20, "it begins anew"


def test_down_to_the_most_that_was_wished_for_meanwhile() -> None:
    clock = ManualClock()
    scaler = Scaler(Scaling(minimum=1, maximum=50, cool_down=30), clock)
    scaler.next_count(load(rate=4), 20)
    clock.advance(15_000)
    scaler.next_count(load(rate=20), 20)
    clock.advance(15_000)
    assert scaler.next_count(load(rate=4), 20) == 10


def test_a_little_less_is_no_reason() -> None:
    clock = ManualClock()
    scaler = Scaler(Scaling(minimum=1, maximum=50, hysteresis=0.2, cool_down=0), clock)
    assert scaler.next_count(load(rate=18), 10) == 10
    assert scaler.next_count(load(rate=16), 10) == 8


def test_bounds_that_changed_count_at_once() -> None:
    scaler = Scaler(Scaling(minimum=3, maximum=5), ManualClock())
    assert scaler.next_count(load(rate=100), 9) == 9, "fewer only after a while"
    assert scaler.next_count(load(), 1) == 3
