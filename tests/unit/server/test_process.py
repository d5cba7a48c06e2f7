"""What a broker needs from the operating system."""

import resource
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.errors import DirectoryRefused
from penstock.core.limits import KIB, MIB
from penstock.server.process import (
    _TRIM,
    make_data_directory,
    raise_open_files_limit,
    release_freed_memory,
)


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


def test_a_data_directory_is_for_its_owner_and_group(tmp_path: Path) -> None:
    make_data_directory(str(tmp_path / "data"))
    assert (tmp_path / "data").stat().st_mode & 0o027 == 0


@pytest.mark.parametrize("flags", [["-O"], []])
def test_a_broker_needs_asserts(flags: list[str]) -> None:
    program = "from penstock.server.process import check_asserts; check_asserts()"
    done = subprocess.run(
        [sys.executable, *flags, "-c", program], capture_output=True, text=True, check=False
    )
    assert (done.returncode != 0) == bool(flags)
    assert ("start it without -O" in done.stderr) == bool(flags)


BLOCK = 64 * KIB
"""Small enough for the heap, and not a mapping of its own."""


def resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text("ascii").split()[1]) * 4 * KIB


@pytest.mark.skipif(_TRIM is None, reason="the C library has no malloc_trim")
def test_freed_blocks_between_used_ones_go_back() -> None:
    blocks = [bytes([1]) * BLOCK for _ in range(1_024)]
    used = blocks[::64]
    before = resident_bytes()
    del blocks
    release_freed_memory()
    assert resident_bytes() <= before - 32 * MIB
    assert len(used) == 16
