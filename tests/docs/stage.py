"""Where a page is played: a directory, a broker, a shell and a Python, all its own.

Nothing is started before a block asks for it. A page speaks of the broker by its usual addresses;
they are replaced by those it really has, so that any number of pages run at the same time, and put
back in what was printed. The broker must not end by itself, nor its log show a traceback.

A page that starts its broker itself, as a reader does, is played `alone`: in a network of its own
(see `alone.py`), where the usual addresses are free. Then nothing is replaced, no variable names
the broker, and the home directory is empty.
"""

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path
from types import TracebackType

import msgspec

from tests.cluster.processes import Cluster
from tests.cluster.waiting import wait_until
from tests.docs.blocks import Block
from tests.house.sources import ROOT

USUAL_KAFKA = "127.0.0.1:9092"
USUAL_HTTP = "127.0.0.1:8080"
END_SECONDS_MAX = 30.0
_NOT_A_READERS = ("AWS_", "PENSTOCK_", "PYTEST_CURRENT_TEST", "PYTEST_XDIST")
"""Variables that are set for this test and not for who reads the page."""
_WORDS = Path(__file__).with_name("words.sh")
_WORDS_ALONE = Path(__file__).with_name("words_alone.sh")
_ASKS_BROKER = re.compile(
    rf"{re.escape(USUAL_KAFKA)}|{re.escape(USUAL_HTTP)}|^ *penstock |\| penstock |\(penstock ",
    re.MULTILINE,
)


class Failed(AssertionError):
    """A block did not do what its page says."""


class Shown(msgspec.Struct, frozen=True):
    """What became of a block that ran."""

    block: Block
    output: str
    ended: str


class Stage:
    """One page's surroundings, from `with` to the end of its block."""

    def __init__(
        self, directory: Path, *, nodes: int = 1, alone: bool = False, clone: Path | None = None
    ) -> None:
        """With a `clone`, the page is read there, and installs what it uses."""
        self._directory = directory
        self._alone = alone or clone is not None
        self._installs = clone is not None
        self._home = clone or directory / "page"
        if clone is None:
            self._home.mkdir()
            (self._home / ".venv").symlink_to(ROOT / ".venv")
        self._state = directory / "state.sh"
        self._state.write_text("")
        self._nodes = nodes
        self._cluster: Cluster | None = None
        self._python: _Python | None = None
        self._background: list[tuple[Block, subprocess.Popen[bytes], Path]] = []
        self._shells: list[int] = []
        self._outputs = 0

    def __enter__(self) -> "Stage":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        try:
            self._end_background(quietly=error is not None)
        finally:
            self._end_shells()
            if self._python is not None:
                self._python.close(at_once=error is not None)
            if self._cluster is not None:
                complaints = self._cluster.complaints()
                self._cluster.close()
                if error is None and complaints:
                    raise Failed("\n".join(complaints))

    def play(self, block: Block) -> Shown:
        """Run one block; `Failed` tells what went wrong, with what it printed."""
        text = self._with_addresses(block.text)
        if "file" in block.orders:
            (self._home / block.orders["file"]).write_text(text, "utf-8")
            return Shown(block, "", "well")
        self._outputs += 1
        output = self._directory / f"output-{self._outputs}.txt"
        if block.language == "python":
            if self._python is None:
                self._python = _Python(self._home, self._environment())
            ended = self._python.run(block, text, output)
        else:
            ended = self._run_shell(block, text, output)
        shown = Shown(block, self._without_addresses(_read(output)), ended)
        _judge(shown)
        return shown

    def printed_behind(self) -> str:
        """All that the programs in the background have printed so far."""
        return "".join(_read(output) for _, _, output in self._background)

    # The shell.

    def _run_shell(self, block: Block, text: str, output: Path) -> str:
        words = _WORDS_ALONE if self._alone else _WORDS
        script = f'. "{words}"\n. "{self._state}"\n{text}\nexport -p > "{self._state}"\n'
        keyboard, terminal = _typed(block.orders.get("types"))
        with output.open("wb") as file:
            process = subprocess.Popen(
                ["bash", "-euo", "pipefail", "-c", script],
                stdin=subprocess.DEVNULL if terminal is None else terminal,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=self._home,
                env=self._environment(),
                start_new_session=True,
            )
        self._shells.append(process.pid)
        if terminal is not None:
            os.close(terminal)
        try:
            return self._follow_shell(block, process, output)
        finally:
            if keyboard is not None:
                os.close(keyboard)

    def _follow_shell(self, block: Block, process: subprocess.Popen[bytes], output: Path) -> str:
        until = block.orders.get("until")
        if until is not None:
            _wait_printed(block, process, output, until)
        if "background" in block.orders:
            self._background.append((block, process, output))
            return "well"
        if until is not None:
            os.killpg(process.pid, signal.SIGINT)
        try:
            code = process.wait(block.seconds_max)
        except subprocess.TimeoutExpired:
            _kill(process)
            return f"nothing within {block.seconds_max:.0f} s"
        if until is not None and code in (0, 130, -signal.SIGINT):
            return "interrupted"
        return "well" if code == 0 else f"exit code {code}"

    def _end_background(self, *, quietly: bool) -> None:
        for block, process, output in reversed(self._background):
            if "later" in block.orders and not quietly:
                _wait_printed(block, process, output, block.orders["later"])
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGINT)
            try:
                code = process.wait(END_SECONDS_MAX)
            except subprocess.TimeoutExpired:
                _kill(process)
                code = -signal.SIGKILL
            if not quietly and code not in (0, 130, -signal.SIGINT):
                raise Failed(f"{block.place}: ended with {code}\n{_read(output)}")
        self._background.clear()

    def _end_shells(self) -> None:
        """End what a block has left running by `&`. It shares the group of its shell."""
        for group in self._shells:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGTERM)
        for group in self._shells:
            with contextlib.suppress(AssertionError):
                wait_until(partial(_gone, group), "it does not end", seconds=END_SECONDS_MAX)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(group, signal.SIGKILL)
        self._shells.clear()

    # The broker.

    def _with_addresses(self, text: str) -> str:
        if self._cluster is None and not self._alone and _ASKS_BROKER.search(text):
            self._cluster = Cluster(self._directory / "nodes", nodes=self._nodes)
            self._cluster.start()
        if self._cluster is None:
            return text
        node = self._cluster.nodes[1]
        return text.replace(USUAL_KAFKA, node.kafka).replace(USUAL_HTTP, node.http)

    def _without_addresses(self, text: str) -> str:
        text = text.replace(str(self._home), ".")
        if self._cluster is None:
            return text
        node = self._cluster.nodes[1]
        return text.replace(node.kafka, USUAL_KAFKA).replace(node.http, USUAL_HTTP)

    def _environment(self) -> dict[str, str]:
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(_NOT_A_READERS)
        }
        ours = {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{kept.get('PATH', os.defpath)}",
            "SOURCES_ROOT": str(ROOT),
            "PYTHONPATH": str(ROOT),  # Where the examples are.
            "PYTHONUNBUFFERED": "1",
            "NO_COLOR": "1",
            "COLUMNS": "100",
        }
        if self._cluster is not None:
            node = self._cluster.nodes[1]
            ours["PENSTOCK_URL"] = f"penstock://{node.kafka}"
        if self._alone:
            ours["HOME"] = ours["XDG_CONFIG_HOME"] = str(self._directory)
        if self._installs:
            # The Python of this environment without the environment.
            python = Path(sys.executable).resolve().parent
            ours["PATH"] = f"{python}{os.pathsep}{kept.get('PATH', os.defpath)}"
            ours["INSTALLS"] = "yes"
            del ours["PYTHONPATH"]
        return {**kept, **ours}


