"""Every benchmark there is, what it belongs to, and how much time it has.

`make bench` without a choice runs what a user wants to know: how Penstock compares with what else
there is, how it scales, what it takes of memory and how fast it starts. That has fifteen minutes on
two cores, peers included, and the seconds below are how they are shared out: a benchmark that
takes rounds takes no more than fit (`benchmarks.turns`). The rest, which looks inside or takes
long, runs when it is asked for by its name or by its group.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from benchmarks.append import measure_append
from benchmarks.backlog.measure import measure_backlog
from benchmarks.backlog.state import measure_state
from benchmarks.broker.latency import measure_latency
from benchmarks.broker.many_partitions import measure_many_partitions
from benchmarks.broker.memory import measure_memory
from benchmarks.broker.share_groups import measure_share_groups
from benchmarks.broker.small_requests import measure_small_requests
from benchmarks.broker.starts import measure_starts
from benchmarks.broker.throughput import measure_throughput
from benchmarks.native.latency import measure_native_latency
from benchmarks.native.throughput import measure_native_throughput
from benchmarks.observing.measure import measure_observing
from benchmarks.read import measure_read
from benchmarks.report import Finding, Progress
from benchmarks.scaling.backlog import measure_backlog_scaling
from benchmarks.scaling.consumers import measure_consumer_scaling
from benchmarks.scaling.partitions import measure_partition_scaling
from benchmarks.scaling.replicas import measure_replica_scaling
from benchmarks.simulator import measure_simulator
from benchmarks.spark.latency import measure_spark_latency
from benchmarks.spark.throughput import measure_spark_throughput
from benchmarks.sqs.throughput import measure_sqs
from benchmarks.stages import measure_stages
from benchmarks.start import measure_start

BUDGET_SECONDS = 870
"""Of all benchmarks of the default run; the other half minute is for starts and ends."""
QUICK_SHARE = 0.4
"""About this part of its budget a benchmark takes with --quick."""
PROFILE_NAME = "profile.txt"


class _Measure(Protocol):
    """A benchmark that needs only a directory."""

    def __call__(self, directory: str, *, quick: bool, progress: Progress) -> list[Finding]:
        """Measure."""


Run = Callable[[str, bool, Progress, Path], list[Finding]]
"""Where to make files, whether roughly, whom to tell, and where results go."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Benchmark:
    """One entry of the list."""

    name: str
    group: str
    seconds: int
    run: Run
    default: bool = True
    short: bool = False
    """Quick in a run of everything, and at its full length when it is asked for."""


def _plain(measure: _Measure) -> Run:
    return lambda directory, quick, progress, _: measure(directory, quick=quick, progress=progress)


def _simulator(_: str, quick: bool, progress: Progress, __: Path) -> list[Finding]:
    return measure_simulator(quick=quick, progress=progress)


def _stages(directory: str, quick: bool, progress: Progress, target: Path) -> list[Finding]:
    profile = target / PROFILE_NAME
    return measure_stages(directory, quick=quick, progress=progress, profile=profile)


def _asked(name: str, group: str, seconds: int, run: Run) -> Benchmark:
    """Only when it is asked for."""
    return Benchmark(name=name, group=group, seconds=seconds, run=run, default=False)


def _always(name: str, group: str, seconds: int, measure: _Measure) -> Benchmark:
    return Benchmark(name=name, group=group, seconds=seconds, run=_plain(measure))


SUITE = (
    _always("broker-throughput", "broker", 100, measure_throughput),
    _always("broker-latency", "broker", 95, measure_latency),
    _always("broker-requests", "broker", 40, measure_small_requests),
    _always("broker-memory", "broker", 35, measure_memory),
    _always("broker-start", "broker", 60, measure_starts),
    _always("native-throughput", "native", 140, measure_native_throughput),
    _always("native-latency", "native", 110, measure_native_latency),
    _always("sqs", "sqs", 55, measure_sqs),
    _always("scaling-backlog", "scaling", 65, measure_backlog_scaling),
    _always("scaling-partitions", "scaling", 45, measure_partition_scaling),
    _always("scaling-consumers", "scaling", 40, measure_consumer_scaling),
    _always("scaling-replicas", "scaling", 45, measure_replica_scaling),
    Benchmark(
        name="observing", group="observing", seconds=40, run=_plain(measure_observing), short=True
    ),
    _asked("broker-partitions", "partitions", 30, _plain(measure_many_partitions)),
    _asked("broker-share-groups", "share-groups", 90, _plain(measure_share_groups)),
    _asked("backlog", "backlog", 300, _plain(measure_backlog)),
    _asked("state", "backlog", 180, _plain(measure_state)),
    _asked("append", "log", 90, _plain(measure_append)),
    _asked("start", "log", 60, _plain(measure_start)),
    _asked("read", "log", 20, _plain(measure_read)),
    _asked("simulator", "log", 20, _simulator),
    _asked("stages", "log", 20, _stages),
    _asked("spark-throughput", "spark", 240, _plain(measure_spark_throughput)),
    _asked("spark-latency", "spark", 60, _plain(measure_spark_latency)),
)
RECORDS = {"log": "log", "spark": "spark", "backlog": "queues"}
"""What is not of the default run is recorded in files of its own, by group; `broker-partitions`,
which looks at the same thing as the default run, among the log's."""


def names() -> list[str]:
    """What may be asked for."""
    groups = dict.fromkeys(one.group for one in SUITE)
    return list(dict.fromkeys([*groups, *(one.name for one in SUITE)]))


def chosen(only: Iterable[str]) -> list[Benchmark]:
    """Those named by themselves or by their group, or those of the default run."""
    wanted = set(only)
    if not wanted:
        return [one for one in SUITE if one.default]
    return [one for one in SUITE if one.name in wanted or one.group in wanted]


def record_name(benchmarks: Iterable[Benchmark]) -> str:
    """The files of docs/benchmarks they belong to; all must belong to the same."""
    found = {RECORDS.get(one.group, "results" if one.default else "log") for one in benchmarks}
    if len(found) != 1:
        raise ValueError(f"recorded in {len(found)} files, so one at a time: {sorted(found)}")
    return found.pop()
