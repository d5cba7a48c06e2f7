"""Requests are counted by kind, and the number of kinds has a bound."""

from penstock.core.request_times import KINDS_MAX, OTHER, RequestTimes


def test_times_and_errors_are_kept_by_kind() -> None:
    times = RequestTimes()
    times.observe("Produce", 0.002)
    times.observe("Produce", 0.2)
    times.observe("Fetch", 0.001)
    times.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    times.error("Produce", "NOT_LEADER_OR_FOLLOWER")
    reading = times.statistics()
    assert {api: one.count for api, one in reading.times.items()} == {"Produce": 2, "Fetch": 1}
    assert reading.errors == {("Produce", "NOT_LEADER_OR_FOLLOWER"): 2}


def test_a_reading_is_frozen() -> None:
    times = RequestTimes()
    times.observe("Produce", 0.002)
    reading = times.statistics()
    times.observe("Produce", 0.002)
    times.error("Produce", "x")
    assert reading.times["Produce"].count == 1
    assert not reading.errors


def test_whoever_makes_up_kinds_gets_one_for_all() -> None:
    times = RequestTimes()
    for number in range(KINDS_MAX + 50):
        times.observe(f"kind {number}", 0.001)
        times.error(f"kind {number}", "no")
    reading = times.statistics()
    assert len(reading.times) == KINDS_MAX + 1
    assert reading.times[OTHER].count == 50
    assert reading.errors[OTHER, "no"] == 50