class _Python:
    """The interpreter of a page."""

    def __init__(self, home: Path, environment: dict[str, str]) -> None:
        status, told = os.pipe()
        self._status = status
        self._log = home.parent / "python.txt"
        with self._log.open("wb") as file:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.docs.interpreter", str(told)],
                stdin=subprocess.PIPE,
                stdout=file,
                stderr=subprocess.STDOUT,
                cwd=home,
                env=environment,
                pass_fds=(told,),
                start_new_session=True,
            )
        os.close(told)

    def run(self, block: Block, text: str, output: Path) -> str:
        before = self._log.stat().st_size
        request = {"place": block.place, "text": text}
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(request).encode() + b"\n")
        self._process.stdin.flush()
        try:
            return self._follow(block, before)
        finally:
            output.write_bytes(self._log.read_bytes()[before:])

    def _follow(self, block: Block, before: int) -> str:
        until = block.orders.get("until")
        if until is not None:
            deadline = time.monotonic() + block.seconds_max
            while until.encode() not in self._log.read_bytes()[before:]:
                if (status := self._read_status(0.05)) is not None:
                    return status
                if time.monotonic() > deadline:
                    return f'no "{until}" within {block.seconds_max:.0f} s'
            self._process.send_signal(signal.SIGINT)
        return self._read_status(block.seconds_max) or f"nothing within {block.seconds_max:.0f} s"

    def _read_status(self, seconds: float) -> str | None:
        if not select.select([self._status], [], [], seconds)[0]:
            return None
        line = os.read(self._status, 4096)
        return str(json.loads(line)["ended"]) if line else "the end of its process"

    def close(self, *, at_once: bool) -> None:
        assert self._process.stdin is not None
        if at_once:
            _kill(self._process)
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(END_SECONDS_MAX)
        except subprocess.TimeoutExpired:
            _kill(self._process)
        os.close(self._status)


def _judge(shown: Shown) -> None:
    orders = shown.block.orders
    if "raises" in orders:
        wanted = orders["raises"]
        fine = shown.ended == wanted
    elif "fails" in orders:
        wanted = "an error"
        fine = shown.ended.startswith("exit code")
    elif "until" in orders and "background" not in orders:
        wanted = f'"{orders["until"]}", then Ctrl-C'
        fine = shown.ended in ("interrupted", "well") and orders["until"] in shown.output
    else:
        wanted = "a good end"
        fine = shown.ended == "well"
    if not fine:
        raise Failed(
            f"{shown.block.place}: expected {wanted}, got {shown.ended}\n"
            f"{shown.block.text}---- printed:\n{shown.output}"
        )


def _typed(lines: str | None) -> tuple[int | None, int | None]:
    """A terminal on which the reader has typed already, both ends of it."""
    if lines is None:
        return None, None
    keyboard, terminal = os.openpty()
    os.write(keyboard, "".join(f"{line}\n" for line in lines.split(",")).encode())
    return keyboard, terminal


def _wait_printed(block: Block, process: subprocess.Popen[bytes], output: Path, text: str) -> None:
    try:
        wait_until(
            lambda: text in _read(output) or process.poll() is not None,
            f'{block.place}: "{text}" is not printed',
            seconds=block.seconds_max,
        )
    except AssertionError as error:
        _kill(process)
        raise Failed(f"{error}\n{_read(output)}") from None
    if text not in _read(output):
        raise Failed(f'{block.place}: ended before "{text}"\n{_read(output)}')


def _gone(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return True
    return False


def _kill(process: subprocess.Popen[bytes]) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _read(path: Path) -> str:
    return path.read_text("utf-8", "replace")
