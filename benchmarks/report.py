"""What a benchmark hands back, and how it is shown.

Every benchmark gives one `Finding`: rows for people, and the same numbers for programs. Nothing
here judges: an aim stands beside the number it is about, and no number fails a run, since the
machine at hand may be any.
"""

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from rich.console import Console
from rich.table import Table

from benchmarks import turns

KIB = 1 << 10
MIB = 1 << 20
GIB = 1 << 30

Progress = turns.Progress
"""Whom a benchmark tells what it does, and who says how many rounds there is time for."""

Number = int | float
Measured = dict[str, Number | str]
"""One row of numbers, by name; the unit is the name's last word."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """What one benchmark found."""

    name: str
    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    numbers: Sequence[Measured] = field(default_factory=list)


def show(console: Console, finding: Finding) -> None:
    """Draw the table, and what a reader must know about it."""
    table = Table(title=finding.title, title_justify="left", title_style="bold")
    for number, column in enumerate(finding.columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in finding.rows:
        table.add_row(*row)
    console.print(table)
    for note in finding.notes:
        console.print(f"  {note}", highlight=False)
    console.print()


def medians(rounds: Iterable[Measured]) -> Measured:
    """The median of every number over the rounds; words are taken from the first."""
    every = list(rounds)
    result: Measured = {}
    for name, value in every[0].items():
        if isinstance(value, str):
            result[name] = value
        else:
            result[name] = statistics.median(_number(one[name]) for one in every)
    return result


def _number(value: Number | str) -> Number:
    assert not isinstance(value, str), f"{value!r} is no number"
    return value


def number(row: Measured, name: str) -> Number:
    """A number of a row, for arithmetic."""
    return _number(row[name])


def quantile(values: Sequence[float], share: float) -> float:
    """The value below which `share` of all lie; no interpolation, so it was really seen."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def size(value: Number) -> str:
    """`1.0 MiB`."""
    for unit, one in (("GiB", GIB), ("MiB", MIB), ("KiB", KIB)):
        if value >= one:
            return f"{value / one:.1f} {unit}"
    return f"{value:.0f} B"
