"""A node as a child process on this machine: started, watched until it serves, harmed, ended.

Local clusters are made of these: `penstock cluster dev`, `penstock.testing.LocalCluster` and the
tests of clusters, which differ in the command that they run and in what they do with its output.
A child has a process group of its own: Ctrl-C is for its parent, which ends its children in turn.
"""

import contextlib
import os
import signal
import subprocess
from collections.abc import Callable, Mapping, Sequence
from typing import IO

import msgspec

from penstock.core.clock import SystemClock
from penstock.core.decoders import decode_json
from penstock.core.errors import Unavailable

POLL_SECONDS = 0.02
LOG_BYTES_MAX = 20_000


class _Ready(msgspec.Struct):
    """The part that is needed here of the file that a node writes when it serves."""

    pid: int


class NodeProcess:
    """One node, running or not."""

    def __init__(
        self, number: int, *, kafka: str, http: str, ready_file: str, log_file: str = ""
    ) -> None:
        self.number = number
        self.kafka = kafka
        self.http = http
        self.ready_file = ready_file
        self.log_file = log_file
        """The file of its output; empty if its output is a pipe."""
        self.process: subprocess.Popen[bytes] | None = None

    @property
    def running(self) -> bool:
        """True if it was started and has not ended."""
        return self.process is not None and self.process.poll() is None

    @property
    def pid(self) -> int | None:
        """The process id; None until it is started, and after it was waited for."""
        return None if self.process is None else self.process.pid

    def launch(
        self,
        command: Sequence[str],
        *,
        stdin: int = subprocess.DEVNULL,
        environment: Mapping[str, str] | None = None,
        before: Callable[[], None] | None = None,
    ) -> None:
        """Start it and do not wait; `before` is called in the child, ahead of the command."""
        assert not self.running, f"node {self.number} runs already"
        with contextlib.suppress(FileNotFoundError):
            os.remove(self.ready_file)
        with contextlib.ExitStack() as stack:
            output: int | IO[bytes] = subprocess.PIPE
            if self.log_file:
                output = stack.enter_context(open(self.log_file, "ab"))
            self.process = subprocess.Popen(  # noqa: S603 - the caller's own command
                command,
                stdin=stdin,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                process_group=0,
                preexec_fn=before,  # noqa: PLW1509 - no other thread starts processes
            )

    def is_ready(self) -> bool:
        """True if this process, and not an earlier one, has written its addresses."""
        try:
            with open(self.ready_file, "rb") as file:
                return decode_json(file.read(), _Ready).pid == self.pid
        except (FileNotFoundError, msgspec.DecodeError):
            return False

    def wait_ready(self, seconds: float) -> None:
        """Wait until it serves; `Unavailable`, with the end of its log, if it does not."""
        assert self.process is not None, f"node {self.number} was not started"
        clock = SystemClock()
        deadline_ms = clock.monotonic_ms() + seconds * 1_000
        while not self.is_ready():
            if not self.running:
                raise Unavailable(f"node {self.number} ended:\n{self.log_tail()}")
            if clock.monotonic_ms() >= deadline_ms:
                raise Unavailable(
                    f"node {self.number} did not serve within {seconds:.0f} s:\n{self.log_tail()}"
                )
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(POLL_SECONDS)

    def send(self, number: signal.Signals) -> None:
        """Send it a signal, if it runs."""
        if self.process is not None:
            self.process.send_signal(number)

    def wait(self, seconds: float) -> int:
        """Wait until it has ended; its exit code. `TimeoutExpired` if it has not by then."""
        assert self.process is not None, f"node {self.number} was not started"
        code = self.process.wait(seconds)
        if self.process.stdin is not None:
            self.process.stdin.close()
        self.process = None
        return code

    def log_tail(self) -> str:
        """Return the end of its log."""
        try:
            with open(self.log_file, "rb") as file:
                file.seek(0, os.SEEK_END)
                file.seek(max(0, file.tell() - LOG_BYTES_MAX))
                return file.read().decode("utf-8", "replace")
        except FileNotFoundError:
            return ""
