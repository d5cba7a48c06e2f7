"""`benchmarks.check`: verdicts, and the tree that is compared with."""

import subprocess
from pathlib import Path

import pytest

from benchmarks.check import trees
from benchmarks.check.verdict import doubtful, finding, judge


def git(root: Path, *arguments: str) -> str:
    identity = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    command = ["git", "-C", str(root), *identity, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    root = tmp_path / "repository"
    root.mkdir()
    git(root, "init", "--quiet")
    for text in ("old", "new"):
        (root / "file").write_text(text, "utf-8")
        git(root, "add", "file")
        git(root, "commit", "--quiet", "--no-verify", "-m", text)
    return root


def test_the_median_of_pairs_is_the_verdict() -> None:
    steady = [(100.0, 95.0)] * 4 + [(100.0, 20.0)]
    slower = [(100.0, 85.0)] * 4 + [(100.0, 300.0)]
    verdicts = {one.load: one for one in judge({"steady": steady, "slower": slower, "none": []})}
    assert set(verdicts) == {"steady", "slower"}, "what was not measured is not judged"
    assert verdicts["steady"].passes
    assert verdicts["steady"].ratio == pytest.approx(0.95)
    assert not verdicts["slower"].passes
    assert doubtful({"steady": steady, "slower": slower}) == ["slower"]


def test_a_machine_that_slows_down_does_so_for_both() -> None:
    (verdict,) = judge({"send": [(100.0, 100.0), (50.0, 50.0), (10.0, 10.0)]})
    assert verdict.ratio == 1.0
    assert [row[-1] for row in finding([verdict], "v1", []).rows] == ["ok"]


def test_the_base_is_what_was_asked_for_or_the_last_tag(repository: Path) -> None:
    with pytest.raises(trees.NoBase, match="BASE="):
        trees.find_base("", repository)
    with pytest.raises(ValueError, match="no commit"):
        trees.find_base("nothing", repository)
    assert trees.find_base("HEAD~1", repository) == "HEAD~1"
    git(repository, "tag", "v1", "HEAD~1")
    assert trees.find_base("", repository) == "v1"
    assert trees.describe("v1", repository).startswith("v1 (")


def test_the_worktree_is_gone_whatever_happens(repository: Path) -> None:
    seen = []

    def break_inside() -> None:
        with trees.checked_out("HEAD~1", repository) as tree:
            seen.append((tree, (tree / "file").read_text("utf-8")))
            raise RuntimeError

    with pytest.raises(RuntimeError):
        break_inside()
    ((tree, text),) = seen
    assert text == "old"
    assert not tree.exists()
    assert not tree.parent.exists()
    assert len(git(repository, "worktree", "list").splitlines()) == 1
    assert (repository / "file").read_text("utf-8") == "new"


def test_a_commit_that_cannot_be_had_leaves_nothing(repository: Path) -> None:
    checking_out = trees.checked_out("nothing", repository)
    with pytest.raises(ValueError, match="could not be checked out"):
        checking_out.__enter__()
    assert len(git(repository, "worktree", "list").splitlines()) == 1


def test_a_tree_is_put_before_what_is_installed(tmp_path: Path) -> None:
    assert trees.environment_of(tmp_path)["PYTHONPATH"] == str(tmp_path / "src")
    (tmp_path / "requirements").mkdir()
    assert trees.locks_differ(tmp_path)
    (tmp_path / trees.LOCK).write_bytes((trees.ROOT / trees.LOCK).read_bytes())
    assert not trees.locks_differ(tmp_path)
