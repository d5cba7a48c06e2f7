"""`engine.deadlines`: what is due comes once, in order, and moving it is heeded."""

from hypothesis import given
from hypothesis import strategies as st

from penstock.engine.groups.deadlines import Deadlines


def test_what_is_due_comes_once_and_in_order() -> None:
    deadlines: Deadlines[str] = Deadlines()
    for key, time_ms in (("c", 30), ("a", 10), ("b", 20)):
        deadlines.set(key, time_ms)
    assert deadlines.due(9) == []
    assert deadlines.due(20) == ["a", "b"]
    assert "a" not in deadlines
    assert "c" in deadlines
    assert deadlines.due(29) == []
    assert deadlines.due(30) == ["c"]
    assert len(deadlines) == 0


def test_a_deadline_moves_either_way() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    deadlines.set("a", 50)
    deadlines.set("b", 50)
    deadlines.set("b", 10)
    assert deadlines.due(10) == ["b"]
    assert deadlines.due(49) == []
    assert deadlines.due(50) == ["a"]


def test_cancelled_means_cancelled() -> None:
    deadlines: Deadlines[str] = Deadlines()
    deadlines.set("a", 10)
    assert deadlines.cancel("a")
    assert not deadlines.cancel("a")
    assert deadlines.due(10) == []
    deadlines.set("a", 20)
    deadlines.cancel("a")
    deadlines.set("a", 15)
    assert deadlines.due(15) == ["a"]
    deadlines.set("a", 20)
    deadlines.clear()
    assert deadlines.due(99) == []


@given(st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 20), st.integers(0, 2))))
def test_it_is_a_table_of_times(steps: list[tuple[str, int, int]]) -> None:
    """Against a plain dictionary; time moves on with every step."""
    deadlines: Deadlines[str] = Deadlines()
    times: dict[str, int] = {}
    for now, (key, time_ms, action) in enumerate(steps):
        if action:
            deadlines.set(key, now + time_ms)
            times[key] = now + time_ms
        else:
            deadlines.cancel(key)
            times.pop(key, None)
        due = {one for one, when in times.items() if when <= now}
        assert set(deadlines.due(now)) == due
        times = {one: when for one, when in times.items() if when > now}
        assert len(deadlines) == len(times)
