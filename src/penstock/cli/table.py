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


def format_age(age_ms: int) -> str:
    """How old something is, in the largest unit of which there is one: "3m"."""
    for unit, length_ms in (("d", 86_400_000), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)):
        if age_ms >= length_ms:
            return f"{age_ms // length_ms}{unit}"
    return f"{age_ms}ms"
