"""Capacity of a queue and of what works on it, from a rate, a service time and a few wishes.

The theory is small:

- **Little's law**, L = λW: at λ messages a second that take W seconds each, L = λW are under way.
  So many workers are busy, and so many messages are leased. It holds whatever the distribution.
- **Utilisation**, ρ = λW / c with c workers: from 1 on the queue grows without end, and close to 1
  messages wait long. How long is Erlang's business (`erlang.py`).
- **A peak** of p times the rate for D seconds leaves a backlog of (pλ − c/W)·D if the workers are
  too few for it, whose last message waits backlog / (c/W), and which is gone after
  backlog / (c/W − λ). To keep that wait below T, c ≥ pλW · D / (D + T) workers are needed: the
  longer messages may wait, the fewer; that is what a queue is for.

Pure functions: a `Demand` goes in, a `Plan` comes out. Words are in `plan.py`.
"""

import math
from dataclasses import dataclass

from penstock.cli.plan import measurements as measured
from penstock.cli.plan.advice import AT_MOST_ONCE, Tier, tier_for
from penstock.cli.plan.erlang import SERVERS_MAX, servers_for_wait, waiting
from penstock.core.errors import LocalError

RATE_MAX = 1e9
PARTITIONS_MAX = 10_000
"""The partitions of a cluster, in all topics."""
PERCENTILE = 0.99
REPLICAS = 3
DISK_FULL = 0.8
"""The part of a disk from which on one is warned."""
LEASE_LEAST_SECONDS = 30.0
LEASE_FACTOR = 6
"""A lease is to outlast the slowest message, not the usual one."""
GROWTH = 2
"""The factor by which partitions are over-provisioned where adding some later would move keys."""
CACHED_SECONDS = 30.0
"""The seconds of traffic that should fit into free memory, so that readers do not wait for the
disk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Demand:
    """The requirements that a plan has to meet."""

    rate: float
    """Messages a second, over a day."""
    service_seconds: float
    """The time for which one message occupies a worker."""
    guarantee: str
    message_bytes: int = 1_024
    peak: float = 3.0
    """The peak rate as a multiple of the average rate."""
    peak_seconds: float = 3_600.0
    target_delay_seconds: float = 10.0
    """The longest acceptable wait of a message before a worker starts on it."""
    retention_seconds: float = 7 * 86_400.0
    nodes: int = 3
    order: str = "none"
    keys: int | None = None
    """The number of different keys; None if it is unknown."""
    failures: float = 0.0
    """The share of attempts that fail and are made again."""
    utilisation_max: float = 0.7
    concurrency: int = 50
    """Workers in one process: tasks or threads."""

    def check(self) -> None:
        """Raise an error if a value is out of range."""
        for name, value, low, high in (
            ("--rate", self.rate, 1e-6, RATE_MAX),
            ("--service-time", self.service_seconds, 1e-9, 30 * 86_400.0),
            ("--size", self.message_bytes, 1, 1 << 30),
            ("--peak", self.peak, 1, 1e6),
            ("--peak-length", self.peak_seconds, 1, 366 * 86_400.0),
            ("--target-delay", self.target_delay_seconds, 1e-6, 366 * 86_400.0),
            ("--retention", self.retention_seconds, 0, 100 * 366 * 86_400.0),
            ("--nodes", self.nodes, 1, 1_000),
            ("--failures", self.failures, 0, 0.99),
            ("--utilisation", self.utilisation_max, 0.01, 0.99),
            ("--concurrency", self.concurrency, 1, 100_000),
            ("--keys", 1 if self.keys is None else self.keys, 1, 10**12),
        ):
            if not low <= value <= high:  # Also refuses what is no number.
                raise LocalError(f"{name} must be from {low:g} to {high:g}, not {value:g}")
        if self.attempts_per_second * self.peak * self.service_seconds > SERVERS_MAX / 2:
            raise LocalError(
                f"{self.rate:g} messages/s of {self.service_seconds:g} s each keep"
                f" {self.rate * self.service_seconds:,.0f} workers busy, which is more than a plan"
                " is good for; is --service-time in seconds?"
            )

    @property
    def attempts_per_second(self) -> float:
        """Each message is tried until it succeeds, unless nothing is tried again."""
        if self.guarantee == AT_MOST_ONCE:
            return self.rate
        return self.rate / (1 - self.failures)

    @property
    def offered(self) -> float:
        """Little's law: how many workers are busy."""
        return self.attempts_per_second * self.service_seconds

    @property
    def replicas(self) -> int:
        """The number of copies of each message."""
        return min(self.nodes, REPLICAS)


