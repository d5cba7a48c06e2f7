"""Ends what a test leaves behind if the test itself is killed:  python -m tests.cluster.warden

A test that ends, well or badly, ends its nodes itself. If it is killed it cannot; so this process
listens to it, one line for each node that starts (`+ 4711`) or has ended (`- 4711`), and when the
line goes dead it kills those still there, by their ids.
"""

import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterable

_END_WITHIN_SECONDS = 20.0


class Warden:
    """The test's end of the line."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.cluster.warden"],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    def watch(self, pid: int) -> None:
        self._say(f"+ {pid}")

    def forget(self, pid: int) -> None:
        """It has ended and was waited for: from now on the number may be somebody else's."""
        self._say(f"- {pid}")

    def close(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_WITHIN_SECONDS)

    def _say(self, line: str) -> None:
        assert self._process.stdin is not None
        with self._lock:
            self._process.stdin.write(f"{line}\n".encode())
            self._process.stdin.flush()


def keep_watch(lines: Iterable[str]) -> None:
    """Listen to the end, then kill."""
    watched: set[int] = set()
    for line in lines:
        sign, _, pid = line.strip().partition(" ")
        (watched.add if sign == "+" else watched.discard)(int(pid))
    for number in watched:
        with contextlib.suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


if __name__ == "__main__":
    keep_watch(sys.stdin)
