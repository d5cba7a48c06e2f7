"""The progress display of a load: a bar on a terminal, elsewhere a line a second.

Both go to stderr and tell the rate now, the total, and the 99th percentile of the last second. What
is over within a second has no progress.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol, TextIO

from rich.console import Console
from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from penstock.cli.bench.load import Load, Pulse
from penstock.cli.quantities import show_time

LOOK_SECONDS = 1.0


class Show(Protocol):
    """Called once a second, and at every change of the load."""

    def tell(self, pulse: Pulse, seconds: float, passed: float) -> None:
        """Show the progress of the last `seconds`; the load has run for `passed`."""

    def say(self, sentence: str) -> None:
        """A line for the user, printed at once."""


class Silence:
    """A progress display that shows nothing."""

    def tell(self, pulse: Pulse, seconds: float, passed: float) -> None:
        pass

    def say(self, sentence: str) -> None:
        pass


class Lines:
    """A progress display that prints a line a second."""

    def __init__(self, title: str, stream: TextIO) -> None:
        self._title = title
        self._stream = stream
        self._total = 0

    def tell(self, pulse: Pulse, seconds: float, passed: float) -> None:
        self._total += pulse.done
        self.say(f"{passed:.0f} s, {self._title}: {describe(pulse, seconds, self._total)}")

    def say(self, sentence: str) -> None:
        print(sentence, file=self._stream, flush=True)


class Bar:
    """A bar that grows by messages, or by time where their number is not known."""

    def __init__(self, load: Load, title: str, bar: ProgressBar) -> None:
        self._bar = bar
        self._by_time = load.messages is None
        total = load.messages if load.messages is not None else load.seconds
        self._task = bar.add_task(title, total=total, told="")
        self._total = 0
        self._warm = load.warm_up_seconds

    def tell(self, pulse: Pulse, seconds: float, passed: float) -> None:
        self._total += pulse.done
        reached = passed - self._warm if self._by_time else self._total
        told = describe(pulse, seconds, self._total)
        self._bar.update(self._task, completed=max(0.0, reached), told=told)

    def say(self, sentence: str) -> None:
        self._bar.console.print(sentence)


def describe(pulse: Pulse, seconds: float, total: int) -> str:
    """`12,000 messages/s, 36,000 in all, p99 2.1 ms`."""
    rate = pulse.done / seconds if seconds > 0 else 0.0
    text = f"{rate:,.0f} messages/s, {total:,} in all"
    if pulse.latencies.count:
        text += f", p99 {show_time(pulse.latencies.quantile(0.99))}"
    return text


@contextmanager
def progress(load: Load, title: str, *, hidden: bool) -> Iterator[Show]:
    """The display that fits stderr: a terminal or a file."""
    if hidden:
        yield Silence()
        return
    console = Console(stderr=True, highlight=False)
    if not sys.stderr.isatty() or not console.is_terminal:
        yield Lines(title, sys.stderr)
        return
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TimeElapsedColumn(),
        TextColumn("{task.fields[told]}"),
    )
    with ProgressBar(*columns, console=console, transient=True) as bar:
        yield Bar(load, title, bar)
