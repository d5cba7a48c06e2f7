"""`penstock plan`: what it prints, for people and for programs, and what it refuses."""

import msgspec
import pytest

from penstock.cli.main import run
from penstock.cli.quantities import show_count, show_money, show_size, show_time

Captured = pytest.CaptureFixture[str]
USUAL = ("--rate", "5000", "--service-time", "0.2")


def said(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["plan", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def complaint(capsys: Captured, code: int, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["plan", *arguments]) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert len(output.err.splitlines()) == 1
    return output.err


def flat(text: str) -> str:
    return " ".join(text.split())


def test_a_page_that_says_why(capsys: Captured) -> None:
    page = flat(said(capsys, *USUAL, "--guarantee", "at-least-once"))
    assert "Have 2,992 workers: 60 processes of 50 tasks or threads each." in page
    assert "Little's law: 5,000 messages/s × 200 ms = 1,000 in work at any time" in page
    assert "If messages of a peak may wait 1.10 h, 1,429 workers do" in page
    assert "Have 3: so that every node has a share of the work." in page
    assert "3 nodes with 3 copies of every message survive the loss of 1." in page
    assert "By Little's law 50,000 messages that wait at the usual rate are 10 s of work" in page
    assert "it saves $875,000 and costs $160,000 a year, after $250,000 once" in page
    assert "A year's running cost is earned in 2.19 months" in page
    assert "1.86 after the first year, 1330% after five" in page
    assert "Redis Streams 100K <1 ms per stream yes" in page
    assert "Amazon SQS 3K a queue 10–100 ms best effort, or per group no" in page
    assert "the caller waits for the answer call the service" in page
    assert "\x1b" not in page, "no colours in a pipe"


def test_the_same_for_programs(capsys: Captured) -> None:
    found = msgspec.json.decode(said(capsys, *USUAL, "--json"))
    assert found["workers"] == 2_992
    assert found["in_flight"] == 1_000
    assert found["steady"]["workers"] == 1_429
    assert found["economics"]["annual_savings"] == 875_000
    assert found["partitions"]["advised"] == 3
    assert [one["name"] for one in found["systems"] if not one["fits"]] == [
        "Amazon SQS",
        "Azure Service Bus",
    ]
    assert found["guarantee"]["name"] == "at-least-once"
    assert found["problems"] == []
    assert "2 cores" in found["measured_on"]


@pytest.mark.parametrize(
    ("guarantee", "words"),
    [
        ("at-most-once", "a worker that dies takes its messages with it"),
        ("at-least-once", "Make the work idempotent"),
        ("exactly-once", "note the message's id in one transaction"),
    ],
)
def test_each_guarantee_has_its_advice(capsys: Captured, guarantee: str, words: str) -> None:
    page = flat(said(capsys, *USUAL, "--guarantee", guarantee))
    assert f"Guarantee: {guarantee}" in page
    assert words in page


@pytest.mark.slow
def test_what_depends_on_the_numbers(capsys: Captured) -> None:
    page = flat(said(capsys, *USUAL, "--order", "total"))
    assert page.startswith("This cannot work as it is. In total order one message is handled")
    page = flat(said(capsys, *USUAL, "--nodes", "1", "--target-delay", "5ms", "--retention", "0"))
    assert "A target of 5 ms is below what a distributed queue should promise" in page
    assert "its disk is the only copy" in page
    assert "nothing is kept once it is done" in page
    assert "4 nodes survive no more losses than 3" in flat(said(capsys, *USUAL, "--nodes", "4"))
    page = flat(said(capsys, "--rate", "0.1", "--service-time", "1s", "--order", "key"))
    assert "Fewer than one message a second" in page
    assert "twice what is needed now" in page
    page = flat(said(capsys, *USUAL, "--failures", "0.01", "--guarantee", "at-most-once"))
    assert "1.00% of the work failing" in page
    page = flat(said(capsys, *USUAL, "--failures", "0.5"))
    assert "(10,000/s with what is tried again)" in page
    page = flat(said(capsys, "--rate", "1e6", "--service-time", "1ms", "--size", "100KiB"))
    assert "That is too few" in page
    page = flat(said(capsys, "--rate", "9", "--service-time", "1ms", "--guarantee", "exactly-once"))
    assert "A transaction takes about as long as this work does" in page


def test_what_is_typed_wrongly(capsys: Captured) -> None:
    assert "--rate" in complaint(capsys, 2, "--service-time", "1")
    assert "must be a time such as 0.2 (seconds)" in complaint(
        capsys, 2, "--rate", "1", "--service-time", "soon"
    )
    assert "a time of 0 or more" in complaint(capsys, 2, "--rate", "1", "--service-time", "-1")
    assert "must be a size such as" in complaint(capsys, 2, *USUAL, "--size", "big")
    assert "--guarantee" in complaint(capsys, 2, *USUAL, "--guarantee", "perhaps")
    assert "--rate must be from" in complaint(capsys, 1, "--rate", "0", "--service-time", "1")
    assert "is --service-time in seconds?" in complaint(
        capsys, 1, "--rate", "5000", "--service-time", "200"
    )


def test_numbers_for_people() -> None:
    times = (0.0, 2e-7, 0.0002, 0.0312, 10.0, 90.0, 150.0, 3_600.0, 90_000.0, 7 * 86_400.0)
    shown = [show_time(one) for one in times]
    assert shown == [
        "0 s", "200 ns", "200 µs", "31.2 ms", "10 s", "90 s", "2.50 min", "1 h", "25 h", "7 d",
    ]  # fmt: skip
    assert show_time(float("inf")) == "for ever"
    assert [show_size(one) for one in (5, 2_048, 1.5 * 2**20, 2**40)] == [
        "5 B", "2 KiB", "1.50 MiB", "1 TiB",
    ]  # fmt: skip
    assert [show_count(one) for one in (0.25, 3, 12.4, 1_429, 28_278_000, 13.1e9)] == [
        "0.25", "3", "12", "1,429", "28.3 M", "13.1 G",
    ]  # fmt: skip
    assert [show_money(one) for one in (0.4, 99.5, 875_000)] == ["$0.40", "$99.50", "$875,000"]
