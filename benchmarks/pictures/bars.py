"""Bars side by side: a line for each system, a column for each way it was used.

Ours come first and in colour, the others in grey, the fastest first; pale is what acknowledges
before it is on the disk. Beside a bar stands its value and, where there is one to compare with, how
many times as much ours is.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.pictures import card
from benchmarks.pictures.scales import linear, short

LABEL_WIDTH = 208.0
GAP = 26.0
ROW_HEIGHT = 42.0
BAR_HEIGHT = 20.0
BLOCK_HEAD = 34.0
BLOCK_GAP = 20.0
VALUE_WIDTH = 104.0
"""Room to the right of the longest bar."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """One value; `note` stands behind it in small letters."""

    value: float
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """A system: its name, what its acknowledgement is worth, and a bar or none in each column."""

    name: str
    under: str
    ours: bool
    synced: bool
    """Whether it acknowledges only what is on the disk."""
    bars: Sequence[Bar | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """Rows that share their columns; each column has a scale of its own."""

    columns: Sequence[str]
    rows: Sequence[Row]

    @property
    def height(self) -> float:
        return BLOCK_HEAD + ROW_HEIGHT * len(self.rows)


def draw_bars(
    title: str,
    subtitle: str,
    blocks: Sequence[Block],
    foot: Sequence[str],
    *,
    write: Callable[[float], str] = short,
) -> str:
    """The picture."""
    height = sum(block.height for block in blocks) + BLOCK_GAP * (len(blocks) - 1)
    sheet = card.begin(title, subtitle, foot, height)
    top = card.HEAD_HEIGHT
    for block in blocks:
        room = card.WIDTH - 2 * card.MARGIN - LABEL_WIDTH
        width = (room - GAP * (len(block.columns) - 1)) / len(block.columns)
        for number, column in enumerate(block.columns):
            left = card.MARGIN + LABEL_WIDTH + (width + GAP) * number
            sheet.words(left, top + 16, column, size=12.5, fill=card.SOFT, bold=True)
            sheet.line([(left, top + 27), (left, top + block.height)], stroke=card.EDGE)
            found = [row.bars[number] for row in block.rows]
            longest = max((bar.value for bar in found if bar is not None), default=1.0)
            scale = linear(longest or 1.0, 0, width - VALUE_WIDTH)
            for place, (row, bar) in enumerate(zip(block.rows, found, strict=True)):
                middle = top + BLOCK_HEAD + ROW_HEIGHT * (place + 0.5) - 2
                if bar is None:
                    sheet.words(left + 8, middle + 4, "–", size=12, fill=card.FAINT)
                    continue
                length = max(2.0, scale(bar.value))
                fill = card.colour(ours=row.ours, synced=row.synced)
                sheet.box(left, middle - BAR_HEIGHT / 2, length, BAR_HEIGHT, fill=fill, radius=3)
                words = write(bar.value)
                ink = card.OURS if row.ours else card.INK
                behind = left + length + 7
                sheet.words(behind, middle + 4.5, words, size=13, fill=ink, bold=row.ours)
                after = behind + 7.4 * len(words) + 7
                sheet.words(after, middle + 4, bar.note, size=10.5, fill=card.FAINT)
        for place, row in enumerate(block.rows):
            middle = top + BLOCK_HEAD + ROW_HEIGHT * (place + 0.5) - 2
            base = middle - 1 if row.under else middle + 4.5
            sheet.words(card.MARGIN, base, row.name, size=13, fill=card.INK, bold=row.ours)
            sheet.words(card.MARGIN, middle + 13, row.under, size=10.5, fill=card.FAINT)
        top += block.height + BLOCK_GAP
    return sheet.text()
