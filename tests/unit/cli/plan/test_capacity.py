"""Capacity: Little's law, peaks, partitions and what a node needs, by numbers one can check."""

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.cli.plan import measurements as measured
from penstock.cli.plan.capacity import PARTITIONS_MAX, Demand, make_plan, workers_for_peak
from penstock.core.errors import LocalError

USUAL = Demand(rate=5_000, service_seconds=0.2, guarantee="at-least-once")


def changed(**changes: object) -> Demand:
    return dataclasses.replace(USUAL, **changes)  # type: ignore[arg-type]


def test_littles_law() -> None:
    plan = make_plan(USUAL)
    assert plan.in_flight == 1_000
    assert plan.least.workers == 1_001, "one more than busy, else the queue never gets empty"
    assert plan.steady.workers == 1_429, "busy 70 % of the time"
    assert plan.steady.utilisation == pytest.approx(0.7, abs=0.001)


def test_littles_law_says_how_many_may_wait() -> None:
    assert make_plan(USUAL).waiting_max == 50_000
    assert make_plan(changed(target_delay_seconds=1)).waiting_max == 5_000


def test_a_peak_is_kept_on_time_or_worked_off_later() -> None:
    """15,000/s for an hour. 1,429 workers do 7,145/s: 28.3 million are left, the last of them
    waits 1.1 hours, and at 5,000/s more coming in they are gone after 3.66 hours."""
    plan = make_plan(USUAL)
    assert plan.steady.peak_backlog == pytest.approx((15_000 - 7_145) * 3_600)
    assert plan.steady.peak_delay_seconds == pytest.approx(28_278_000 / 7_145)
    assert plan.steady.drain_seconds == pytest.approx(28_278_000 / 2_145)
    assert plan.prompt.workers == 2_992
    assert plan.prompt.peak_delay_seconds <= 10
    assert plan.workers_max == 4_286
    assert plan.advised is plan.prompt


def test_without_a_peak_the_usual_rate_decides() -> None:
    plan = make_plan(changed(peak=1))
    assert plan.prompt.workers == plan.steady.workers == plan.workers_max == 1_429
    assert plan.prompt.peak_backlog == plan.prompt.drain_seconds == 0


def test_a_short_target_needs_more_workers_than_utilisation_asks_for() -> None:
    """Three messages a second of half a second: three workers would be busy half of the time, yet
    one message in four would wait."""
    few = Demand(
        rate=3, service_seconds=0.5, guarantee="at-least-once", peak=1, target_delay_seconds=0.01
    )
    assert make_plan(few).prompt.workers == 6
    assert make_plan(dataclasses.replace(few, target_delay_seconds=60)).prompt.workers == 3


def test_what_fails_is_work_again_unless_nothing_is_tried_again() -> None:
    assert make_plan(changed(failures=0.2)).in_flight == pytest.approx(1_250)
    lossy = changed(failures=0.2, guarantee="at-most-once")
    assert make_plan(lossy).in_flight == 1_000


def test_leases_outlast_the_work() -> None:
    assert make_plan(USUAL).lease_seconds == 30
    assert make_plan(changed(rate=1, service_seconds=60)).lease_seconds == 360


def test_partitions_by_rate_by_nodes_and_by_order() -> None:
    assert make_plan(USUAL).partitions.advised == 3, "one for each node"
    assert make_plan(changed(order="total", rate=1)).partitions.advised == 1
    assert make_plan(changed(order="key", peak=1)).partitions.advised == 6, (
        "room to grow: keys would move"
    )
    assert make_plan(changed(order="key", keys=4)).partitions.advised == 4
    fast = changed(rate=1_000_000, service_seconds=0.001, message_bytes=100)
    plan = make_plan(fast)
    carried = measured.USABLE * min(measured.SENT_PER_SECOND, measured.HANDLED_PER_SECOND)
    assert plan.partitions.advised == plan.partitions.for_rate == math.ceil(3_000_000 / carried)
    heavy = make_plan(dataclasses.replace(fast, message_bytes=10_000))
    assert heavy.partitions.per_partition_rate < plan.partitions.per_partition_rate / 5
    most = make_plan(dataclasses.replace(fast, rate=100_000_000, service_seconds=1e-6,
                                         message_bytes=1 << 20))  # fmt: skip
    assert most.partitions.advised == PARTITIONS_MAX
    assert plan.tier.name == "above 1,000,000/s"
    assert make_plan(USUAL).tier.name == "1,000 to 100,000/s"
    assert make_plan(changed(rate=10)).tier.name == "below 1,000/s"


