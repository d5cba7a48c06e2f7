"""Tables on a terminal: aligned columns, one line a row, easy to cut and grep."""

from collections.abc import Sequence


def print_table(heads: Sequence[str], rows: Sequence[Sequence[object]]) -> None:
    """Print heads and rows to stdout; numbers to the right."""
    cells = [[str(value) for value in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(heads, *cells, strict=True)]
    numeric = [
        bool(rows) and all(isinstance(row[number], int) for row in rows)
        for number in range(len(heads))
    ]
    for line in [list(heads), *cells]:
        parts = [
            f"{text:>{width}}" if right else f"{text:<{width}}"
            for text, width, right in zip(line, widths, numeric, strict=True)
        ]
        print("  ".join(parts).rstrip())