@dataclass(frozen=True, slots=True, kw_only=True)
class Staffing:
    """The expected behaviour with some number of workers."""

    name: str
    workers: int
    utilisation: float
    wait_share: float
    """The share of messages that wait for a worker at all, at the average rate (Erlang C)."""
    wait_mean_seconds: float
    wait_p99_seconds: float
    waiting: float
    """Messages that wait, on average, at the usual rate."""
    peak_backlog: float
    """Messages that wait at the end of the peak."""
    peak_delay_seconds: float
    """The wait of the last message of the backlog."""
    drain_seconds: float
    """The time from the end of the peak until the backlog is gone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Partitions:
    """The advised number of partitions, and the number for each reason."""

    advised: int
    for_rate: int
    for_nodes: int
    for_consumers: int
    """The number for a topic with a consumer group instead of a queue: one consumer per
    partition."""
    per_partition_rate: float
    """Messages a second that one is taken to carry."""
    grown: bool
    """More than needed now, since adding some later moves keys to other partitions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Resources:
    """The resources of a node."""

    nodes_for_rate: int
    replicas: int
    losses_survived: int
    disk_bytes: float
    """For a retention, with room to spare."""
    disk_bytes_acked_deleted: float
    """The disk space if acknowledged messages are deleted: the backlog of the peak."""
    memory_bytes: float
    cache_bytes: float
    network_bytes_per_second: float
    """Sent and received, at the peak."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    demand: Demand
    tier: Tier
    in_flight: float
    """Leased at the usual rate, by Little's law."""
    in_flight_peak: float
    lease_seconds: float
    waiting_max: float
    """The number of waiting messages above which the target is missed, by Little's law."""
    least: Staffing
    """Barely enough: the queue does not grow, over a day."""
    steady: Staffing
    """Enough at the usual rate, with room; a peak is worked off later."""
    prompt: Staffing
    """Enough to keep the target even at the end of a peak."""
    workers_max: int
    """For autoscaling: enough to keep utilisation down at the height of the peak."""
    processes: int
    partitions: Partitions
    resources: Resources
    problems: tuple[str, ...]
    """Why this cannot work as it is."""

    @property
    def advised(self) -> Staffing:
        """The one to have, without autoscaling."""
        return self.prompt


def make_plan(demand: Demand) -> Plan:
    """Compute a plan."""
    demand.check()
    offered = demand.offered
    steady_workers = max(
        _at_least(offered / demand.utilisation_max),
        servers_for_wait(
            offered=offered,
            service_seconds=demand.service_seconds,
            wait_seconds=demand.target_delay_seconds,
            share=PERCENTILE,
        ).servers,
    )
    prompt_workers = max(steady_workers, workers_for_peak(demand))
    prompt = _staffing(demand, "prompt", prompt_workers)
    return Plan(
        demand=demand,
        tier=tier_for(demand.rate * demand.peak),
        in_flight=offered,
        in_flight_peak=min(offered * demand.peak, prompt_workers),
        lease_seconds=max(LEASE_LEAST_SECONDS, LEASE_FACTOR * demand.service_seconds),
        waiting_max=demand.attempts_per_second * demand.target_delay_seconds,
        least=_staffing(demand, "least", math.floor(offered) + 1),
        steady=_staffing(demand, "steady", steady_workers),
        prompt=prompt,
        workers_max=max(prompt_workers, _at_least(offered * demand.peak / demand.utilisation_max)),
        processes=_at_least(prompt_workers / demand.concurrency),
        partitions=_partitions(demand, prompt_workers),
        resources=_resources(demand, prompt),
        problems=tuple(_problems(demand)),
    )


def workers_for_peak(demand: Demand) -> int:
    """With which even the last message of a peak waits no longer than it may."""
    length = demand.peak_seconds
    share = length / (length + demand.target_delay_seconds)
    return _at_least(demand.offered * demand.peak * share)


