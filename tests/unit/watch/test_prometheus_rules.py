"""The rules for Prometheus, tried: just below, at and above each number, on series as nodes have
them."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.unit.watch.promql import World, evaluate
from tests.unit.watch.test_prometheus import written

RULES = {one["alert"]: one for one in written()}


def fires(alert: str, world: World) -> bool:
    found = evaluate(RULES[alert]["expr"], world)
    assert isinstance(found, dict)
    return bool(found)


def lag(value: float) -> World:
    world = World()
    for node, share in (("a", 0.25), ("b", 0.75)):
        world.put(
            "penstock_consumer_group_lag_messages",
            share * value,
            group="billing",
            topic="orders",
            instance=node,
        )
    return world


def depth(value: float) -> World:
    world = World()
    for state, number in (("ready", value), ("leased", 10**9), ("dead", 10**9)):
        world.put("penstock_queue_messages", number, queue="jobs", group="queue", state=state)
    return world


def dead_letters(value: float) -> World:
    world = World()
    world.put("penstock_queue_dead_letters", value, queue="jobs", instance="a")
    return world


def error_rate(value: float) -> World:
    world = World()
    world.put("rate penstock_messages_failed_total", 100 * value, destination="jobs", instance="a")
    world.put(
        "rate penstock_messages_acked_total", 100 - 100 * value, destination="jobs", instance="b"
    )
    return world


def silence(value: float) -> World:
    world = depth(1)
    for node, seconds in (("a", value), ("b", value + 50)):
        world.put(
            "penstock_queue_silent_seconds", seconds, queue="jobs", group="queue", instance=node
        )
    return world


def disk(value: float) -> World:
    world = World()
    world.put("penstock_disk_size_bytes", 1_000_000, instance="a")
    world.put("penstock_disk_free_bytes", 1_000_000 * (1 - value), instance="a")
    return world


def state(value: float) -> World:
    world = World()
    for kind, used in (("groups", value), ("producers", 0.1)):
        labels = {"instance": "a", "group": "1", "kind": kind}
        world.put("penstock_shard_state_bytes", 1_000_000 * used, **labels)
        world.put("penstock_shard_state_limit_bytes", 1_000_000, **labels)
    return world


def processing_rate(value: float) -> World:
    world = depth(1_001)
    world.put("rate penstock_messages_acked_total", 100 * value, destination="jobs")
    world.put("usual penstock_messages_acked_total", 100, destination="jobs")
    return world


ABOVE: list[tuple[str, Callable[[float], World], float]] = [
    ("PenstockLagAttention", lag, 1_000),
    ("PenstockLagCritical", lag, 10_000),
    ("PenstockDepthAttention", depth, 10_000),
    ("PenstockDepthWarning", depth, 50_000),
    ("PenstockDeadLettersAttention", dead_letters, 0),
    ("PenstockDeadLettersWarning", dead_letters, 100),
    ("PenstockDeadLettersCritical", dead_letters, 1_000),
    ("PenstockErrorRateAttention", error_rate, 0.01),
    ("PenstockErrorRateWarning", error_rate, 0.01),
    ("PenstockNoConsumersCritical", silence, 300),
    ("PenstockDiskWarning", disk, 0.8),
    ("PenstockStateWarning", state, 0.7),
    ("PenstockStateCritical", state, 0.95),
]


@pytest.mark.parametrize(("alert", "make", "number"), ABOVE)
def test_a_rule_fires_above_its_number(
    alert: str, make: Callable[[float], World], number: float
) -> None:
    assert not fires(alert, make(0.999 * number))
    assert fires(alert, make(1.001 * number or 1))
    if number >= 1:
        assert not fires(alert, make(number))


def test_a_rate_of_a_few_deliveries_is_not_judged() -> None:
    def world(failed_a_minute: float) -> World:
        one = World()
        one.put("rate penstock_messages_failed_total", failed_a_minute / 60, destination="jobs")
        one.put("rate penstock_messages_acked_total", 0, destination="jobs")
        return one

    assert not fires("PenstockErrorRateWarning", world(19))
    assert fires("PenstockErrorRateWarning", world(20))


def test_a_rate_fires_below_its_number() -> None:
    assert not fires("PenstockProcessingRateAttention", processing_rate(0.501))
    assert not fires("PenstockProcessingRateAttention", processing_rate(0.5))
    assert fires("PenstockProcessingRateAttention", processing_rate(0.499))


def test_a_queue_to_which_little_comes_is_not_slow() -> None:
    world = processing_rate(0.1)
    world.put("penstock_queue_messages", 1_000, queue="jobs", group="queue", state="ready")
    assert not fires("PenstockProcessingRateAttention", world)


def test_nothing_is_expected_of_a_queue_that_stood_still() -> None:
    world = processing_rate(0.0)
    world.put("usual penstock_messages_acked_total", 0, destination="jobs")
    assert not fires("PenstockProcessingRateAttention", world)


def test_silence_of_an_empty_queue_is_fine() -> None:
    world = silence(10_000)
    world.put("penstock_queue_messages", 0, queue="jobs", group="queue", state="ready")
    assert not fires("PenstockNoConsumersCritical", world)


def test_a_group_without_members() -> None:
    def world(members: int, behind: int) -> World:
        one = lag(behind)
        one.put("penstock_consumer_group_members", members, group="billing", instance="a")
        return one

    assert fires("PenstockNoConsumersGroupCritical", world(0, 1))
    assert not fires("PenstockNoConsumersGroupCritical", world(1, 1))
    assert not fires("PenstockNoConsumersGroupCritical", world(0, 0))


def test_every_rule_was_tried() -> None:
    tried = {alert for alert, *_ in ABOVE}
    tried |= {"PenstockProcessingRateAttention", "PenstockNoConsumersGroupCritical"}
    assert tried == set(RULES)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("1 + 2 * 3", 7.0),
        ("(1 + 2) * 3", 9.0),
        ("sum by (a) (m)", {frozenset({("a", "x")}): 3.0, frozenset({("a", "y")}): 4.0}),
        ('m{b="1"} > 1', {frozenset({("a", "y"), ("b", "1")}): 4.0}),
        ('m{b="2"} and m', {frozenset({("a", "x"), ("b", "2")}): 2.0}),
        ('m{b="2"} / m{b="1"}', {}),
    ],
)
def test_the_language_itself(text: str, value: Any) -> None:
    world = World()
    world.put("m", 1.0, a="x", b="1")
    world.put("m", 2.0, a="x", b="2")
    world.put("m", 4.0, a="y", b="1")
    assert evaluate(text, world) == value
