"""The commented file is one that can be used."""

import re
import tomllib
from pathlib import Path

import pytest

from penstock.server.config import FIELDS, Config
from penstock.server.reference import reference_page, reference_toml
from penstock.server.sources import load_config


def test_the_file_changes_nothing(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    path.write_text(reference_toml(), "utf-8")
    loaded = load_config(flags={}, environment={}, file=str(path))
    assert loaded.config == Config()
    assert all(loaded.is_default(entry.name) for entry in FIELDS)


def test_every_setting_with_a_default_can_be_uncommented(tmp_path: Path) -> None:
    path = tmp_path / "penstock.toml"
    text = re.sub(r"^# (\w+ = )(?!\"[A-Z1])", r"\1", reference_toml(), flags=re.MULTILINE)
    path.write_text(text, "utf-8")
    loaded = load_config(flags={}, environment={}, file=str(path))
    assert loaded.config == Config()
    said = {entry.name for entry in FIELDS if not loaded.is_default(entry.name)}
    assert said >= {"shards", "topics.auto_create", "log.level", "storage.segment_size"}


def test_every_setting_is_in_both() -> None:
    document = tomllib.loads(re.sub(r"^# (\w+ = )", r"\1", reference_toml(), flags=re.MULTILINE))
    page = reference_page()
    for entry in FIELDS:
        table, _, key = entry.name.rpartition(".")
        assert key in (document[table] if table else document)
        assert f"`{entry.flag}` `{entry.variable}`" in page


@pytest.mark.parametrize("text", [reference_toml(), reference_page()])
def test_nothing_is_left_out(text: str) -> None:
    assert "None" not in text
    assert text.endswith("\n")
