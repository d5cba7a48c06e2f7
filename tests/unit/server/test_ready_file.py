"""The ready file: whole, and gone with its broker."""

import os
from pathlib import Path

import msgspec
import pytest

from penstock.core.errors import LocalError
from penstock.server.ready_file import (
    remove_old_ready_file,
    remove_ready_file,
    write_ready_file,
)


class Content(msgspec.Struct):
    pid: int


def test_it_is_written_whole_and_removed(tmp_path: Path) -> None:
    path = tmp_path / "ready"
    write_ready_file(str(path), Content(pid=7))
    assert path.read_bytes() == b'{"pid":7}\n'
    assert list(tmp_path.iterdir()) == [path]
    remove_ready_file(str(path))
    remove_ready_file(str(path))
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path: Path) -> None:
    with pytest.raises(LocalError, match="ready_file = .* cannot be written: No such file"):
        write_ready_file(str(tmp_path / "no" / "ready"), Content(pid=7))


@pytest.mark.parametrize(
    ("content", "stays"),
    [
        (b'{"pid":%d}' % os.getppid(), True),
        (b'{"pid":1}', True),
        (b'{"pid":%d}' % os.getpid(), False),
        (b'{"pid":4194304999}', False),
        (b'{"pid":0}', False),
        (b'{"pid":-1}', False),
        (b"rubbish", False),
    ],
    ids=["parent", "first", "itself", "too large", "zero", "negative", "rubbish"],
)
def test_only_what_a_dead_broker_left_is_removed(
    tmp_path: Path, content: bytes, stays: bool
) -> None:
    path = tmp_path / "ready"
    path.write_bytes(content)
    remove_old_ready_file(str(path))
    assert path.exists() is stays
    remove_old_ready_file(str(tmp_path / "none"))
