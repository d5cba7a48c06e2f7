"""Temporary directories of drivers: those of the dead are removed, those of the living are not."""

import fcntl
import subprocess
import sys
from pathlib import Path

from penstock.spark.scratch import LOCK, PREFIX, sweep


def make_directory(parent: Path, name: str) -> Path:
    """What a driver leaves behind."""
    directory = parent / f"{PREFIX}{name}"
    (directory / "blockmgr").mkdir(parents=True)
    (directory / "blockmgr" / "shuffle").write_bytes(bytes(1000))
    (directory / LOCK).touch()
    return directory


def test_only_what_nobody_holds_is_removed(tmp_path: Path) -> None:
    dead, alive = make_directory(tmp_path, "dead"), make_directory(tmp_path, "alive")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / f"{PREFIX}link").symlink_to(tmp_path / "elsewhere")
    half = tmp_path / f"{PREFIX}half-made"
    half.mkdir()
    with open(alive / LOCK, "rb+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        assert sweep(tmp_path) == [dead]
    assert not dead.exists()
    assert alive.exists()
    assert half.exists()
    assert (tmp_path / "elsewhere").exists()
    assert sweep(tmp_path) == [alive]


def test_a_killed_drivers_directory_goes_with_the_next_one(tmp_path: Path) -> None:
    script = (
        "import os, tempfile; tempfile.tempdir = os.environ['PLACE'];"
        "from penstock.spark.scratch import scratch_directory; print(scratch_directory());"
    )
    place = {"PLACE": str(tmp_path)}
    kill = "import sys; sys.stdout.flush(); os.kill(os.getpid(), 9)"
    first = subprocess.run([sys.executable, "-c", script + kill], env=place, capture_output=True)
    assert first.returncode == -9
    left = Path(first.stdout.decode().strip())
    assert left.is_dir()
    second = subprocess.run([sys.executable, "-c", script], env=place, capture_output=True)
    assert second.returncode == 0, second.stderr
    assert list(tmp_path.iterdir()) == []
