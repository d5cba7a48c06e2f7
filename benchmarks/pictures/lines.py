"""Scaling: how much of its throughput a thing keeps as it grows.

Heights are ratios to the first point, so that ways of very different speed share one picture; the
rates themselves stand at the ends of the lines. Points are spaced evenly, whatever lies between.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.pictures import card
from benchmarks.pictures.scales import linear, short, ticks

PLOT_HEIGHT = 270.0
AXIS_HEIGHT = 56.0
AXIS_WIDTH = 46.0
LABEL_WIDTH = 190.0
LABEL_HEIGHT = 34.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One way: a ratio for each point, and the rate at the first and at the last."""

    name: str
    ratios: Sequence[float]
    first_rate: float
    last_rate: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Plot:
    """Lines over the same points."""

    points: Sequence[str]
    under: Sequence[str]
    """What stands below each point, such as the memory there."""
    axis: str
    lines: Sequence[Line]
    aim: float | None = None
    aim_at: int | None = None
    """The point up to which the aim is meant; none is all."""


def draw_lines(title: str, subtitle: str, plot: Plot, foot: Sequence[str]) -> str:
    """The picture."""
    sheet = card.begin(title, subtitle, foot, PLOT_HEIGHT + AXIS_HEIGHT)
    left = card.MARGIN + AXIS_WIDTH
    right = card.WIDTH - card.MARGIN - LABEL_WIDTH
    top, bottom = card.HEAD_HEIGHT + 8, card.HEAD_HEIGHT + PLOT_HEIGHT
    marks = ticks(max(1.1, *(ratio for line in plot.lines for ratio in line.ratios)), 5)
    height = linear(marks[-1], bottom, top)
    for mark in marks:
        sheet.line([(left, height(mark)), (right, height(mark))], stroke=card.GRID)
        words = f"{mark:g}×"
        sheet.words(left - 9, height(mark) + 4, words, size=11, fill=card.SOFT, anchor="end")
    step = (right - left - 40) / max(1, len(plot.points) - 1)
    places = [left + 20 + step * number for number in range(len(plot.points))]
    for place, point, under in zip(places, plot.points, plot.under, strict=True):
        sheet.words(place, bottom + 19, point, size=12, fill=card.INK, anchor="middle")
        sheet.words(place, bottom + 34, under, size=10.5, fill=card.FAINT, anchor="middle")
    middle = (left + right) / 2
    sheet.words(middle, bottom + 52, plot.axis, size=11, fill=card.SOFT, anchor="middle")
    if plot.aim is not None:
        end = right if plot.aim_at is None else places[plot.aim_at]
        aim = height(plot.aim)
        sheet.line([(left, aim), (end, aim)], stroke=card.SOFT, dashes="4 5")
        words = f"aim: at least {plot.aim:g}×"
        sheet.words(left + 8, aim + 14, words, size=10.5, fill=card.SOFT)
    for line, colour in zip(plot.lines, card.LINES, strict=False):
        path = [(place, height(one)) for place, one in zip(places, line.ratios, strict=True)]
        sheet.line(path, stroke=colour, width=2.5)
        for x, y in path:
            sheet.dot(x, y, 4, fill=colour)
    wanted = [height(line.ratios[-1]) for line in plot.lines]
    for line, colour, at in zip(
        plot.lines, card.LINES, spread(wanted, LABEL_HEIGHT, bottom), strict=False
    ):
        begin = right + 4
        words = f"{line.name} {line.ratios[-1]:.2f}×"
        sheet.words(begin, at, words, size=12.5, fill=colour, bold=True)
        rates = f"{short(line.first_rate)}/s → {short(line.last_rate)}/s"
        sheet.words(begin, at + 14, rates, size=11, fill=card.SOFT)
    return sheet.text()


def spread(wanted: Sequence[float], apart: float, lowest: float) -> list[float]:
    """Places near the wanted ones, in the same order, so that labels do not cover each other and
    none lies below `lowest`."""
    order = sorted(range(len(wanted)), key=lambda number: wanted[number])
    placed: list[float] = []
    for number in order:
        above = placed[-1] + apart if placed else wanted[number]
        placed.append(max(wanted[number], above))
    # Whatever was pushed out at the bottom pushes the others up.
    limit = lowest
    for number in range(len(placed) - 1, -1, -1):
        placed[number] = min(placed[number], limit)
        limit = placed[number] - apart
    found = [0.0] * len(wanted)
    for number, at in zip(order, placed, strict=True):
        found[number] = at
    return found
