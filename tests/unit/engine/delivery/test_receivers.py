"""Who asks for messages, by a clock that is moved."""

import uuid

from penstock.core.limits import ASKERS_PER_QUEUE_MAX
from penstock.core.types import TopicId
from penstock.engine.delivery.receivers import NAMES_MAX, PRESENT_MS, Receivers
from penstock.testing.clock import ManualClock

JOBS = TopicId(uuid.UUID(int=1).bytes)
KEY = (JOBS, "queue")


def test_a_worker_is_there_for_a_minute() -> None:
    clock = ManualClock()
    askers = Receivers(clock)
    askers.note(JOBS, "queue", "a")
    clock.advance(30_000)
    askers.note(JOBS, "queue", "b")
    assert askers.present(KEY) == ("a", "b")
    clock.advance(PRESENT_MS - 30_000)
    assert askers.present(KEY) == ("a", "b")
    clock.advance(1)
    assert askers.present(KEY) == ("b",)
    assert askers.silent_ms(KEY) == PRESENT_MS - 30_000 + 1


def test_of_a_queue_nobody_asked_for_nothing_is_known() -> None:
    askers = Receivers(ManualClock())
    assert askers.present(KEY) == ()
    assert askers.silent_ms(KEY) == -1


def test_work_groups_are_told_apart() -> None:
    askers = Receivers(ManualClock())
    askers.note(JOBS, "queue", "a")
    assert askers.present((JOBS, "other")) == ()


def test_there_are_only_so_many() -> None:
    clock = ManualClock()
    askers = Receivers(clock)
    for number in range(ASKERS_PER_QUEUE_MAX + 50):
        askers.note(JOBS, "queue", f"worker-{number:05}")
    assert len(askers._seen[KEY]) == ASKERS_PER_QUEUE_MAX
    assert len(askers.present(KEY)) == NAMES_MAX
    clock.advance(PRESENT_MS + 1)
    askers.note(JOBS, "queue", "late")
    assert askers.present(KEY) == ("late",)


def test_what_is_led_elsewhere_is_forgotten() -> None:
    clock = ManualClock()
    askers = Receivers(clock)
    askers.note(JOBS, "queue", "a")
    askers.note(JOBS, "other", "a")
    clock.advance(1)
    askers.note(JOBS, "new", "a")
    askers.forget_others({KEY}, before_ms=clock.monotonic_ms())
    assert askers.silent_ms(KEY) == 1
    assert askers.silent_ms((JOBS, "other")) == -1
    assert askers.present((JOBS, "new")) == ("a",), "opened while the others were counted"
