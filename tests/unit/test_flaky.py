"""The search for flaky tests: its orders, its rounds, its reading of reports and its table."""

from pathlib import Path

import pytest

from tests.order import shuffled
from tests.soak.flaky import Tally, commands, hogs, plan_rounds, read_report, run_suite

REPORT = """<?xml version="1.0" encoding="utf-8"?><testsuites><testsuite name="pytest" tests="4">
<testcase classname="tests.unit.test_a" name="test_good" file="tests/unit/test_a.py" line="1" />
<testcase classname="tests.unit.test_a" name="test_bad[1]" file="tests/unit/test_a.py" line="2">
<failure message="x">no</failure></testcase>
<testcase classname="tests.unit.test_b" name="test_worse" file="tests/unit/test_b.py" line="3">
<error message="failed on setup">no</error></testcase>
<testcase classname="tests.unit.test_b" name="test_skipped" file="tests/unit/test_b.py" line="4">
<skipped message="no browser" /></testcase></testsuite></testsuites>"""


def test_an_order_is_random_and_repeatable() -> None:
    items = [f"{letter}{number}" for letter in "abcdef" for number in range(10)]
    one = shuffled(items, 7, by=lambda item: item[0])
    assert one != items
    assert sorted(one) == sorted(items)
    assert one == shuffled(items, 7, by=lambda item: item[0])
    assert one != shuffled(items, 8, by=lambda item: item[0])
    letters = [item[0] for item in one]
    assert [letters[at] for at in range(0, 60, 10)] == list(dict.fromkeys(letters))


def test_rounds_have_no_one_and_two_hogs_in_turn() -> None:
    rounds = plan_rounds(4, 2, 7)
    assert [one.load for one in rounds] == ["quiet", "1 hog", "2 hogs", "quiet"]
    assert [one.hogs for one in plan_rounds(3, 0, 7)] == [0, 0, 0]
    assert len({one.seed for one in rounds}) == 4
    assert rounds == plan_rounds(4, 2, 7)
    assert rounds != plan_rounds(4, 2, 8)


def test_what_failed_is_read_from_a_report() -> None:
    failed = ["tests/unit/test_a.py::test_bad[1]", "tests/unit/test_b.py::test_worse"]
    assert read_report(REPORT) == (4, failed)


def test_all_tests_of_spark_are_where_they_are_looked_for() -> None:
    usual, spark = commands(["tests"], 7)
    assert usual[-1] == "tests"
    assert spark[-1] == "tests/spark"
    assert "--shuffle=7" in usual
    assert commands(["tests/unit/raft"], 7)[1][-1] == "tests/unit/raft"


def test_the_table_says_how_often_and_under_which_load() -> None:
    assert not Tally().is_good  # There were no tests.
    tally = Tally()
    tally.add("quiet", 10, [])
    assert tally.is_good
    assert tally.table() == []
    tally.add("2 hogs", 10, ["b", "a", "a"])
    tally.add("quiet", 10, ["a"])
    assert [line.split() for line in tally.table()] == [
        ["quiet", "2", "hogs", "failed"],
        ["1", "of", "2", "1", "of", "1", "a"],
        ["0", "of", "2", "1", "of", "1", "b"],
    ]
    failed = Tally()
    failed.add("quiet", 10, ["a"])
    assert not failed.is_good


@pytest.mark.slow
def test_a_suite_is_run(tmp_path: Path) -> None:
    with hogs(1):
        found = run_suite(["tests/unit/core/test_clock.py"], 7, tmp_path / "round.txt")
    assert found[0] > 0
    assert found[1] == []


@pytest.mark.slow
def test_a_suite_that_cannot_be_run_has_failed(tmp_path: Path) -> None:
    tests, failed = run_suite(["--no-such-option"], 7, tmp_path / "round.txt")
    assert tests == 0
    assert {one.split(":")[0] for one in failed} == {"pytest itself"}
    assert "--no-such-option" in (tmp_path / "round.txt").read_text("utf-8")