def _staffing(demand: Demand, name: str, workers: int) -> Staffing:
    served = workers / demand.service_seconds
    arriving = demand.attempts_per_second
    backlog = max(0.0, (arriving * demand.peak - served) * demand.peak_seconds)
    steady = waiting(
        offered=demand.offered, service_seconds=demand.service_seconds, servers=workers
    )
    return Staffing(
        name=name,
        workers=workers,
        utilisation=steady.utilisation,
        wait_share=steady.share,
        wait_mean_seconds=steady.mean_seconds,
        wait_p99_seconds=steady.quantile_seconds(PERCENTILE),
        waiting=steady.messages,
        peak_backlog=backlog,
        peak_delay_seconds=backlog / served,
        drain_seconds=backlog / (served - arriving),
    )


def _partitions(demand: Demand, workers: int) -> Partitions:
    size = demand.message_bytes + measured.RECORD_BYTES
    carried = measured.USABLE * min(
        measured.SENT_PER_SECOND,
        measured.HANDLED_PER_SECOND * (1.0 if demand.order == "none" else measured.FIFO_SHARE),
        measured.SENT_BYTES_PER_SECOND / size,
    )
    for_rate = _at_least(demand.rate * demand.peak / carried)
    for_consumers = _at_least(workers / demand.concurrency)
    if demand.order == "total":
        advised = 1
    else:
        advised = max(for_rate, demand.nodes)
        if demand.order == "key":
            advised *= GROWTH
            if demand.keys is not None:
                advised = min(advised, demand.keys)
    return Partitions(
        advised=min(advised, PARTITIONS_MAX),
        for_rate=for_rate,
        for_nodes=demand.nodes,
        for_consumers=for_consumers,
        per_partition_rate=carried,
        grown=demand.order == "key",
    )


def _resources(demand: Demand, staffing: Staffing) -> Resources:
    size = demand.message_bytes + measured.RECORD_BYTES
    share = demand.replicas / demand.nodes
    peak_rate = demand.rate * demand.peak
    node_rate = measured.USABLE * min(
        measured.SENT_PER_SECOND, measured.SENT_BYTES_PER_SECOND / size
    )
    held = demand.offered * demand.peak
    return Resources(
        nodes_for_rate=_at_least(peak_rate * demand.replicas / node_rate),
        replicas=demand.replicas,
        losses_survived=(demand.nodes - 1) // 2,
        disk_bytes=demand.rate * demand.retention_seconds * size * share / DISK_FULL,
        disk_bytes_acked_deleted=(staffing.peak_backlog + demand.offered * demand.peak)
        * size
        * share
        / DISK_FULL,
        memory_bytes=measured.BROKER_BYTES + held * share * measured.HELD_MESSAGE_BYTES,
        cache_bytes=peak_rate * size * share * CACHED_SECONDS,
        # In from producers, out to consumers once, and to the other replicas.
        network_bytes_per_second=peak_rate * size * (2 + demand.replicas - 1) / demand.nodes,
    )


def _problems(demand: Demand) -> list[str]:
    """The problems that adding workers does not solve."""
    found = []
    keys = {"total": 1, "key": demand.keys}.get(demand.order)
    if keys is not None and demand.offered >= keys:
        limit = keys / demand.service_seconds
        what = (
            "In total order one message is handled at a time"
            if demand.order == "total"
            else f"With {keys:,} keys at most {keys:,} messages are handled at a time"
        )
        found.append(
            f"{what}: {limit:,.4g} messages/s at {demand.service_seconds:g} s each, and"
            f" {demand.attempts_per_second:,.4g} come. Shorten the work to below"
            f" {keys / demand.attempts_per_second * 1e3:.3g} ms, or order by a key with more"
            " values."
        )
    if demand.target_delay_seconds < measured.SEND_TO_RECEIVE_P50_SECONDS:
        found.append(
            f"A message takes about {measured.SEND_TO_RECEIVE_P50_SECONDS * 1e3:g} ms from sending"
            " to receiving even if a worker is free: the target delay is below that."
        )
    return found


def _at_least(value: float) -> int:
    """Rounded up, forgiving what floating point adds."""
    return max(1, math.ceil(value - 1e-9))
