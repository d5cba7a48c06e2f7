"""`machines.timers`: when something happens by itself."""

from penstock.core.types import Offset
from penstock.machines.run import Run, State
from penstock.machines.timers import Timers


def make(*runs: Run) -> tuple[dict[Offset, Run], Timers]:
    known = {run.first: run for run in runs}
    timers = Timers(known)
    for run in runs:
        timers.watch(run)
    return known, timers


def popped(timers: Timers, now_ms: int) -> list[tuple[int, int]]:
    """What is due by now, each run being dealt with: when that was, and which."""
    found: list[tuple[int, int]] = []
    while (due := timers.pop(now_ms)) is not None:
        found.append((due[0], due[1].first))
        due[1].state = State.DEAD
    return found


def test_leases_and_delays_end_in_their_order() -> None:
    _, timers = make(
        Run(Offset(1), 1, State.LEASED, 30),
        Run(Offset(2), 1, State.DELAYED, 10),
        Run(Offset(3), 1, State.READY),
        Run(Offset(4), 1, State.LEASED, 20),
    )
    assert timers.due_ms() == 10
    assert popped(timers, 9) == []
    assert popped(timers, 20) == [(10, 2), (20, 4)]
    assert timers.due_ms() == 30


def test_what_waits_may_expire_first() -> None:
    _, timers = make(
        Run(Offset(1), 1, State.DELAYED, 30, expire_ms=20),
        Run(Offset(2), 1, State.READY, expire_ms=5),
    )
    assert popped(timers, 99) == [(5, 2), (20, 1)]


def test_what_somebody_has_does_not_expire() -> None:
    _, timers = make(Run(Offset(1), 1, State.LEASED, 30, expire_ms=20))
    assert timers.due_ms() == 30


def test_a_time_that_has_changed_means_nothing_any_more() -> None:
    runs, timers = make(Run(Offset(1), 1, State.LEASED, 30))
    runs[Offset(1)].at_ms = 50
    timers.watch(runs[Offset(1)])
    assert timers.due_ms() == 50
    del runs[Offset(1)]
    assert timers.due_ms() is None


def test_times_that_mean_nothing_do_not_pile_up() -> None:
    runs, timers = make(Run(Offset(1), 1, State.LEASED, 0))
    for at_ms in range(20_000):
        runs[Offset(1)].at_ms = 30_000 + at_ms
        timers.watch(runs[Offset(1)])
    assert len(timers) < 2_000
    assert timers.due_ms() == 49_999


def test_all_runs_can_be_watched_at_once() -> None:
    runs, timers = make(Run(Offset(1), 1, State.LEASED, 30))
    timers.watch_all([Run(Offset(2), 1, State.LEASED, 40)])
    assert timers.due_ms() is None, "there is no such run"
    timers.watch_all(runs.values())
    assert timers.due_ms() == 30
