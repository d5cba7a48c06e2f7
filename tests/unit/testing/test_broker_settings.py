"""A test's broker is set by the test alone."""

from pathlib import Path

import pytest

from penstock.core.errors import LocalError
from penstock.testing.broker_settings import load_settings


def test_neither_a_file_nor_variables_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("PENSTOCK_SHARDS", "7")
    Path("penstock.toml").write_text("shards = 9\n", "utf-8")
    loaded = load_settings({"data": "x"})
    assert (loaded.config.broker.shards, loaded.file) == (2, None)
    assert load_settings({"data": "x", "shards": 3}).config.broker.shards == 3


def test_what_nobody_knows_and_what_makes_no_sense_is_refused() -> None:
    with pytest.raises(LocalError, match="there is no setting shard;"):
        load_settings({"shard": 1})
    with pytest.raises(LocalError, match=r"shards = 0 \(default of a test\) is not allowed"):
        load_settings({"shards": 0})
    with pytest.raises(LocalError, match="can be reached from other machines"):
        load_settings({"kafka": "0.0.0.0:0"})
