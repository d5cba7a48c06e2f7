"""Which tests `make check` runs for which changes."""

import subprocess
from pathlib import Path

import pytest

from tests.house.changed import changed_files, existing_tests, place_of_tests
from tests.house.sources import ROOT


@pytest.mark.parametrize(
    ("path", "tests"),
    [
        ("src/penstock/raft/log.py", "tests/unit/raft/test_log.py"),
        ("src/penstock/engine/replica/shard.py", "tests/unit/engine/replica/test_shard.py"),
        ("src/penstock/blocking.py", "tests/unit/test_blocking.py"),
        ("benchmarks/check/trees.py", "tests/unit/benchmarks/test_check.py"),
        ("benchmarks/aims.py", "tests/unit/benchmarks/test_aims.py"),
        ("tests/unit/raft/test_log.py", "tests/unit/raft/test_log.py"),
        ("tests/properties/test_queues.py", "tests/properties/test_queues.py"),
        ("tests/scenarios/raft/vote.txt", "tests/scenarios/test_raft_scenarios.py"),
        ("tests/cluster/test_failover.py", None),
        ("tests/house/test_tidy.py", None),
        ("tests/unit/raft/conftest.py", None),
        ("docs/start.md", None),
        ("Makefile", None),
    ],
)
def test_a_file_has_its_tests(path: str, tests: str | None) -> None:
    assert place_of_tests(path) == tests


def test_only_tests_that_exist_are_named_and_each_once() -> None:
    changed = ["src/penstock/raft/log.py", "tests/unit/raft/test_log.py", "src/penstock/gone.py"]
    assert existing_tests(changed) == ["tests/unit/raft/test_log.py"]
    assert (ROOT / "tests/unit/raft/test_log.py").exists()


def test_changed_is_what_differs_from_where_the_branch_left_main(tmp_path: Path) -> None:
    def git(*arguments: str) -> None:
        author = ["-c", "user.name=A", "-c", "user.email=a@example.org"]
        subprocess.run(
            ["git", "-C", tmp_path, *author, *arguments], check=True, capture_output=True
        )

    def commit(name: str) -> None:
        (tmp_path / name).write_text(name)
        git("add", "--all")
        git("commit", "--no-verify", "--message", name)

    git("init", "--initial-branch=main")
    (tmp_path / ".gitignore").write_text("ignored\n")
    commit("first")
    assert list(changed_files(tmp_path)) == []
    git("checkout", "-b", "branch")
    commit("committed")
    git("checkout", "main")
    commit("on main since")
    git("checkout", "branch")
    (tmp_path / "first").write_text("otherwise")
    (tmp_path / "untracked").write_text("new")
    (tmp_path / "ignored").write_text("new")
    assert sorted(changed_files(tmp_path)) == ["committed", "first", "untracked"]
    git("checkout", "--force", "main")
    (tmp_path / "first").unlink()
    assert sorted(changed_files(tmp_path)) == ["first", "untracked"]


def test_without_history_nothing_is_known_to_have_changed(tmp_path: Path) -> None:
    assert list(changed_files(tmp_path)) == []
