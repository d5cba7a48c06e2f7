"""From pairs of measurements to a verdict: pure."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchmarks.report import Finding, Measured, number

LEAST_RATIO = 0.95

Pair = tuple[float, float]
"""Messages a second of the base, then of this tree, one right after the other."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """One load."""

    load: str
    pairs: Sequence[Pair]

    @property
    def ratios(self) -> list[float]:
        """Of this tree to the base, pair by pair."""
        return [ours / max(base, 1e-9) for base, ours in self.pairs]

    @property
    def ratio(self) -> float:
        """Their median: one pair that was disturbed does not move it."""
        return statistics.median(self.ratios)

    @property
    def passes(self) -> bool:
        return self.ratio >= LEAST_RATIO

    def row(self) -> Measured:
        """For programs."""
        return {
            "load": self.load,
            "pairs": len(self.pairs),
            "base_per_second": statistics.median(base for base, _ in self.pairs),
            "per_second": statistics.median(ours for _, ours in self.pairs),
            "ratio": self.ratio,
            "ratio_least": min(self.ratios),
            "ratio_largest": max(self.ratios),
            "passes": str(self.passes).lower(),
        }


def judge(found: Mapping[str, Sequence[Pair]]) -> list[Verdict]:
    """Every load that both sides could do."""
    return [Verdict(load=load, pairs=pairs) for load, pairs in found.items() if pairs]


def doubtful(found: Mapping[str, Sequence[Pair]]) -> list[str]:
    """Loads that would fail: they are measured once more before that is said."""
    return [verdict.load for verdict in judge(found) if not verdict.passes]


def finding(verdicts: Sequence[Verdict], base: str, notes: Sequence[str]) -> Finding:
    """The table."""
    numbers = [verdict.row() for verdict in verdicts]
    rows = [
        (
            str(row["load"]),
            f"{number(row, 'base_per_second'):,.0f}",
            f"{number(row, 'per_second'):,.0f}",
            f"{number(row, 'ratio'):.2f}",
            f"{number(row, 'ratio_least'):.2f} – {number(row, 'ratio_largest'):.2f}",
            f"{row['pairs']}",
            "ok" if verdict.passes else "SLOWER",
        )
        for row, verdict in zip(numbers, verdicts, strict=True)
    ]
    return Finding(
        name="check",
        title=f"This working tree beside {base}",
        columns=("load", f"{base}/s", "here/s", "ratio", "of all pairs", "pairs", ""),
        rows=rows,
        notes=[
            "ratio: the median of the ratios of pairs, each taken one right after the other.",
            f"below {LEAST_RATIO} a load counts as slower, and this run fails.",
            *notes,
        ],
        numbers=numbers,
    )
