"""The watchdog of the event loop, with a clock that is moved by hand."""

import asyncio
import sys

from penstock.engine.replica.loop_watchdog import (
    BEAT_SECONDS,
    STALL_SECONDS,
    LoopWatchdog,
    Stall,
    describe_stack,
)


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def watchdog() -> tuple[LoopWatchdog, Clock, list[Stall]]:
    clock = Clock()
    stalls: list[Stall] = []
    return LoopWatchdog(stalls.append, now=clock), clock, stalls


def test_beats_in_time_are_no_stalls() -> None:
    dog, clock, stalls = watchdog()
    for _ in range(100):
        clock.now += BEAT_SECONDS + STALL_SECONDS / 2
        dog.look(sys._getframe())
        dog.beat()
    assert (stalls, dog.count, dog.longest_seconds) == ([], 0, 0.0)


def test_a_late_beat_is_reported_with_what_was_running_and_its_whole_length() -> None:
    dog, clock, stalls = watchdog()
    clock.now += BEAT_SECONDS + STALL_SECONDS
    dog.look(sys._getframe())
    clock.now += 2.0
    dog.look(None)  # It is over by now: what was seen first stays.
    dog.beat()
    (stall,) = stalls
    assert round(stall.seconds, 3) == round(2.0 + STALL_SECONDS, 3)
    assert "test_a_late_beat" in stall.place
    assert (dog.count, dog.longest_seconds) == (1, stall.seconds)


def test_a_stall_that_was_not_looked_at_has_no_place_and_the_next_not_that_of_the_last() -> None:
    dog, clock, stalls = watchdog()
    clock.now += 1.0
    dog.look(sys._getframe())
    dog.beat()
    clock.now += 1.0
    dog.beat()
    assert [bool(stall.place) for stall in stalls] == [True, False]


def test_our_own_functions_are_named_before_libraries() -> None:
    dog, _, _ = watchdog()
    places: list[str] = []
    dog._on_stall = lambda _: places.append(describe_stack(sys._getframe()))
    dog._due -= 1.0
    dog.beat()
    (place,) = places
    assert place.startswith("LoopWatchdog.beat at engine/replica/loop_watchdog.py:")


def test_it_beats_on_the_loop_and_ends() -> None:
    async def play() -> None:
        stalled = asyncio.Event()
        clock = Clock()
        dog = LoopWatchdog(lambda _: stalled.set(), now=clock)
        dog.start()
        clock.now += 1.0
        await stalled.wait()
        dog.stop()
        assert dog.count == 1

    asyncio.run(play())
