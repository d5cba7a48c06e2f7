"""The commit of a checkout, read from the files of git."""

from pathlib import Path

from penstock.watch.build import UNKNOWN_COMMIT, commit_of

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHORT = COMMIT[:12]


def checkout(home: Path, head: str, **files: str) -> None:
    home.mkdir(parents=True)
    for name, text in {"HEAD": head, **files}.items():
        path = home / name.replace("__", "/").replace("_", "-")
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


def test_a_branch(tmp_path: Path) -> None:
    checkout(tmp_path / ".git", "ref: refs/heads/main\n", refs__heads__main=f"{COMMIT}\n")
    assert commit_of(tmp_path) == SHORT


def test_a_commit_by_itself(tmp_path: Path) -> None:
    checkout(tmp_path / ".git", f"{COMMIT}\n")
    assert commit_of(tmp_path) == SHORT


def test_a_branch_that_was_packed_away(tmp_path: Path) -> None:
    packed = f"# pack-refs with: peeled\n{'f' * 40} refs/heads/other\n{COMMIT} refs/heads/main\n"
    checkout(tmp_path / ".git", "ref: refs/heads/main\n", packed_refs=packed)
    assert commit_of(tmp_path) == SHORT


def test_another_worktree(tmp_path: Path) -> None:
    checkout(tmp_path / "main/.git", "ref: refs/heads/x\n", refs__heads__side=COMMIT)
    home = tmp_path / "main/.git/worktrees/side"
    checkout(home, "ref: refs/heads/side\n", commondir="../..\n")
    (tmp_path / "side").mkdir()
    (tmp_path / "side/.git").write_text(f"gitdir: {home}\n")
    assert commit_of(tmp_path / "side") == SHORT


def test_an_installed_package_does_not_know(tmp_path: Path) -> None:
    assert commit_of(tmp_path) == UNKNOWN_COMMIT
    checkout(tmp_path / ".git", "ref: refs/heads/new\n")
    assert commit_of(tmp_path) == UNKNOWN_COMMIT
