"""The chart of the dead-letter report: failures over time by reason, top reasons, ages."""

from collections import Counter
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path
from typing import Final

from penstock.spark.jobs.charts import draw_bars, draw_stacked, new_figure, save

KINDS_SHOWN: Final = 6
OTHER: Final = "other"


def draw_report(
    path: Path,
    counts: Sequence[tuple[datetime, str, int]],
    width_seconds: int,
    kinds: Sequence[tuple[str, int]],
    ages: Sequence[tuple[str, int]],
) -> None:
    """Write it; one colour stands for one kind of failure in all of it."""
    total: Counter[str] = Counter()
    for kind, messages in kinds:
        total[kind] += messages
    shown = [kind for kind, _ in total.most_common(KINDS_SHOWN)]
    rest = sum(total.values()) - sum(total[kind] for kind in shown)
    series: dict[str, Counter[datetime]] = {kind: Counter() for kind in shown}
    if rest:
        series[OTHER] = Counter()
    for start, kind, messages in counts:
        series[kind if kind in shown else OTHER][start] += messages
    dead = sum(total.values())
    figure, (over_time, reasons, by_age) = new_figure(f"{dead:,} dead letters", panels=3)
    draw_stacked(
        over_time,
        {kind: sorted(some.items()) for kind, some in series.items()},
        title="when they died",
        width_seconds=width_seconds,
        unit=f"messages in {width_seconds} s",
    )
    top = [(kind, total[kind]) for kind in shown]
    draw_bars(reasons, top + ([(OTHER, rest)] if rest else []), title="why", unit="messages")
    draw_bars(by_age, ages, title="how long ago", unit="messages", coloured=False)
    save(figure, path)
