"""How many events the simulator gets through in a second: what a seed costs, and hence a proof.

Each seed is another cluster with other faults, so their rates differ; the table shows the median,
and the rate over all of them together.
"""

import statistics
import time

from benchmarks.report import Finding, Measured, Progress
from tests.simulation.cluster import SAFETY_US, Cluster
from tests.simulation.timeline import SECOND

SEEDS = 16
SEEDS_QUICK = 4


def measure_simulator(*, quick: bool, progress: Progress) -> list[Finding]:
    """One finding, over several seeds, in this process alone."""
    seeds = SEEDS_QUICK if quick else SEEDS
    rates = []
    events = 0
    total_seconds = 0.0
    for seed in range(seeds):
        progress(f"simulator: seed {seed} of {seeds}")
        began = time.perf_counter()
        outcome = Cluster(seed).run()
        seconds = time.perf_counter() - began
        rates.append(outcome.events / seconds)
        events += outcome.events
        total_seconds += seconds
    row: Measured = {
        "seeds": seeds,
        "events": events,
        "events_per_second": events / total_seconds,
        "events_per_second_median": statistics.median(rates),
        "seconds_per_seed": total_seconds / seeds,
    }
    cells = (
        f"{seeds}",
        f"{events:,}",
        f"{events / total_seconds:,.0f}",
        f"{statistics.median(rates):,.0f}",
        f"{total_seconds / seeds:.2f}",
    )
    return [
        Finding(
            name="simulator",
            title=f"Simulator, {SAFETY_US // SECOND} simulated seconds a seed, one process",
            columns=("seeds", "events", "events/s", "events/s, median seed", "s/seed"),
            rows=[cells],
            notes=["every invariant is checked after every event."],
            numbers=[row],
        )
    ]
