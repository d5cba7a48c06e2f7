"""A batch that is repeated has the plan it had, and any other has another."""

import shutil
from pathlib import Path

from penstock.spark.sink.stream_writer import plan_of


def plan(checkpoint: Path, batch: int, text: str) -> None:
    (checkpoint / "offsets").mkdir(parents=True, exist_ok=True)
    (checkpoint / "offsets" / str(batch)).write_text(text)


def test_plans_are_told_apart(tmp_path: Path) -> None:
    first = tmp_path / "with space"
    plan(first, 0, "v1\n{}\n0")
    assert plan_of(str(first), 0)
    shutil.copytree(first, tmp_path / "copy")
    plan(first, 1, "v1\n{}\n100")
    plan(tmp_path / "copy", 1, "v1\n{}\n90")
    assert plan_of(str(tmp_path / "copy"), 0) == plan_of(str(first), 0)
    assert plan_of(str(tmp_path / "copy"), 1) != plan_of(str(first), 1)


def test_a_checkpoint_may_be_a_url(tmp_path: Path) -> None:
    plan(tmp_path / "a b", 3, "v1")
    wanted = plan_of(str(tmp_path / "a b"), 3)
    assert wanted
    for written in (f"file://{tmp_path}/a%20b", f"file:{tmp_path}/a%20b"):
        assert plan_of(written, 3) == wanted


def test_what_cannot_be_read_says_nothing(tmp_path: Path) -> None:
    assert plan_of(None, 0) == plan_of("", 0) == ""
    assert plan_of("hdfs://somewhere/checkpoint", 0) == ""
    assert plan_of("s3a://bucket/checkpoint", 0) == ""
    assert plan_of(str(tmp_path), 5) == ""
