"""`penstock top`: frames of a real broker, how they look, and a broker that is away."""

import dataclasses
import io
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from rich.console import Console

from penstock.cli.cluster.rates import ClusterSample, Frame, GroupRow, NodeRow, QueueRow, Totals
from penstock.cli.cluster.top import GROUPS_PER_TICK, Broker, watch
from penstock.cli.cluster.top_screen import draw
from penstock.cli.main import run
from penstock.core.errors import Unavailable
from penstock.testing.clock import ManualClock
from tests.web_broker import WebBroker

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("top")) as running:
        yield running


@pytest.fixture(autouse=True)
def _reached(broker: WebBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_URL", f"penstock://{broker.address}")
    monkeypatch.setattr("penstock.cli.cluster.top._wait_blindly", lambda _: False)
    monkeypatch.setattr("sys.stdin", io.StringIO())


def told(capsys: Captured, *arguments: str) -> str:
    capsys.readouterr()
    assert run(["top", *arguments]) == 0, capsys.readouterr().err
    return capsys.readouterr().out


def make_queue(broker: WebBroker, name: str, messages: int) -> None:
    settings = {"dead_letter_topic": ""}
    broker.expect(201, "POST", "/v1/queues", {"name": name, "settings": settings})
    bodies = [{"body": str(number)} for number in range(messages)]
    broker.expect(201, "POST", f"/v1/queues/{name}/messages", {"messages": bodies})


def test_one_frame_for_people(capsys: Captured, broker: WebBroker) -> None:
    make_queue(broker, "jobs", 3)
    lines = told(capsys, "--once", "--prefix", "jobs").splitlines()
    assert "node 1 leads" in lines[0]
    assert lines[1].startswith("ready 3  leased 0  delayed 0  dead 0  in 0/s")
    assert lines[3].split() == [
        "QUEUE", "GROUP", "STATE", "READY", "LEASED", "DELAYED", "DEAD", "OLDEST", "IN/S",
        "OUT/S", "ACK/S",
    ]  # fmt: skip
    assert lines[4].split()[:7] == ["jobs", "queue", "fine", "3", "0", "0", "0"]


def test_one_frame_for_programs(capsys: Captured, broker: WebBroker) -> None:
    make_queue(broker, "tasks", 2)
    broker.expect(200, "POST", "/v1/queues/tasks/pause", {})
    out = told(capsys, "--once", "--json", "--prefix", "tasks")
    assert len(out.splitlines()) == 1
    (row,) = msgspec.json.decode(out)["queues"]
    assert (row["queue"], row["ready"], row["lag"], row["paused"]) == ("tasks", 2, 2, True)
    assert row["level"] == "fine"
    document = msgspec.json.decode(out)
    assert [node["alive"] for node in document["nodes"]] == [True]
    assert document["problem"] is None


def test_rates_of_a_real_broker(broker: WebBroker) -> None:
    make_queue(broker, "rates", 1)
    clock = ManualClock()
    watched = Broker(broker.http, prefix="rates", clock=clock)

    def wait(_: float) -> bool:
        bodies = [{"body": "x"}] * 10
        broker.expect(201, "POST", "/v1/queues/rates/messages", {"messages": bodies})
        clock.advance(2_000)
        return False

    frames = watch(watched, interval=2.0, sorting="trouble", wait=wait, once=False)
    first, _ = next(frames)
    second, _ = next(frames)
    assert (first.queues[0].ready, first.queues[0].in_rate) == (1, None)
    assert (second.queues[0].ready, second.queues[0].in_rate) == (11, 5.0)


def test_no_queues(capsys: Captured) -> None:
    assert "there are no queues; make one" in told(capsys, "--once", "--prefix", "nothing")


def test_what_is_refused(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(["top", "--interval", "0"]) == 2
    assert "--interval must be from 0.1 to 3,600 seconds" in capsys.readouterr().err
    assert run(["top", "--once", "--http", "127.0.0.1:1"]) == 1
    assert "no broker answers at http://127.0.0.1:1" in capsys.readouterr().err


class Flaky:
    """Answers, is away, and answers again."""

    def __init__(self) -> None:
        self.looks = 0

    def look(self) -> ClusterSample:
        self.looks += 1
        if self.looks == 2:
            raise Unavailable("no broker answers")
        return ClusterSample(at_ms=self.looks * 1_000, queues=())


def test_a_broker_that_is_away_for_a_while() -> None:
    ends = iter([False, False, True])
    notes = [
        note
        for _, note in watch(
            Flaky(), interval=1.0, sorting="name", wait=lambda _: next(ends), once=False
        )
    ]
    assert notes == ["", "no broker answers", ""]


def test_groups_are_looked_at_in_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many there are, a tick asks for a few."""
    names = [f"group-{number:02}" for number in range(GROUPS_PER_TICK + 4)]
    asked: list[str] = []

    def ask_for(_http: str, _method: str, path: str, kind: type[Any]) -> Any:
        asked.append(path)
        if path == "/v1/groups":
            groups = [{"group": name, "state": "Empty", "coordinator": 1} for name in names]
            return msgspec.convert({"groups": groups}, kind)
        if path.startswith("/v1/groups/"):
            name = path.rpartition("/")[2]
            described = {"group": name, "state": "Empty", "protocol": "", "coordinator": 1,
                         "members": [], "partitions": [], "lag": 0}  # fmt: skip
            return msgspec.convert(described, kind)
        if path == "/v1/cluster":
            status = {"cluster_id": "c", "node": 1, "controller": 1, "read_only": False,
                      "health": "well", "nodes": [], "shards": [], "topics": 0,
                      "partitions": 0}  # fmt: skip
            return msgspec.convert(status, kind)
        return msgspec.convert({"queues": [], "next": None}, kind)

    monkeypatch.setattr("penstock.cli.cluster.top.ask_for", ask_for)
    watched = Broker("nowhere:1", clock=ManualClock())
    assert len(watched.look().groups) == GROUPS_PER_TICK
    assert len(asked) == 3 + GROUPS_PER_TICK
    assert len(watched.look().groups) == len(names)
    del names[3:]
    assert [one.lag.group for one in watched.look().groups] == names


def screen(frame: Frame, lines: int | None) -> list[str]:
    console = Console(file=io.StringIO(), width=120, color_system=None)
    console.print(draw(frame, lines=lines))
    assert isinstance(console.file, io.StringIO)
    return [line.rstrip() for line in console.file.getvalue().splitlines()]


def row(name: str, **changes: Any) -> QueueRow:
    bare = QueueRow(
        queue=name,
        group="queue",
        paused=False,
        ready=0,
        leased=0,
        delayed=0,
        dead=0,
        oldest_age_ms=90_000,
    )
    return dataclasses.replace(bare, **changes)


def test_a_screen_is_never_exceeded() -> None:
    frame = Frame(
        seconds=1.0,
        health="1 of 2 nodes",
        totals=Totals(),
        queues=tuple(row(f"queue-{number}") for number in range(100)),
        groups=tuple(
            GroupRow(group=f"group-{number}", state="Stable", members=1, lag=number)
            for number in range(50)
        ),
        nodes=(
            NodeRow(node=1, alive=True, leads=3, holds=3, kafka=""),
            NodeRow(node=2, alive=False, leads=0, holds=3, kafka=""),
        ),
    )
    shown = screen(frame, 24)
    assert len(shown) <= 24
    assert shown[0] == "1 of 2 nodes  node 1 leads 3  node 2 is gone"
    assert any(line.startswith("… and") and line.endswith("more queues") for line in shown)
    assert shown[-1] == "… and 45 more groups"
    assert len(screen(frame, None)) == 100 + 50 + 6


def test_names_do_not_talk_to_the_terminal() -> None:
    frame = Frame(seconds=None, health="", totals=Totals(), queues=(row("a\x1b[2J", dead=2),),
                  groups=(), nodes=(), more_queues=True)  # fmt: skip
    shown = screen(frame, None)
    assert r"a\x1b[2J" in shown[4]
    assert "1m" in shown[4]
    assert shown[5] == "… and more queues"
