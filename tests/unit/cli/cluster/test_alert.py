"""`penstock alert …` and `penstock generate prometheus`."""

import io
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
import yaml

from penstock.cli.main import run
from penstock.watch.webhook import Webhook
from tests.unit.watch.test_webhook import Receiver
from tests.web_broker import WebBroker

Captured = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[WebBroker]:
    with WebBroker(tmp_path_factory.mktemp("alert")) as running:
        yield running


@pytest.fixture(autouse=True)
def _reached(broker: WebBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_URL", f"penstock://{broker.address}")
    monkeypatch.setattr("sys.stdin", io.StringIO())


def test_alerts_are_listed(broker: WebBroker, capsys: Captured) -> None:
    broker.look()
    assert run(["alert", "list"]) == 0
    assert capsys.readouterr().out == "nothing is wrong\n"
    settings = {"alert_no_consumers_ms": "off,off,0"}
    broker.expect(201, "POST", "/v1/queues", {"name": "jobs", "settings": settings})
    broker.expect(201, "POST", "/v1/queues/jobs/messages", {"messages": [{"body": "a"}]})
    assert broker.process is not None
    while not broker.process.watch.alerts.firing():
        broker.look()
    assert run(["alert", "list"]) == 1
    head, row = capsys.readouterr().out.splitlines()
    assert head.split() == ["LEVEL", "STATE", "SINCE", "RULE", "WHAT", "RUNBOOK"]
    assert row.split()[:2] == ["critical", "firing"]
    assert row.split()[-1] == f"http://{broker.http}/runbooks/no-consumers"
    assert run(["alert", "list", "--json"]) == 1
    document = msgspec.json.decode(capsys.readouterr().out)
    assert document["alerts"][0]["rule"] == "no_consumers"
    key = document["alerts"][0]["key"]
    assert run(["alert", "ack", key, "--by", "mira", "--comment", "I look"]) == 0
    assert capsys.readouterr().out == (
        f"{key} is acknowledged until it is over or gets worse, for 1d at most\n"
    )
    assert run(["alert", "list"]) == 0, "what is acknowledged is known"
    assert "acked by mira" in capsys.readouterr().out
    assert run(["alert", "silence", "--subject", "jo*", "--for", "2h", "--by", "mira"]) == 0
    assert "every rule of jo* is silenced for 2h" in capsys.readouterr().out
    assert run(["alert", "silences"]) == 0
    _, silence, ack = capsys.readouterr().out.splitlines()
    assert "I look" in ack
    for row in (ack, silence):
        assert run(["alert", "unsilence", row.split()[0]]) == 0
        assert "is announced again" in capsys.readouterr().out
    assert run(["alert", "list"]) == 1
    capsys.readouterr()
    assert run(["alert", "ack", "none"]) == 1
    assert "no alert none is active" in capsys.readouterr().err
    assert run(["alert", "silence", "--for", "2h"]) == 1
    assert "name a rule or a subject" in capsys.readouterr().err
    assert run(["alert", "silence", "--rule", "depth", "--for", "soon"]) == 1
    assert "is a duration" in capsys.readouterr().err
    wanted = {"acknowledge alert", "silence alerts", "end silence"}
    while True:  # A record follows its action after a moment.
        orders = broker.expect(200, "GET", "/v1/audit")["orders"]
        if wanted <= {one["action"] for one in orders}:
            break
    assert run(["alert", "list", "--state", "resolved"]) == 0
    assert capsys.readouterr().out == "no alert is resolved\n"


def test_a_runbook_is_printed(capsys: Captured) -> None:
    assert run(["alert", "runbook", "no_consumers"]) == 0
    assert run(["alert", "runbook", "no-consumers"]) == 0
    text = capsys.readouterr().out
    assert text.count("# Runbook: no consumers") == 2
    assert "<!--" not in text
    assert run(["alert", "runbook", "nothing"]) == 1
    assert "there are lag, depth" in capsys.readouterr().err


def test_the_webhook_is_tried(broker: WebBroker, capsys: Captured) -> None:
    assert run(["alert", "test"]) == 1
    assert "no webhook is set" in capsys.readouterr().err
    assert broker.process is not None
    receiver = Receiver()
    try:
        broker.process.watch.webhook = Webhook(receiver.url)
        assert run(["alert", "test"]) == 0
        assert capsys.readouterr().out == "http://127.0.0.1/… has taken a test\n"
        receiver.answers = [500]
        assert run(["alert", "test"]) == 1
        assert "it answered 500" in capsys.readouterr().err
    finally:
        receiver.close()


def test_rules_for_prometheus(capsys: Captured, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PENSTOCK_ALERTS_DEPTH", "7,off,off")
    assert run(["generate", "prometheus"]) == 0
    (group,) = yaml.safe_load(capsys.readouterr().out)["groups"]
    (depth,) = [one for one in group["rules"] if one["labels"]["rule"] == "depth"]
    assert depth["expr"].endswith("> 7")


def test_numbers_of_a_file(capsys: Captured, tmp_path: Path) -> None:
    (tmp_path / "other.toml").write_text('[alerts]\ndisk = "off,off,95%"\n')
    assert run(["generate", "prometheus", "--config", "other.toml"]) == 0
    (group,) = yaml.safe_load(capsys.readouterr().out)["groups"]
    (disk,) = [one for one in group["rules"] if one["labels"]["rule"] == "disk"]
    assert disk["expr"].endswith("> 0.95")
    assert disk["labels"]["severity"] == "critical"


def test_a_configuration_for_prometheus(capsys: Captured) -> None:
    assert run(["generate", "prometheus", "--scrape", "a:1", "--scrape", "b:2"]) == 0
    (job,) = yaml.safe_load(capsys.readouterr().out)["scrape_configs"]
    assert job["static_configs"] == [{"targets": ["a:1", "b:2"]}]
