"""An hour of curves."""

import msgspec

from penstock.watch.history import CLUSTER, History, queue_key
from penstock.watch.readings import QueueReading, Readings
from tests.unit.watch.made import WALL_MS, queue, readings

JOBS = queue_key("jobs", "queue")


def at(second: float, *queues: QueueReading) -> Readings:
    return readings(*queues, at_ms=WALL_MS + int(1_000 * second))


def test_a_column_every_five_seconds() -> None:
    history = History()
    for second in range(0, 21, 2):
        history.note(at(second, queue(ready=second)))
    found = history.curves(JOBS, ("ready",))
    assert [time - WALL_MS / 1_000 for time in found.times] == [0, 6, 12, 18]
    assert found.series["ready"] == [0, 6, 12, 18]
    assert found.step_s == 5


def test_an_hour_is_kept() -> None:
    history = History(steps=4)
    for number in range(10):
        history.note(at(5 * number, queue(ready=number)))
    found = history.curves(JOBS, ("ready",))
    assert found.series["ready"] == [6, 7, 8, 9]
    assert found.times == sorted(found.times)


def test_only_since() -> None:
    history = History()
    for number in range(10):
        history.note(at(5 * number, queue(ready=number)))
    assert history.curves(JOBS, ("ready",), WALL_MS + 40_000).series["ready"] == [8, 9]


def test_what_was_never_anything_but_zero_takes_no_room() -> None:
    history = History()
    for number in range(3):
        history.note(at(5 * number, *(queue(f"idle-{one}") for one in range(1_000))))
    assert history.series == 0
    assert history.curves(queue_key("idle-1", "queue"), ("ready",)).series["ready"] == [0, 0, 0]


def test_a_queue_that_was_not_there_is_not_zero() -> None:
    history = History()
    history.note(at(0, queue(ready=1)))
    history.note(at(5))
    history.note(at(10, queue(ready=3)))
    assert history.curves(JOBS, ("ready",)).series["ready"] == [1, None, 3]


def test_there_are_only_so_many_curves() -> None:
    history = History(series_max=3)
    history.note(at(0, *(queue(f"q-{one}", ready=1) for one in range(10))))
    assert history.series == 3


def test_room_comes_back_when_curves_are_flat() -> None:
    history = History(steps=3, series_max=1)
    history.note(at(0, queue("old", ready=1)))
    for number in range(1, 7):
        history.note(at(5 * number, queue("old")))
    history.note(at(40, queue("new", ready=5)))
    assert history.curves(queue_key("new", "queue"), ("ready",)).series["ready"][-1] == 5


def test_a_clock_that_was_set_back_begins_a_new_hour() -> None:
    history = History()
    history.note(at(100, queue(ready=1)))
    history.note(at(0, queue(ready=2)))
    assert history.curves(JOBS, ("ready",)).series["ready"] == [2]


def test_what_is_usual_is_the_median() -> None:
    history = History(steps=5)
    assert history.usual(JOBS, "ack_rate", least=3) is None
    for number, rate in enumerate((10.0, 0.0, 12.0, 90.0, 11.0)):
        history.note(at(5 * number, queue(ack_rate=rate, ready=1)))
    assert history.usual(JOBS, "ack_rate", least=3) == 11.0
    assert history.usual(queue_key("none", "queue"), "ack_rate", least=3) == 0.0


def test_the_whole_cluster_has_curves() -> None:
    history = History()
    one = readings()
    history.note(msgspec.structs.replace(one, totals=msgspec.structs.replace(one.totals, lag=7)))
    assert history.curves(CLUSTER, ("lag",)).series["lag"] == [7]


def test_what_is_not_known_is_nothing_in_a_small_line() -> None:
    history = History(steps=3, step_ms=10_000)
    for number, found in enumerate((queue(ready=1), None, queue(ready=3), queue(ready=4))):
        history.note(readings(*([found] if found else []), at_ms=WALL_MS + 10_000 * number))
        assert history.recent(JOBS, "ready", WALL_MS)[-1] == (found.ready if found else 0)
    assert history.recent(JOBS, "ready", 0) == [0, 3, 4]
    assert history.recent(JOBS, "ready", WALL_MS + 20_000) == [3, 4]
    assert history.recent(JOBS, "delayed", 0) == [0, 0, 0]
    assert history.recent(queue_key("none", "queue"), "ready", WALL_MS + 30_000) == [0]
