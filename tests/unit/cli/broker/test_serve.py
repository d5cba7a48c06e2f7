"""`penstock serve` and `penstock dev`, up to the point where a broker would start."""

import socket
import threading
from collections.abc import Callable
from pathlib import Path
from queue import SimpleQueue

import pytest

from penstock.cli.broker.banner import broker_lines, command
from penstock.cli.broker.serve import choose_ports
from penstock.cli.main import run
from penstock.core.types import NodeId
from penstock.server.server import Places
from penstock.server.sources import LoadedConfig, load_config


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["serve"], 2, "penstock: A broker needs a directory to keep its data in: --data PATH."),
        (["serve", "--data", "d", "--kafka", "0.0.0.0:1"], 1, "penstock: kafka = 0.0.0.0:1 can be"),
        (["dev", "--http", "0.0.0.0:1"], 1, "penstock: http = 0.0.0.0:1 can be reached"),
        (["serve", "--data", "d", "--port", "65534"], 2, "penstock: --port = 65534 must be from 0"),
        (["dev", "--temporary", "--data", "d"], 2, "penstock: --temporary and a data directory"),
        (["serve", "--data", "d", "--config", "none"], 1, "penstock: the configuration none"),
    ],
)
def test_refused_before_anything_is_opened(
    capsys: pytest.CaptureFixture[str], arguments: list[str], code: int, sentence: str
) -> None:
    assert run(arguments) == code
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith(sentence)
    assert not Path("d").exists()


def test_a_usual_port_that_is_taken_is_replaced_and_one_that_was_asked_for_is_not() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        taken = f"127.0.0.1:{listener.getsockname()[1]}"
        asked = load_config(flags={"kafka": taken}, environment={})
        kept, remarks = choose_ports(asked)
        assert str(kept.config.broker.kafka) == taken
        assert not any("kafka" in remark for remark in remarks)
        usual = asked.changed({"kafka": asked.config.broker.kafka}, "")
        chosen, remarks = choose_ports(usual)
        assert str(chosen.config.broker.kafka) == "127.0.0.1:0"
        port = taken.rpartition(":")[2]
        assert f"Port {port} is taken, so kafka got a free one." in remarks


def test_four_lines_fit_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    usual = broker_lines(kafka="127.0.0.1:9092", http="127.0.0.1:8080", data="./d", sqs=True)
    assert usual == [
        "Penstock is running at penstock://127.0.0.1:9092, for Kafka clients 127.0.0.1:9092",
        "Dashboard, HTTP and SQS: http://127.0.0.1:8080",
        "Data: ./d",
        "Programs to paste: penstock cheat python (or kafka, sqs, cli). Ctrl-C stops it.",
    ]
    other = broker_lines(kafka="127.0.0.1:40000", http="127.0.0.1:8080", data="./d", sqs=False)
    assert "penstock cheat python --url penstock://127.0.0.1:40000 (or kafka, cli)" in other[-1]
    assert "SQS" not in "".join(other)


def test_a_command_for_another_terminal_names_the_broker_where_it_must(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.delenv("PENSTOCK_URL", raising=False)
    usual = "penstock://127.0.0.1:9092,127.0.0.1:21000"
    assert command("top", usual) == "penstock top"
    monkeypatch.setenv("PENSTOCK_URL", "penstock://a.example:9092")
    assert command("top", usual) == f"penstock top --url {usual}"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--port", "9500"], ("127.0.0.1:9500", "127.0.0.1:9501", "127.0.0.1:9502")),
        (["-p", "0"], ("127.0.0.1:0", "127.0.0.1:0", "127.0.0.1:0")),
        (
            ["--port=9500", "--http", "127.0.0.1:8888"],
            ("127.0.0.1:9500", "127.0.0.1:8888", "127.0.0.1:9502"),
        ),
        (
            ["--kafka", "127.0.0.2:1", "--port", "9500"],
            ("127.0.0.2:1", "127.0.0.1:9501", "127.0.0.1:9502"),
        ),
    ],
)
@pytest.mark.parametrize("command", ["serve", "dev"])
def test_one_flag_for_the_ports(
    monkeypatch: pytest.MonkeyPatch, command: str, arguments: list[str], expected: tuple[str, ...]
) -> None:
    started: list[LoadedConfig] = []

    def note(loaded: LoadedConfig, *, on_ready: object) -> int:
        started.append(loaded)
        return 0

    monkeypatch.setattr("penstock.cli.broker.serve.run_broker", note)
    monkeypatch.setattr("penstock.cli.broker.serve.is_free", lambda _address: False)
    assert run([command, "--data", "d", *arguments]) == 0
    broker = started[0].config.broker
    assert (str(broker.kafka), str(broker.http), str(broker.peer)) == expected


@pytest.mark.parametrize("command", ["serve", "dev"])
def test_the_dashboard_is_opened_once_the_broker_serves(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    places = Places(
        node=NodeId(1), pid=1, data="d", kafka="127.0.0.1:9", http="0.0.0.0:8", peer="127.0.0.1:7"
    )
    opened: SimpleQueue[str] = SimpleQueue()

    def serve(_loaded: LoadedConfig, *, on_ready: Callable[[Places], None]) -> int:
        on_ready(places)
        return 0

    monkeypatch.setattr("penstock.cli.broker.serve.run_broker", serve)
    monkeypatch.setattr("penstock.cli.broker.serve.webbrowser.open", opened.put)
    assert run([command, "--data", "d", "--port", "0", "--open"]) == 0
    assert opened.get(timeout=30) == "http://127.0.0.1:8"
    for thread in threading.enumerate():
        if thread.name == "dashboard":
            thread.join(30)
    assert "no browser was found; the dashboard is at http://127.0.0.1:8" in capsys.readouterr().err
    assert run([command, "--data", "d", "--port", "0"]) == 0
    assert opened.empty()
