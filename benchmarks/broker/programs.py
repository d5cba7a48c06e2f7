"""One process of a broker: started, waited for, weighed, and ended whatever happens.

It is ready when a file says so or a port answers, which the system at hand decides. Should the
benchmark itself be killed, a warden ends what it left behind.
"""

import atexit
import functools
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.report import KIB
from tests.cluster.warden import Warden

READY_WITHIN_SECONDS = 60.0
ENDED_WITHIN_SECONDS = 20.0
_LOOK_EVERY_SECONDS = 0.002
_LOG_LINES = 20
_TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
_USER_TICKS, _SYSTEM_TICKS = 11, 12
"""Fields of /proc/PID/stat, counted behind the name, which may hold anything."""


class ProgramFailed(Exception):
    """A process did not start, or ended by itself; the message ends with what it last said."""


@dataclass(frozen=True, slots=True)
class Usage:
    """What processes have taken of the machine so far; several are added up."""

    cpu_seconds: float = 0.0
    memory_bytes: int = 0
    anonymous_bytes: int = 0
    """Memory that is theirs alone: without files mapped, such as the interpreter itself."""
    memory_peak_bytes: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.cpu_seconds + other.cpu_seconds,
            self.memory_bytes + other.memory_bytes,
            self.anonymous_bytes + other.anonymous_bytes,
            self.memory_peak_bytes + other.memory_peak_bytes,
        )


class Program:
    """A command that runs, or does not."""

    def __init__(
        self,
        command: Sequence[str],
        log: Path,
        *,
        ready: Callable[[], bool],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._command = list(command)
        self._log = log
        self._ready = ready
        # A broker under measurement has its defaults, whatever the environment says.
        inherited = {
            name: value for name, value in os.environ.items() if not name.startswith("PENSTOCK_")
        }
        self._environment = {**inherited, **(environment or {})}
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None, f"{self._command[0]} does not run"
        return self._process.pid

    def launch(self) -> None:
        """Start it and do not wait."""
        assert self._process is None, f"{self._command[0]} runs already"
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                self._command,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=self._environment,
                start_new_session=True,
            )
        _warden().watch(self._process.pid)

    def wait_ready(self, seconds: float = READY_WITHIN_SECONDS) -> None:
        """Until it says so; looks often, since the time this takes may be what is measured."""
        deadline = time.monotonic() + seconds
        while not self._ready():
            assert self._process is not None, "it was never launched"
            if (code := self._process.poll()) is not None:
                raise ProgramFailed(f"{self._command[0]} ended with {code}:\n{self.last_words()}")
            if time.monotonic() >= deadline:
                what = f"{self._command[0]} was not ready within {seconds:.0f} s"
                raise ProgramFailed(f"{what}:\n{self.last_words()}")
            time.sleep(_LOOK_EVERY_SECONDS)

    def kill(self) -> None:
        """kill -9, if it runs."""
        self._end(signal.SIGKILL)

    def terminate(self, seconds: float = ENDED_WITHIN_SECONDS) -> None:
        """Let it stop in good order."""
        self._end(signal.SIGTERM, seconds)

    def usage(self) -> Usage:
        """What it has taken so far."""
        return usage_of(self.pid)

    def check(self) -> None:
        """Raise if it has ended although nobody ended it."""
        if self._process is not None and (code := self._process.poll()) is not None:
            raise ProgramFailed(f"{self._command[0]} ended with {code}:\n{self.last_words()}")

    def last_words(self) -> str:
        """The end of its log."""
        try:
            lines = self._log.read_text("utf-8", errors="replace").splitlines()
        except FileNotFoundError:
            return "(it said nothing)"
        return "\n".join(lines[-_LOG_LINES:])

    def _end(self, number: signal.Signals, seconds: float = ENDED_WITHIN_SECONDS) -> None:
        if self._process is None:
            return
        self._process.send_signal(number)
        try:
            self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        _warden().forget(self._process.pid)
        self._process = None


def usage_of(pid: int) -> Usage:
    """Read from /proc."""
    stat = Path(f"/proc/{pid}/stat").read_text("ascii", errors="replace").rpartition(")")[2].split()
    status = Path(f"/proc/{pid}/status").read_text("utf-8", errors="replace")
    sizes = {
        name: int(size) * KIB
        for name, size in re.findall(r"^(\w+):\s+(\d+) kB", status, re.MULTILINE)
    }
    return Usage(
        cpu_seconds=(int(stat[_USER_TICKS]) + int(stat[_SYSTEM_TICKS])) / _TICKS_PER_SECOND,
        memory_bytes=sizes["VmRSS"],
        anonymous_bytes=sizes["RssAnon"],
        memory_peak_bytes=sizes["VmHWM"],
    )


@functools.cache
def _warden() -> Warden:
    warden = Warden()
    atexit.register(warden.close)
    return warden
