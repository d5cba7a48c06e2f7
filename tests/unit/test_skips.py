"""What was skipped, and why, is one line at the end of a run."""

import os
import subprocess
import sys
from pathlib import Path

from tests.house.sources import ROOT
from tests.skips import describe, note, too_many


def test_several_runs_make_one_line(tmp_path: Path) -> None:
    path = tmp_path / "build" / "skips"
    assert describe(path) == "skipped: nothing"
    note(path, ["Skipped: kcat is not installed", "Skipped: needs\n  root"])
    note(path, ["Skipped: kcat is not installed", "x" * 500])
    told = describe(path)
    assert told.startswith("skipped: 4 tests: 2 × kcat is not installed; 1 × needs root; 1 × xxx")
    assert told.endswith("x…")
    assert "\n" not in told


def test_where_all_is_installed_a_skip_is_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "skips"
    assert too_many(path, "0") == ""
    note(path, ["Skipped: kcat is not installed"])
    assert [too_many(path, one) for one in (None, "", "1")] == ["", "", ""]
    assert too_many(path, "0") == "SKIPS_ALLOWED=0, and 1 were skipped"
    assert "must be a number" in too_many(path, "none")
    command = [sys.executable, "-m", "tests.skips", str(path)]
    for variable, code in ({"SKIPS_ALLOWED": "0"}, 1), ({}, 0):
        environment = {**os.environ, "SKIPS_ALLOWED": "", **variable}
        assert subprocess.run(command, cwd=ROOT, env=environment, check=False).returncode == code


def test_pytest_notes_each_skip_with_its_reason(tmp_path: Path) -> None:
    page = tmp_path / "test_page.py"
    page.write_text(
        "import pytest\n\n\n"
        "def test_one():\n    pytest.skip('no browser')\n\n\n"
        "@pytest.mark.skipif(True, reason='no kcat')\ndef test_two():\n    pass\n\n\n"
        "def test_three():\n    pass\n"
    )
    (tmp_path / "conftest.py").write_text(
        "from tests.conftest import pytest_addoption, pytest_terminal_summary\n"
    )
    skips = tmp_path / "skips"
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-n", "1"]
    options = ["--rootdir", str(ROOT), "-c", str(ROOT / "pyproject.toml")]
    done = subprocess.run(
        [*command, *options, "--skips", str(skips), str(page)],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert describe(skips) == "skipped: 2 tests: 1 × no browser; 1 × no kcat"
