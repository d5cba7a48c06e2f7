"""`penstock job`: what needs no Spark, and what is refused before it is started."""

import json
from pathlib import Path

import pytest

from penstock.cli.main import run
from penstock.spark.lake.entries import Change, Covered
from penstock.spark.lake.lake import Lake


def fill(root: Path) -> None:
    lake = Lake.open(str(root))
    for number, (partition, first, end) in enumerate(((0, 0, 10), (0, 20, 30), (1, 5, 8))):
        one = Covered(
            topic="orders", topic_id="id", partition=partition, first=first, end=end, rows=0
        )
        lake.commit(Change(writer="archive", query="q", batch=number, covered=(one,)))


def test_the_catalog_is_shown(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    fill(tmp_path)
    assert run(["job", "catalog", str(tmp_path)]) == 0
    assert capsys.readouterr().out == (
        "TOPIC   PARTITION  OFFSETS  WHICH       MISSING\n"
        "orders          0       20  0–9, 20–29  10–19\n"
        "orders          1        3  5–7         nothing\n"
    )
    assert run(["job", "catalog", str(tmp_path), "--topic", "orders", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["entry"] == 3
    assert found["topics"]["orders"]["offsets"] == {"0": [[0, 10], [20, 30]], "1": [[5, 8]]}
    assert found["topics"]["orders"]["gaps"] == {"0": [[10, 20]]}


def test_what_is_not_there_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["job", "catalog", str(tmp_path)]) == 0
    assert "is empty" in capsys.readouterr().err
    assert run(["job", "catalog", str(tmp_path), "--topic", "orders"]) == 1
    assert "has nothing of topic orders" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ("replay a b --name x --since yesterday", "--since"),
        ("archive a --lake l --every soon", "--every"),
        ("compact l --target much", "--target"),
        ("replay a b", "--name"),
    ],
)
def test_a_mistyped_flag_is_told_before_spark_is_started(
    words: str, told: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(["job", *words.split()]) == 2
    assert told in capsys.readouterr().err
