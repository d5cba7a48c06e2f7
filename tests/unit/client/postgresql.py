"""A PostgreSQL server for tests, where one is installed: in a directory of its own, on a socket."""

import contextlib
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

START_SECONDS_MAX = 60


def _program(name: str) -> str | None:
    if found := shutil.which(name):
        return found
    installed = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return str(installed[-1]) if installed else None


@contextlib.contextmanager
def running_postgresql() -> Iterator[str]:
    """What to give to `psycopg.connect`; skips the test if there is no PostgreSQL here."""
    pytest.importorskip("psycopg", reason="psycopg is not installed")
    initdb, control = _program("initdb"), _program("pg_ctl")
    if initdb is None or control is None:
        pytest.skip("PostgreSQL is not installed")
    # The server refuses to be root, and its user must be able to reach the directory.
    user = "nobody" if os.getuid() == 0 else None
    with tempfile.TemporaryDirectory(prefix="penstock-pg-") as metadata:
        if user is not None:
            os.chown(metadata, pwd.getpwnam(user).pw_uid, -1)
        data = f"{metadata}/data"

        def execute(*command: str) -> None:
            subprocess.run(
                command,
                user=user,
                cwd=metadata,
                check=True,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                timeout=START_SECONDS_MAX,
            )

        execute(initdb, "-D", data, "-U", "penstock", "--auth=trust", "--no-sync", "-E", "UTF8")
        options = f"-c listen_addresses= -c unix_socket_directories={metadata} -c fsync=off"
        execute(control, "-D", data, "-w", "-o", options, "-l", f"{metadata}/log", "start")
        try:
            yield f"host={metadata} user=penstock dbname=postgres"
        finally:
            execute(control, "-D", data, "-m", "immediate", "stop")
