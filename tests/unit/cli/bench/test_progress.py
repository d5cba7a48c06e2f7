"""How a load goes, while it goes: lines, a bar, and nothing."""

import io
import sys

import pytest
from rich.console import Console
from rich.progress import Progress, TextColumn

from penstock.cli.bench.load import Load, Pulse
from penstock.cli.bench.progress import Bar, Lines, Silence, progress


def pulse_of(done: int, *seconds: float) -> Pulse:
    pulse = Pulse(done=done)
    for each in seconds:
        pulse.latencies.add(each)
    return pulse


def test_a_line_tells_rate_total_and_the_last_second() -> None:
    stream = io.StringIO()
    lines = Lines("sending", stream)
    lines.tell(pulse_of(1_000, 0.002), 0.5, 1.0)
    lines.tell(pulse_of(0), 1.0, 2.0)
    lines.say("something")
    assert stream.getvalue().splitlines() == [
        "1 s, sending: 2,000 messages/s, 1,000 in all, p99 2 ms",
        "2 s, sending: 0 messages/s, 1,000 in all",
        "something",
    ]


@pytest.mark.parametrize(
    ("load", "completed"),
    [
        (Load(kind="produce", messages=4_000), 1_000),
        (Load(kind="produce", seconds=10.0, warm_up_seconds=2.0), 1.0),
    ],
)
def test_a_bar_grows_by_messages_or_by_time(load: Load, completed: float) -> None:
    output = io.StringIO()
    console = Console(file=output, force_terminal=True, width=100)
    with Progress(TextColumn("{task.fields[told]}"), console=console) as drawn:
        bar = Bar(load, "sending", drawn)
        bar.tell(pulse_of(1_000, 0.002), 1.0, 3.0)
        assert drawn.tasks[0].completed == completed
    assert "1,000 messages/s, 1,000 in all, p99 2 ms" in output.getvalue()


def test_where_there_is_no_terminal_there_is_no_bar(monkeypatch: pytest.MonkeyPatch) -> None:
    load = Load(kind="produce", messages=1)
    with progress(load, "sending", hidden=False) as show:
        assert isinstance(show, Lines)
    with progress(load, "sending", hidden=True) as show:
        assert isinstance(show, Silence)
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    with progress(load, "sending", hidden=False) as show:
        assert isinstance(show, Bar)
