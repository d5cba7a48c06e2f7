"""What a broker needs from the operating system."""

import resource
from pathlib import Path

import pytest

from penstock.core.errors import DirectoryRefused
from penstock.server.process import make_data_directory, raise_open_files_limit


def test_the_directory_is_made_once(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "data"
    make_data_directory(str(path))
    make_data_directory(str(path))
    assert path.is_dir()


def test_a_directory_that_cannot_be(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(DirectoryRefused, match="file/data cannot be made: Not a directory"):
        make_data_directory(str(tmp_path / "file" / "data"))


def test_as_many_open_files_as_are_allowed() -> None:
    allowed = raise_open_files_limit()
    assert resource.getrlimit(resource.RLIMIT_NOFILE) == (allowed, allowed)
