"""`penstock bench`: its commands on an engine in memory and on a broker, its reports, its ends."""

import asyncio
import multiprocessing
import signal
from pathlib import Path

import msgspec
import pytest

import penstock
from penstock.cli.bench import loads as bench_loads
from penstock.cli.bench import progress as bench_progress
from penstock.cli.bench import watch as bench_watch
from penstock.cli.bench.load import Load, Pulse
from penstock.cli.bench.processes import ChildShare
from penstock.cli.main import run
from penstock.core.errors import Unavailable
from tests.unit.cli.commands import Commands

Captured = pytest.CaptureFixture[str]
MEMORY = "memory:bench"


def told(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["bench", *arguments, "--url", MEMORY]) == 0, capsys.readouterr().err
    output = capsys.readouterr()
    assert output.err == "", "what is over within a second has no progress"
    return output.out


def test_reports_for_people(capsys: Captured) -> None:
    lines = told(capsys, "produce", "--messages", "2000", "--batch", "500").splitlines()
    assert lines[0].startswith("2,000 messages sent in ")
    assert "messages/s, " in lines[1]
    assert lines[2].startswith("each call: p50 ")
    assert ", p99.9 " in lines[2]
    assert lines[3].startswith("limit: ")
    assert lines[4].startswith("  client and broker, one process: ")
    lines = told(capsys, "consume", "--messages", "1000", "--clients", "2").splitlines()
    assert lines[0].startswith("1,000 messages received and acknowledged in ")
    lines = told(
        capsys, "latency", "--messages", "20", "--rate", "100000", "--warm-up", "0"
    ).splitlines()
    assert lines[0].startswith("20 messages sent and received in ")
    assert "messages/s of 100,000 asked for" in lines[1]
    assert lines[2].startswith("due to stored:   p50 ")
    assert lines[3].startswith("due to received: p50 ")
    lines = told(capsys, "queue", "--messages", "300", "--fail-share", "0.1").splitlines()
    assert lines[0].startswith("300 messages sent, received and acknowledged in ")
    assert lines[4].startswith("due to done:     p50 ")
    assert lines[5] == "300 stored, 30 failed at first, 30 deliveries again, 0 done twice or more"
    assert lines[6:8] == [
        "in the queue in the end: 0, dead: 0",
        "nothing that was acknowledged is lost",
    ]


def test_reports_for_programs(capsys: Captured, tmp_path: Path) -> None:
    sent = msgspec.json.decode(told(capsys, "produce", "--messages", "100", "--json"))
    assert (sent["messages"], sent["interrupted"], sent["problem"]) == (100, False, None)
    rate = sent["messages_per_second"]
    assert rate == pytest.approx(100 / sent["seconds"])
    assert sent["megabytes_per_second"] == pytest.approx(rate * 100 / 1e6)
    assert sent["call"]["count"] == 1
    assert sent["limit"]["who"]
    file = tmp_path / "latency.hgrm"
    arguments = ("--messages", "5", "--rate", "100000", "--warm-up", "0.0001", "--json")
    found = msgspec.json.decode(told(capsys, "latency", *arguments, "--hdr", str(file)))
    assert found["messages"] == 5, "what was due before the warm-up was over does not count"
    receive = found["receive"]
    times = [receive[f"{name}_ms"] for name in ("p50", "p90", "p99", "p999", "max")]
    assert 0 < times[0] <= times[-1]
    assert times == sorted(times)
    assert "Total count    =            5]" in file.read_text()
    life = msgspec.json.decode(told(capsys, "queue", "--messages", "50", "--json"))["life"]
    assert (life["stored"], life["done_twice"], life["depth"], life["lost"]) == (50, 0, 0, 0)


def topics_of(url: str) -> list[str]:
    async def ask() -> list[str]:
        async with penstock.connect(url) as client:
            return [one.name for one in await client.topics()]

    return asyncio.run(ask())


