"""`make dist`: the same bytes for the same commit, and a wheel that works where nothing else is."""

import os
import re
import shutil
import subprocess
import sys
import tarfile
import zipfile
from itertools import pairwise
from pathlib import Path

import pytest

from tests.house.sources import ROOT
from tests.packaging.pythons import pythons, versions

pytestmark = pytest.mark.slow

MAKEFILE = (ROOT / "Makefile").read_text("utf-8")
SMOKE = Path(__file__).with_name("smoke.py")
PIN = re.compile(r"^([a-z][\w.-]*)==([^\s;]+)", re.MULTILINE)
NO_INDEX = re.compile(r"Connection|No matching distribution|Could not find a version|timed out")


def build(home: Path, *, umask: int = 0o022, kinds: str = "-t sdist -t wheel") -> dict[str, bytes]:
    """What `make dist` runs, with the date of all files fixed."""
    subprocess.run(
        [sys.executable, "-m", "hatchling", "build", *kinds.split()],
        cwd=home,
        env={**os.environ, "SOURCE_DATE_EPOCH": "1700000000"},
        check=True,
        capture_output=True,
        umask=umask,
    )
    return {path.name: path.read_bytes() for path in (home / "dist").iterdir()}


def copy(home: Path, *, umask: int, modified: int) -> Path:
    """The files of the commit, as a clone by another user at another time has them."""
    listed = subprocess.run(
        ["git", "ls-files", "-z", "src", "docs", "*.md", "*.toml", "LICENSE", ".gitignore"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    if listed.returncode != 0:
        pytest.skip("this is not a clone: git cannot list its files")
    for name in filter(None, listed.stdout.split("\0")):
        if (ROOT / name).is_file():
            target = home / name
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes((ROOT / name).read_bytes())
            target.chmod(0o666 & ~umask)
            os.utime(target, (modified, modified))
    return home


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    return build(copy(tmp_path_factory.mktemp("first"), umask=0o022, modified=1_600_000_000))


def test_two_clones_build_the_same_bytes(built: dict[str, bytes], tmp_path: Path) -> None:
    home = copy(tmp_path / "another" / "place", umask=0o077, modified=1_750_000_000)
    assert sorted(Path(name).suffix for name in built) == [".gz", ".whl"]
    assert build(home, umask=0o077) == built


def test_the_wheel_of_the_sdist_is_the_wheel_of_the_clone(
    built: dict[str, bytes], tmp_path: Path
) -> None:
    [sdist] = [name for name in built if name.endswith(".tar.gz")]
    (tmp_path / sdist).write_bytes(built[sdist])
    with tarfile.open(tmp_path / sdist) as packed:
        packed.extractall(tmp_path, filter="data")
    again = build(tmp_path / sdist.removesuffix(".tar.gz"), kinds="-t wheel")
    assert again == {name: data for name, data in built.items() if name.endswith(".whl")}


def test_the_wheel_has_the_package_and_nothing_of_the_clone(
    built: dict[str, bytes], tmp_path: Path
) -> None:
    names = zipfile.ZipFile(wheel(built, tmp_path)).namelist()
    tops = {name.partition("/")[0] for name in names if ".dist-info/" not in name}
    assert tops == {"penstock", "pyspark_penstock"}
    assert "penstock/py.typed" in names
    assert not [name for name in names if name.endswith((".pyc", ".md~"))]


def test_make_dist_builds_both_with_the_date_of_the_commit() -> None:
    """The tests above run the same program; this is the line that they stand for."""
    assert re.search(
        r"^\tSOURCE_DATE_EPOCH=\$\(COMMITTED\) .*-m hatchling build -t sdist -t wheel$",
        MAKEFILE,
        re.MULTILINE,
    )


@pytest.mark.parametrize("version", versions())
def test_the_wheel_works_in_an_empty_environment(
    version: str, built: dict[str, bytes], tmp_path: Path
) -> None:
    """The packages of runtime.lock, then the wheel by its own metadata without an index: what the
    lock lacks would not be found."""
    program = pythons().get(version)
    if program is None:
        pytest.skip(f"no Python {version} with venv and ensurepip (apt-get, pyenv)")
    python = tmp_path / "empty" / "bin" / "python"
    subprocess.run([program, "-m", "venv", tmp_path / "empty"], check=True, env=clean())
    pip = [str(python), "-m", "pip", "install", "--quiet"]
    locked = [*pip, "--require-hashes", "-r", str(ROOT / "requirements/runtime.lock")]
    done = subprocess.run(locked, env=clean(), capture_output=True, text=True)
    if done.returncode != 0 and NO_INDEX.search(done.stderr):
        pytest.skip(f"no package index: {done.stderr.strip().splitlines()[-1]}")
    assert done.returncode == 0, done.stderr
    wanted = f"{wheel(built, tmp_path)}[server]"
    subprocess.run([*pip, "--no-index", wanted], check=True, env=clean(find_links=False))
    subprocess.run([python, "-m", "pip", "check"], check=True, env=clean())
    smoke = subprocess.run(
        [python, "-I", SMOKE], cwd=tmp_path, env=clean(), capture_output=True, text=True
    )
    assert smoke.returncode == 0, smoke.stdout + smoke.stderr
    assert f"Python {version}" in smoke.stdout


def wheel(built: dict[str, bytes], directory: Path) -> Path:
    [name] = [name for name in built if name.endswith(".whl")]
    path = directory / name
    path.write_bytes(built[name])
    return path


def clean(*, find_links: bool = True) -> dict[str, str]:
    """The environment without what leads to this clone."""
    left_out = {"PYTHONPATH", "VIRTUAL_ENV", "PYTEST_CURRENT_TEST"}
    if not find_links:
        left_out |= {"PIP_FIND_LINKS"}
    return {
        name: value
        for name, value in os.environ.items()
        if name not in left_out and not name.startswith("PENSTOCK_")
    }


def test_the_locks_name_the_same_versions() -> None:
    """`make run`, then `make test`: the second step replaces nothing of the first."""
    pins = {
        path.stem: dict(PIN.findall(path.read_text("utf-8")))
        for path in (ROOT / "requirements").glob("*.lock")
    }
    steps = ["runtime", "run", "dev", "spark"]
    assert sorted(pins) == sorted(steps)
    for smaller, larger in pairwise(steps):
        assert pins[smaller].items() <= pins[larger].items(), f"{larger}.lock lacks {smaller}.lock"


def test_progress_is_shown_and_an_error_is_not_hidden(tmp_path: Path) -> None:
    """`requirements/install` with a pip that prints what pip prints."""
    home = tmp_path / "clone"
    (home / "requirements").mkdir(parents=True)
    shutil.copy(ROOT / "requirements/install", home / "requirements")
    (home / "requirements/some.lock").write_text("one==1 \\\n    --hash=x\ntwo==2\n")
    python = home / ".venv/bin/python"
    python.parent.mkdir(parents=True)
    lines = "Collecting one==1 (from -r x)\\nRequirement already satisfied: two==2 in y\\n"
    for code in (0, 3):
        python.write_text(f"#!/bin/sh\nprintf '{lines}'\nexit {code}\n")
        python.chmod(0o755)
        done = subprocess.run(
            [home / "requirements/install", "some", "a moment"], capture_output=True, text=True
        )
        assert done.returncode == code
        assert done.stderr.startswith("Installing 2 packages into .venv; a moment\n")
        assert ("Installed in" in done.stderr) == (code == 0)
