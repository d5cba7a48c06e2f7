"""Tables on a terminal: aligned columns, one line a row, easy to cut and grep.

In a pipe everything is printed as it is. On a terminal a table is fitted to its width, because a
table whose lines wrap cannot be read: columns that can be spared are left out, then the widest
texts are cut; and rows that matter have a colour, unless NO_COLOR is set.
"""

import os
import shutil
import sys
from collections.abc import Sequence
from typing import Literal

Tone = Literal["", "attention", "warning", "critical"]

_COLOURS = {"attention": "\x1b[33m", "warning": "\x1b[33;1m", "critical": "\x1b[31m"}
_PLAIN = "\x1b[0m"
_GAP = "  "
_LEAST = 8
"""The minimal width of a column."""


def print_table(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    tones: Sequence[Tone] = (),
    spare: Sequence[str] = (),
) -> None:
    """Print heads and rows to stdout; numbers to the right. `tones` are the rows' colours, and
    `spare` the columns that a narrow terminal can do without, the first one first."""
    terminal = sys.stdout.isatty()
    columns = shutil.get_terminal_size().columns if terminal else None
    coloured = terminal and not os.environ.get("NO_COLOR")
    lines = table_lines(heads, rows, columns=columns, spare=spare)
    for number, line in enumerate(lines):
        tone = tones[number - 1] if coloured and 0 < number <= len(tones) else ""
        print(f"{_COLOURS[tone]}{line}{_PLAIN}" if tone else line)


def table_lines(
    heads: Sequence[str],
    rows: Sequence[Sequence[object]],
    *,
    columns: int | None = None,
    spare: Sequence[str] = (),
) -> list[str]:
    """Format the rows as aligned lines, heads first, fitted to `columns` if possible."""
    numeric = [
        bool(rows) and all(isinstance(row[number], int) for row in rows)
        for number in range(len(heads))
    ]
    cells = [list(heads), *([str(value) for value in row] for row in rows)]
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    shown = _fitting(heads, widths, columns, spare)
    if columns is not None:
        _cut(widths, shown, numeric, columns)
    lines = []
    for line in cells:
        parts = [
            f"{line[at]:>{widths[at]}}"
            if numeric[at]
            else f"{_shortened(line[at], widths[at]):<{widths[at]}}"
            for at in shown
        ]
        lines.append(_GAP.join(parts).rstrip())
    return lines


def _fitting(
    heads: Sequence[str], widths: Sequence[int], columns: int | None, spare: Sequence[str]
) -> list[int]:
    """Return the indexes of the columns that are shown."""
    shown = list(range(len(heads)))
    for name in spare:
        if columns is None or _width(widths, shown) <= columns:
            break
        if name in heads:
            shown.remove(heads.index(name))
    return shown


def _cut(widths: list[int], shown: Sequence[int], numeric: Sequence[bool], columns: int) -> None:
    """Cut the widest text as far as necessary, then the next."""
    while (too_much := _width(widths, shown) - columns) > 0:
        at = max((one for one in shown if not numeric[one]), key=widths.__getitem__, default=-1)
        if at < 0 or widths[at] <= _LEAST:
            return
        others = [widths[one] for one in shown if not numeric[one] and one != at]
        next_widest = max([one for one in others if one < widths[at]], default=_LEAST)
        widths[at] = max(_LEAST, min(widths[at] - 1, next_widest), widths[at] - too_much)


def _width(widths: Sequence[int], shown: Sequence[int]) -> int:
    return sum(widths[at] for at in shown) + len(_GAP) * (len(shown) - 1)


def _shortened(text: str, width: int) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def format_age(age_ms: int) -> str:
    """Format an age in its largest unit: "3m"."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if age_ms >= length_ms:
            return f"{age_ms // length_ms}{unit}"
    return f"{age_ms}ms"