@pytest.mark.slow
def test_nothing_is_left_behind(
    capsys: Captured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = f"file:{tmp_path / 'data'}"
    assert run(["bench", "produce", "--messages", "10", "--url", url]) == 0
    assert topics_of(url) == []

    async def fail(*_: object, **__: object) -> None:
        raise Unavailable("the broker has gone")

    monkeypatch.setattr(bench_loads, "produce", fail)
    capsys.readouterr()
    assert run(["bench", "produce", "--messages", "10", "--url", url]) == 1
    printed = capsys.readouterr().out
    assert printed.splitlines()[:2] == [
        "ended early: the broker has gone",
        "0 messages sent in 0 s",
    ]
    assert "limit:" not in printed
    assert topics_of(url) == []


@pytest.mark.slow
def test_ctrl_c_ends_early_with_a_report(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    interrupts: list[int] = []

    def interrupt(_show: object, pulse: Pulse, _seconds: float, _passed: float) -> None:
        if pulse.done and not interrupts:
            interrupts.append(pulse.done)
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(bench_watch, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(bench_progress.Silence, "tell", interrupt)
    printed, _ = commands.told(130, "bench", "produce", "--seconds", "60", "--no-progress")
    first, second, *rest = printed.splitlines()
    assert first == "interrupted; this is what was done until then"
    assert " messages sent in " in second
    assert any(line.startswith("  broker: ") and "of a core" in line for line in rest)
    assert "penstock-bench" not in commands.said("topic", "list")


def test_a_queue_of_ones_own_is_kept(commands: Commands) -> None:
    """The broker is not asked what it did: one that was just asked has nothing new to tell."""
    there = ("--queue", "mine", "--http", "127.0.0.1:1")
    commands.said("queue", "create", "mine")
    sent = commands.document("bench", "produce", *there, "--messages", "30")
    assert sent["queue"] == "mine"
    assert "could not be asked: nothing answers" in sent["limit"]["evidence"][1]
    complaint = commands.complaint(1, "bench", "queue", *there)
    assert "mine holds 30 messages, and this load must see its own only" in complaint
    done = commands.document("bench", "consume", *there, "--messages", "30")
    assert done["messages"] == 30
    assert "mine holds no messages" in commands.complaint(1, "bench", "consume", *there)
    life = commands.document("bench", "queue", *there, "--messages", "30")["life"]
    assert (life["stored"], life["lost"]) == (30, 0)
    assert "mine" in commands.said("queue", "list")
    complaint = commands.complaint(1, "bench", "produce", "--queue", "nobodys")
    assert "nobodys" in complaint


@pytest.mark.slow
def test_several_processes_share_a_load(commands: Commands) -> None:
    """It takes two seconds, most of which is Python starting in them."""
    arguments = ("--messages", "400", "--processes", "2", "--fail-share", "0.1", "--batch", "20")
    found = commands.document("bench", "queue", *arguments, "--consumers", "2")
    assert (found["messages"], found["processes"]) == (400, 2)
    assert found["done"]["count"] == found["receive"]["count"] == 400
    life = found["life"]
    assert (life["stored"], life["undone"], life["done_twice"], life["lost"]) == (400, 0, 0, 0)
    assert life["failed"] == life["redelivered"] > 0
    assert "in each of 2 processes" in found["limit"]["evidence"][0]


@pytest.mark.slow
def test_a_process_that_is_killed_is_told_of(commands: Commands) -> None:
    async def work() -> str:
        url = f"penstock://{commands.broker.address}"
        child = ChildShare(Load(kind="produce", url=url, queue="nobodys"))
        try:
            await child.ready()
            assert child.peek().sending, "one that has said nothing yet is not done"
            for process in multiprocessing.active_children():
                process.kill()
            return (await child.run(0.0)).problem
        finally:
            child.close()

    assert asyncio.run(work()) == "a client process ended by itself, with code -9"


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (("produce", "--messages", "0"), "--messages must be from 1 to 1,000,000,000, not 0"),
        (("produce", "--batch", "1000000"), "--batch must be from 1 to 100,000"),
        (("consume", "--clients", "0"), "--clients must be from 1"),
        (("produce", "--size", "2MiB"), "--size must be from 1"),
        (("produce", "--size", "much"), "must be a size such as"),
        (("produce", "--seconds", "0"), "--seconds must be above 0"),
        (("produce", "--seconds", "soon"), "--seconds = "),
        (("produce", "--rate", "100"), "--rate needs an end: add --seconds or --messages"),
        (("produce", "--processes", "2"), "needs a broker: memory:bench lives inside one process"),
        (("produce", "--processes", "65"), "--processes must be from 1 to 64"),
        (("latency", "--rate", "0"), "--rate must be above 0"),
        (("latency", "--size", "4"), "--size must be at least 12, for a stamp"),
        (("latency", "--seconds", "1", "--messages", "1"), "exclude each other"),
        (("queue", "--size", "20"), "--size must be at least 24, for a stamp"),
        (("queue", "--fail-share", "1"), "--fail-share must be from 0 to below 1"),
        (("queue", "--work-time", "1m"), "--work-time must be at most 20 s, not 1m"),
        (("queue", "--consumers", "0"), "--consumers must be from 1"),
        (("queue", "--messages", "200000000"), "--messages must be at most 100,000,000"),
    ],
)
def test_what_is_refused(capsys: Captured, arguments: tuple[str, ...], complaint: str) -> None:
    assert run(["bench", *arguments, "--url", MEMORY]) == 2
    assert complaint in capsys.readouterr().err


def test_a_file_that_cannot_be_written_is_told_of_at_once(capsys: Captured) -> None:
    assert run(["bench", "produce", "--hdr", "/no/such/place", "--url", MEMORY]) == 1
    assert "--hdr /no/such/place cannot be written" in capsys.readouterr().err


def test_no_broker(capsys: Captured) -> None:
    assert run(["bench", "produce", "--url", "penstock://127.0.0.1:1"]) == 1
    assert "127.0.0.1:1" in capsys.readouterr().err