def test_what_a_node_needs() -> None:
    need = make_plan(USUAL).resources
    size = 1_024 + measured.RECORD_BYTES
    assert need.disk_bytes == pytest.approx(5_000 * 7 * 86_400 * size / 0.8)
    assert need.losses_survived == 1
    assert need.nodes_for_rate == 1
    wide = make_plan(changed(nodes=6)).resources
    assert wide.disk_bytes == pytest.approx(need.disk_bytes / 2), "three copies on six nodes"
    assert (wide.replicas, wide.losses_survived) == (3, 2)
    alone = make_plan(changed(nodes=1)).resources
    assert (alone.replicas, alone.losses_survived) == (1, 0)
    assert make_plan(changed(retention_seconds=0)).resources.disk_bytes == 0


def test_order_that_no_number_of_workers_can_keep() -> None:
    (problem,) = make_plan(changed(order="total")).problems
    assert "5 messages/s at 0.2 s each, and 5,000 come" in problem
    assert "below 0.2 ms" in problem
    (problem,) = make_plan(changed(order="key", keys=300)).problems
    assert "With 300 keys at most 300 messages" in problem
    assert not make_plan(changed(order="key", keys=30_000)).problems
    (problem,) = make_plan(changed(target_delay_seconds=0.0001)).problems
    assert "even if a worker is free" in problem


@pytest.mark.parametrize(
    ("changes", "complaint"),
    [
        ({"rate": 0}, "--rate must be from 1e-06 to 1e+09, not 0"),
        ({"rate": float("nan")}, "--rate must be"),
        ({"service_seconds": -1}, "--service-time must be"),
        ({"peak": 0.5}, "--peak must be from 1 to"),
        ({"utilisation_max": 1.0}, "--utilisation must be"),
        ({"failures": 1.0}, "--failures must be"),
        ({"nodes": 0}, "--nodes must be"),
        ({"keys": 0}, "--keys must be"),
        ({"service_seconds": 200.0}, "is --service-time in seconds"),
    ],
)
def test_what_cannot_be_meant_is_refused(changes: dict[str, object], complaint: str) -> None:
    with pytest.raises(LocalError, match="--") as refusal:
        make_plan(changed(**changes))
    assert complaint in str(refusal.value)


@pytest.mark.slow
@given(
    rate=st.floats(0.01, 10_000),
    service=st.floats(0.001, 1.0),
    peak=st.floats(1, 5),
    length=st.floats(1, 36_000),
    delay=st.floats(0.001, 10_000),
)
def test_plans_keep_what_they_promise(
    rate: float, service: float, peak: float, length: float, delay: float
) -> None:
    demand = Demand(
        rate=rate,
        service_seconds=service,
        guarantee="at-least-once",
        peak=peak,
        peak_seconds=length,
        target_delay_seconds=delay,
    )
    plan = make_plan(demand)
    assert plan.least.workers <= plan.steady.workers <= plan.prompt.workers <= plan.workers_max
    assert plan.prompt.utilisation <= 0.7 + 1e-6
    assert plan.prompt.wait_p99_seconds <= delay * 1.000_001
    assert plan.prompt.peak_delay_seconds <= delay * 1.000_001
    fewer = workers_for_peak(demand) - 1
    if fewer > demand.offered:
        late = (peak * rate - fewer / service) * length / (fewer / service)
        assert late > delay * 0.999, "a worker fewer would break it"
