"""The key of clusters under test."""

from pathlib import Path

KEY = bytes(range(32))


def key_file(directory: Path) -> str:
    """A key file that every node of a cluster under test can be started with."""
    path = directory / "cluster.key"
    if not path.exists():
        directory.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        path.write_text(KEY.hex())
    return str(path)
