"""Latency: for each system the median and the slowest hundredth, on a logarithmic scale."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from benchmarks.pictures import card
from benchmarks.pictures.bars import BLOCK_GAP, BLOCK_HEAD, LABEL_WIDTH, ROW_HEIGHT
from benchmarks.pictures.scales import Scale, log_ticks, logarithmic, short
from benchmarks.pictures.svg import Sheet

AXIS_HEIGHT = 30.0
VALUE_WIDTH = 120.0
LABEL_APART = 46.0
_RADIUS = 6.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """One system."""

    name: str
    under: str
    ours: bool
    synced: bool
    p50_ms: float
    p99_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """Systems that were measured in the same way."""

    heading: str
    spans: Sequence[Span]

    @property
    def height(self) -> float:
        return BLOCK_HEAD + ROW_HEIGHT * len(self.spans)


def draw_dots(title: str, subtitle: str, sections: Sequence[Section], foot: Sequence[str]) -> str:
    """The picture; all sections share one scale."""
    every = [span for section in sections for span in section.spans]
    marks = log_ticks(min(one.p50_ms for one in every), max(one.p99_ms for one in every))
    height = sum(one.height + BLOCK_GAP for one in sections) + AXIS_HEIGHT - BLOCK_GAP
    sheet = card.begin(title, subtitle, foot, height)
    left, right = card.MARGIN + LABEL_WIDTH, card.WIDTH - card.MARGIN - VALUE_WIDTH
    scale = logarithmic(marks[0], marks[-1], left, right)
    bottom = card.HEAD_HEIGHT + height - AXIS_HEIGHT + 4
    for mark in marks:
        sheet.line([(scale(mark), card.HEAD_HEIGHT + 22), (scale(mark), bottom)], stroke=card.GRID)
    for mark in legible(marks, scale, LABEL_APART):
        words = duration(mark)
        sheet.words(scale(mark), bottom + 17, words, size=11, fill=card.SOFT, anchor="middle")
    top = card.HEAD_HEIGHT
    for section in sections:
        sheet.words(card.MARGIN, top + 16, section.heading, size=12.5, fill=card.SOFT, bold=True)
        for number, span in enumerate(section.spans):
            middle = top + BLOCK_HEAD + ROW_HEIGHT * (number + 0.5) - 2
            _draw_span(sheet, span, scale, middle)
        top += section.height + BLOCK_GAP
    _draw_key(sheet, right)
    return sheet.text()


def legible(marks: Sequence[float], scale: Scale, apart: float) -> list[float]:
    """Those whose labels have room: all of 1, 2 and 5, or else only powers of ten."""
    places = [scale(mark) for mark in marks]
    gaps = [after - before for before, after in pairwise(places)]
    if min(gaps, default=apart) >= apart:
        return list(marks)
    return [mark for mark in marks if f"{mark:e}".startswith("1.000000e")]


def duration(milliseconds: float) -> str:
    """`0.2 ms`, `5 s`."""
    if milliseconds >= 1_000:
        return f"{milliseconds / 1_000:g} s"
    return f"{milliseconds:g} ms"


def _draw_span(sheet: Sheet, span: Span, scale: Scale, middle: float) -> None:
    colour = card.colour(ours=span.ours, synced=span.synced)
    begin, end = scale(span.p50_ms), scale(span.p99_ms)
    sheet.words(card.MARGIN, middle - 1, span.name, size=13, fill=card.INK, bold=span.ours)
    sheet.words(card.MARGIN, middle + 13, span.under, size=10.5, fill=card.FAINT)
    sheet.line([(begin, middle), (end, middle)], stroke=colour, width=3)
    sheet.dot(end, middle, _RADIUS - 1, fill=card.PAPER, stroke=colour)
    sheet.dot(begin, middle, _RADIUS, fill=colour)
    words = f"{_three(span.p50_ms)} · {_three(span.p99_ms)} ms"
    ink = card.OURS if span.ours else card.INK
    at = card.WIDTH - card.MARGIN
    sheet.words(at, middle + 4.5, words, size=12.5, fill=ink, bold=span.ours, anchor="end")


def _three(milliseconds: float) -> str:
    return f"{milliseconds:,.0f}" if milliseconds >= 1_000 else short(milliseconds)


def _draw_key(sheet: Sheet, right: float) -> None:
    """What the two marks mean."""
    base = card.HEAD_HEIGHT + 14
    at = right - 150
    sheet.dot(at, base - 4, _RADIUS - 1, fill=card.SOFT)
    sheet.words(at + 11, base, "half are faster", size=11, fill=card.SOFT)
    at += 112
    sheet.dot(at, base - 4, _RADIUS - 2, fill=card.PAPER, stroke=card.SOFT)
    sheet.words(at + 11, base, "99 of 100 are", size=11, fill=card.SOFT)
