"""`penstock doctor` as a command; its checks are in `test_diagnosis.py`."""

import pytest

from tests.unit.cli.commands import Commands


def test_a_broker_that_is_well(commands: Commands) -> None:
    found = commands.document("doctor", "--data", ".")
    assert found["ok"] is True
    verdicts = {one["check"]: one["verdict"] for one in found["findings"]}
    for check in ("python", "native", "version", "http", "broker's clock", "cluster"):
        assert verdicts[check] == "ok", check
    printed, talk = commands.told(0, "doctor", "--data", ".")
    assert printed.startswith("ok    python          Python 3.")
    assert "\x1b" not in printed
    assert talk.startswith(f"{len(found['findings'])} checks: ")


def test_a_broker_that_is_not_there(commands: Commands, monkeypatch: pytest.MonkeyPatch) -> None:
    nobody = ("--url", "penstock://127.0.0.1:1")
    printed, talk = commands.told(1, "doctor", *nobody)
    assert printed.count("fail  ") == 2
    assert "start a broker with `penstock dev`" in printed
    assert ": 2 failed" in talk
    monkeypatch.delenv("PENSTOCK_URL")
    monkeypatch.setattr("penstock.cli.address_flags.DEFAULT_URL", "penstock://127.0.0.1:1")
    monkeypatch.setattr("penstock.cli.doctor.command.DEFAULT_URL", "penstock://127.0.0.1:1")
    monkeypatch.setattr("penstock.cli.address_flags.DEFAULT_HTTP", "127.0.0.1:1")
    printed, _ = commands.told(0, "doctor")
    assert "warn  http " in printed, "nobody said that one should be there"


def test_a_context_without_an_http_address(
    commands: Commands, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PENSTOCK_URL")
    commands.said("context", "add", "here", "--url", f"penstock://{commands.broker.address}")
    assert "ok    native          penstock://" in commands.said("doctor")
