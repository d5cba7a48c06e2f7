"""What the pairs of stretches say together, and how far that can be trusted."""

import random
import statistics
from collections.abc import Sequence

from benchmarks.observing.onlooker import Looked
from benchmarks.observing.sender import IN_FLIGHT, VALUE_BYTES
from benchmarks.observing.stretches import OBSERVED, QUIET
from benchmarks.report import Finding, Measured

QUEUES = 50
SECONDS = 1.0
"""Of a stretch under load."""
AIM_SHARE = 0.02
TRIM_SHARE = 0.2
"""So many of the lowest and of the highest ratios do not count."""
DRAWS = 2_000
WITHIN_SHARE = 0.95


def middle(ratios: Sequence[float]) -> float:
    """The mean without the lowest and the highest. The mean of ratios is the geometric one: half as
    much and twice as much are as much together."""
    ordered = sorted(ratios)
    cut = int(len(ordered) * TRIM_SHARE)
    return statistics.geometric_mean(ordered[cut : len(ordered) - cut])


def within(ratios: Sequence[float]) -> tuple[float, float]:
    """Where the mean of the middle would lie if it were all measured again, nineteen times of
    twenty; always the same for the same ratios."""
    chance = random.Random(1)
    drawn = sorted(middle(chance.choices(ratios, k=len(ratios))) for _ in range(DRAWS))
    cut = int(DRAWS * (1 - WITHIN_SHARE) / 2)
    return drawn[cut], drawn[-1 - cut]


def _column(rows: Sequence[Measured], name: str) -> list[float]:
    return [float(row[name]) for row in rows]


def finding(rows: list[Measured], idle: list[dict[str, float]], looked: Looked) -> Finding:
    """The finding, of pairs under load and of pairs of an idle broker."""
    ratios = _column(rows, "messages_per_second_ratio")
    ratio, (low, high) = middle(ratios), within(ratios)
    costs = _column(rows, "broker_cpu_seconds_per_million_ratio")
    quiet = 1_000 * statistics.median(one[QUIET] for one in idle)
    observed = 1_000 * statistics.median(one[OBSERVED] for one in idle)
    table = [
        (
            way,
            f"{statistics.median(_column(rows, f'{way}_messages_per_second')):,.0f}",
            f"{statistics.median(_column(rows, f'{way}_broker_cpu_seconds_per_million')):.1f}",
            f"{statistics.median(_column(rows, f'{way}_cpu_seconds_per_second')):.2f}",
            f"{milliseconds:.1f}",
        )
        for way, milliseconds in ((QUIET, quiet), (OBSERVED, observed))
    ]
    numbers: Measured = {
        "messages_per_second_ratio_middle": ratio,
        "messages_per_second_ratio_low": low,
        "messages_per_second_ratio_high": high,
        "broker_cpu_seconds_per_million_ratio_middle": middle(costs),
        "idle_quiet_cpu_ms_per_second": quiet,
        "idle_observed_cpu_ms_per_second": observed,
        "idle_cost_share_of_core": (observed - quiet) / 1_000,
        "metric_lines": looked.lines,
        "scrapes": looked.scrapes,
        "pages": looked.pages,
    }
    return Finding(
        name="observing",
        title=f"One client sends messages of {VALUE_BYTES} B, {IN_FLIGHT} requests in flight,"
        f" {QUEUES} queues, one node: medians of {len(rows)} pairs of {SECONDS:g} s",
        columns=("", "messages/s", "broker CPU s/million", "broker CPU s/s", "idle, CPU ms/s"),
        rows=table,
        notes=_notes(ratios, costs, (quiet, observed), looked),
        numbers=[numbers, *rows],
    )


def _notes(
    ratios: list[float], costs: list[float], idle_ms: tuple[float, float], looked: Looked
) -> tuple[str, ...]:
    ratio, (low, high) = middle(ratios), within(ratios)
    cost_low, cost_high = within(costs)
    word = "met" if 1 - ratio < AIM_SHARE else "missed"
    sure = "" if (1 - low < AIM_SHARE) == (1 - high < AIM_SHARE) else ", though not for certain"
    idle = idle_ms[1] - idle_ms[0]
    counted = f"{100 * (1 - 2 * TRIM_SHARE):.0f} %"
    messages = (
        f"messages, observed to quiet: {ratio:.3f}, the mean of the middle {counted} of all pairs,"
        f" which lie between {min(ratios):.3f} and {max(ratios):.3f};"
        f" measured again, it would lie between {low:.3f} and {high:.3f}"
    )
    verdict = (
        f"that is {100 * abs(1 - ratio):.1f} % {'fewer' if ratio < 1 else 'more'} messages;"
        f" the aim of under {100 * AIM_SHARE:.0f} % is {word}{sure}"
    )
    processor = (
        f"processor time for each message, observed to quiet: {middle(costs):.3f}"
        f" ({cost_low:.3f} to {cost_high:.3f})"
    )
    direct = (
        f"an idle broker spends {idle:.1f} ms a second on being looked at:"
        f" {idle / 10:.2f} % of the one core that its loop has"
    )
    seen = (
        f"{looked.lines:,} lines of metrics every observed second, the slowest in"
        f" {1_000 * looked.scrape_seconds:.0f} ms; {looked.pages} pages;"
        " the onlooker shares the machine; where the broker has much less than a core,"
        " others had it, and messages say little"
    )
    return messages, verdict, processor, direct, seen
