"""The frame of `make bench`: what is run, for how long, and what is kept."""

from collections.abc import Sequence
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks import suite
from benchmarks.broker.clients import ClientFailed
from benchmarks.broker.orders import Moved
from benchmarks.record import Record, read_document
from benchmarks.report import Finding, Progress
from benchmarks.run import Run, box, estimate, minutes
from benchmarks.scaling.curves import Curve, Rate
from benchmarks.suite import Benchmark


def test_the_default_run_fits_its_time() -> None:
    default = suite.chosen([])
    assert sum(one.seconds for one in default) <= suite.BUDGET_SECONDS
    assert {one.group for one in default} == {"broker", "native", "sqs", "scaling", "observing"}


def test_benchmarks_are_chosen_by_name_and_by_group() -> None:
    assert [one.name for one in suite.chosen(["sqs", "read"])] == ["sqs", "read"]
    assert {one.group for one in suite.chosen(["spark"])} == {"spark"}
    assert set(suite.names()) >= {"log", "scaling", "scaling-backlog", "observing"}


def test_a_record_is_one_file() -> None:
    assert suite.record_name(suite.chosen([])) == "results"
    assert suite.record_name(suite.chosen(["backlog"])) == "queues"
    assert suite.record_name(suite.chosen(["partitions", "log"])) == "log"
    with pytest.raises(ValueError, match="one at a time"):
        suite.record_name(suite.chosen(["sqs", "spark"]))


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def rounds_taken(most: int, *, budget: float, each: Sequence[float]) -> tuple[int, list[str]]:
    clock, said, taken = Clock(), list[str](), 0
    for turn in Progress(said.append, seconds=budget, clock=clock).turns(most):
        clock.now += each[turn - 1]
        taken += 1
    return taken, said


def test_rounds_are_taken_while_the_longest_still_fits() -> None:
    assert rounds_taken(3, budget=100, each=[10, 10, 10]) == (3, [])
    assert rounds_taken(5, budget=33, each=[10, 12, 10, 10, 10])[0] == 2
    assert rounds_taken(2, budget=1, each=[10, 10])[0] == 1, "one is always taken"
    assert "after 1 of 2 rounds" in rounds_taken(2, budget=1, each=[10, 10])[1][0]


def test_what_is_left_is_what_was_planned_less_what_was_spent() -> None:
    assert estimate([40, 30, 30], spent=10, share=1.0) == 90
    assert estimate([40, 30, 30], spent=50, share=1.0) == 60, "late is not less than nothing"
    assert estimate([40, 30], spent=0, share=0.5) == 35
    assert estimate([], spent=5, share=1.0) == 0
    assert minutes(725) == "12:05"


def test_who_comes_late_takes_time_from_the_next() -> None:
    assert box(60, late=-20) == 60
    assert box(60, late=10) == 50
    assert box(60, late=100) == 30, "half of it is left in any case"


def found(name: str, value: int) -> Finding:
    return Finding(
        name=name,
        title=f"{name}, measured",
        columns=("what", "value"),
        rows=[(name, str(value))],
        notes=["a note."],
        numbers=[{"what": name, "value": value}],
    )


def benchmark(name: str, value: int | None) -> Benchmark:
    def run(directory: str, quick: bool, progress: Progress, target: Path) -> list[Finding]:
        Path(directory, "left behind").mkdir()
        if value is None:
            raise RuntimeError("it broke")
        return [found(name, value)]

    return Benchmark(name=name, group="g", seconds=1, run=run)


def test_one_that_breaks_loses_nothing_of_the_others(tmp_path: Path) -> None:
    home = tmp_path / "data"
    home.mkdir()
    record = Record(tmp_path / "results.json", {"commit": "abc"}, quick=True)
    three = [benchmark("first", 1), benchmark("second", None), benchmark("third", 3)]
    console = Console(file=(tmp_path / "shown.txt").open("w"))
    Run(three, record, console, str(home), quick=True, boxed=True).all()
    console.file.close()
    kept = read_document(tmp_path / "results.json")
    assert list(kept.findings) == ["first", "third"]
    assert kept.broken == {"second": "RuntimeError: it broke"}
    assert list(home.iterdir()) == [], "what it left behind is gone"
    text = (tmp_path / "results.txt").read_text("utf-8")
    assert "first, measured" in text
    assert "second could not be measured" in text


def test_a_part_may_be_measured_again(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    old = Record(path, {"commit": "old"}, quick=False)
    old.document.when = "2026-01-01T00:00:00"
    old.add([found("one", 1), found("two", 2)])
    old.broke("three", "why")
    old.broke("four", "why")
    old.save()
    new = Record(path, {"commit": "new"}, quick=False, keep=True)
    new.add([found("two", 22), found("three", 3)])
    new.mended("three")
    new.save()
    kept = read_document(path)
    assert kept.broken == {"four": "why"}
    assert [row["value"] for row in kept.findings["one"]] == [1]
    assert [row["value"] for row in kept.findings["two"]] == [22]
    text = path.with_suffix(".txt").read_text("utf-8")
    assert text.count("measured 2026-01-01T00:00:00 at old.") == 1


def rate(per_second: float) -> Rate:
    return Rate(moved=Moved(int(per_second), 1.0, 0.1), broker_cpu_seconds=0.2, memory_bytes=1)


def test_ratios_are_taken_within_a_round() -> None:
    curve = Curve("size", (1, 10), ("send",))
    # A machine that gets three times as slow: the ratio of medians would say something else.
    for first, second in ((300, 150), (300, 150), (100, 90)):
        curve.add({1: {"send": rate(first)}, 10: {"send": rate(second)}})
    large = next(row for row in curve.numbers() if row["size"] == 10)
    assert large["ratio_to_first"] == 0.5
    assert large["messages_per_second"] == 150
    table = curve.finding("name", "Title", label="size", notes=[])
    assert table.title == "Title: medians of 3 rounds"
    assert table.rows[1] == ["10", "150", "0.50", "0"]


def test_every_other_round_goes_the_other_way() -> None:
    curve = Curve("size", (1, 10, 100), ("send",))
    assert [list(curve.in_turn(turn)) for turn in (1, 2)] == [[1, 10, 100], [100, 10, 1]]


def test_a_round_that_breaks_is_the_last() -> None:
    measured = list[int]()

    def measure(size: int) -> dict[str, Rate]:
        measured.append(size)
        if len(measured) > 5:
            raise ClientFailed("it hung up\nand more")
        return {"send": rate(100 * size)}

    curve = Curve("size_messages", (1, 2), ("send",))
    said = list[str]()
    curve.gather(Progress(said.append), 5, measure)
    assert measured == [1, 2, 2, 1, 1, 2]
    assert curve.rounds == 2
    assert said[-1] == "round 3 broke: it hung up"
    assert "round 3 broke: it hung up" in curve.finding("n", "T", label="l", notes=[]).notes
    empty = Curve("size_messages", (1, 2), ("send",))
    with pytest.raises(ClientFailed):
        empty.gather(Progress(said.append), 5, measure)
