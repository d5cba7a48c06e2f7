"""Processes that are started, listened to, frozen and killed.

A `Child` is one Python module run as a process of its own, perhaps under strace. Its output is read
line by line, always with a deadline. Whatever happens in the test, leaving the `with` block ends
the process, and only this one: it has a process group of its own.
"""

import contextlib
import os
import select
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from types import TracebackType

LINE_WITHIN_SECONDS = 60.0
STOPPED_WITHIN_SECONDS = 30.0
_STRACE = ("strace", "-f", "-qq", "-o", "/dev/null")


def strace_missing() -> str | None:
    """Why system calls cannot be tampered with here; None if they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = subprocess.run(
        [*_STRACE, "-e", "trace=fsync", "-e", "inject=fsync:retval=0", "true"],
        capture_output=True,
        check=False,
    )
    return None if probe.returncode == 0 else f"strace does not work here: {probe.stderr.decode()}"


def tampering(calls: str, what: str) -> list[str]:
    """The command line that changes what these system calls do to a process and its threads."""
    return [*_STRACE, "-e", f"trace={calls}", "-e", f"inject={calls}:{what}"]


class Child:
    """A module of ours as a process."""

    def __init__(self, module: str, *arguments: str, under: Sequence[str] = ()) -> None:
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115 - closed in __exit__
        try:
            self._process = subprocess.Popen(
                [*under, sys.executable, "-m", module, *arguments],
                stdout=subprocess.PIPE,
                stderr=self._errors,
                stdin=subprocess.DEVNULL,
                start_new_session=True,
            )
        except OSError:
            self._errors.close()
            raise
        assert self._process.stdout is not None
        self._output = self._process.stdout.fileno()
        self._buffer = b""
        self._ended = False
        self.lines: list[str] = []
        """Everything it has said so far."""

    def __enter__(self) -> "Child":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.kill()
        self._errors.close()

    # Listening.

    def next_line(self) -> str | None:
        """The next line it says; None when it has said its last."""
        deadline = time.monotonic() + LINE_WITHIN_SECONDS
        while b"\n" not in self._buffer and not self._ended:
            patience = deadline - time.monotonic()
            if patience <= 0 or not select.select([self._output], [], [], patience)[0]:
                raise AssertionError(f"silent for {LINE_WITHIN_SECONDS} s; {self.errors()}")
            data = os.read(self._output, 1 << 16)
            self._ended = not data
            self._buffer += data
        # A line cut in its middle was never said.
        line, end, self._buffer = self._buffer.partition(b"\n")
        if not end:
            return None
        self.lines.append(line.decode())
        return self.lines[-1]

    def until(self, word: str) -> bool:
        """Listen up to the next line that begins with `word`; False if it ends before."""
        while (line := self.next_line()) is not None:
            if line.split(" ", 1)[0] == word:
                return True
        return False

    def rest(self) -> list[str]:
        """Listen to the end; returns all that was ever said."""
        while self.next_line() is not None:
            pass
        return self.lines

    def errors(self) -> str:
        """What it has written to stderr."""
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()

    # Ending.

    def wait(self) -> int:
        """Wait for its own end; the exit code."""
        self.rest()
        return self._process.wait(LINE_WITHIN_SECONDS)

    def freeze_if_alive(self) -> None:
        """Stop all its threads; when this returns none of them runs any more."""
        pid = self._pid()
        deadline = time.monotonic() + STOPPED_WITHIN_SECONDS
        with contextlib.suppress(ProcessLookupError, FileNotFoundError):
            os.kill(pid, signal.SIGSTOP)
            while not _is_stopped(pid):
                assert time.monotonic() < deadline, f"process {pid} does not stop"
                time.sleep(0.001)

    def kill(self) -> int:
        """End it at once. strace dies with it, but after it: its tracees would run on otherwise."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid(), signal.SIGKILL)
            try:
                self._process.wait(LINE_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
        if self._process.stdout is not None:
            self.rest()
            self._process.stdout.close()
            self._process.stdout = None
        return self._process.returncode

    def _pid(self) -> int:
        for line in self.lines:
            if line.startswith("pid "):
                return int(line.split()[1])
        return self._process.pid


def _is_stopped(pid: int) -> bool:
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/stat", encoding="ascii") as file:
            state = file.read().rsplit(")", 1)[1].split()[0]
        if state not in "TtZ":
            return False
    return True
