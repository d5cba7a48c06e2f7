"""The frame of every picture: a white card with a title, what was measured, and a foot line.

The foot names the machine and the versions: without them the numbers mean nothing.
"""

from collections.abc import Sequence

from benchmarks.pictures.svg import Sheet, width_of

WIDTH = 900.0
MARGIN = 28.0
HEAD_HEIGHT = 78.0
FOOT_LINE = 15.0
FOOT_PADDING = 30.0

OURS = "#0b6bcb"
PEER = "#9aa6b4"
PALE = "#d3dae2"
"""Of what acknowledges before it is on the disk."""
INK = "#1b2733"
SOFT = "#5b6876"
FAINT = "#8a95a1"
GRID = "#e6eaef"
EDGE = "#d7dde4"
PAPER = "#ffffff"
LINES = ("#0b6bcb", "#0d9373", "#c2570c", "#7c4dbe")
"""For lines that are all ours."""


def begin(title: str, subtitle: str, foot: Sequence[str], height: float) -> Sheet:
    """A card whose body has so much room."""
    lines = [part for line in foot for part in wrap(line, WIDTH - 2 * MARGIN, 11)]
    whole = HEAD_HEIGHT + height + FOOT_PADDING + FOOT_LINE * len(lines) + 12
    sheet = Sheet(WIDTH, whole, f"{title}: {subtitle}")
    sheet.box(0.5, 0.5, WIDTH - 1, whole - 1, fill=PAPER, radius=12, stroke=EDGE)
    sheet.words(MARGIN, 38, title, size=20, fill=INK, bold=True)
    sheet.words(MARGIN, 59, subtitle, size=13, fill=SOFT)
    base = HEAD_HEIGHT + height + FOOT_PADDING
    sheet.line([(MARGIN, base - 14), (WIDTH - MARGIN, base - 14)], stroke=GRID)
    for number, line in enumerate(lines):
        sheet.words(MARGIN, base + 4 + FOOT_LINE * number, line, size=11, fill=FAINT)
    return sheet


def colour(*, ours: bool, synced: bool) -> str:
    """Of a bar or a dot."""
    if ours:
        return OURS
    return PEER if synced else PALE


def wrap(text: str, width: float, size: float) -> list[str]:
    """Lines that are no wider than that, broken between words."""
    lines = [""]
    for word in text.split():
        longer = f"{lines[-1]} {word}".strip()
        if lines[-1] and width_of(longer, size) > width:
            lines.append(word)
        else:
            lines[-1] = longer
    return lines
