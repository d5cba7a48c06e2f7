"""`penstock serve` and `penstock dev`, up to the point where a broker would start."""

import socket
from pathlib import Path

import pytest

from penstock.cli.broker.banner import box_lines
from penstock.cli.broker.serve import choose_ports
from penstock.cli.main import run
from penstock.server.sources import load_config


@pytest.fixture(autouse=True)
def empty_directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (["serve"], 2, "penstock: A broker needs a directory to keep its data in: --data PATH."),
        (["serve", "--data", "d", "--kafka", "0.0.0.0:1"], 1, "penstock: kafka = 0.0.0.0:1 can be"),
        (["dev", "--http", "0.0.0.0:1"], 1, "penstock: http = 0.0.0.0:1 can be reached"),
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


def test_the_box() -> None:
    lines = box_lines(
        "Running", [("Kafka", "h:1"), ("Data", "somewhere")], kafka="h:1", remarks=["Mind the gap."]
    )
    box = lines[: lines.index("")]
    assert len({len(line) for line in box}) == 1, "its sides are straight"
    text = "\n".join(lines)
    assert "│ Kafka  h:1 " in text
    assert "Mind the gap." in text
    for snippet in (
        "KafkaProducer(bootstrap_servers=",
        '"bootstrap.servers": "h:1"',
        'blocking.connect("penstock://h:1")',
        "penstock produce greetings --create topic --url penstock://h:1",
    ):
        assert snippet in text
    python = text.split("# the command line")[0].split("# Python")[1].partition("\n")[2]
    compile(python, "box", "exec")
    assert "boto3" not in text


def test_the_box_tells_of_sqs() -> None:
    text = "\n".join(box_lines("Running", [("SQS", "http://h:2")], kafka="h:1", sqs="http://h:2"))
    assert "export AWS_ENDPOINT_URL_SQS=http://h:2\n" in text
    compile(text.split("# boto3")[1], "box", "exec")
