"""`core.work_settings`: each setting of a work group comes from the nearest place that has it."""

import msgspec
import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.queue_rules import Dead, Retry, WorkRules
from penstock.core.work_settings import (
    NO_OVERRIDES,
    SHARE_NAMES,
    WORK_CONFIGS,
    WorkSettings,
    parse_work_configs,
    settled,
    work_configs,
)

QUEUE = WorkSettings(
    WorkRules(
        lease_ms=1_000,
        deliveries_max=3,
        retry=Retry.FIXED,
        retry_ms=2_000,
        retry_max_ms=4_000,
        dead=Dead.MOVE,
        in_flight_max=9,
    ),
    "failed",
)


def test_the_table_is_in_order_and_share_names_are_of_it() -> None:
    assert list(WORK_CONFIGS) == sorted(WORK_CONFIGS)
    assert set(SHARE_NAMES.values()) <= WORK_CONFIGS.keys()
    assert work_configs(QUEUE).keys() == WORK_CONFIGS.keys()


def test_what_is_not_set_is_inherited() -> None:
    assert parse_work_configs({}) is NO_OVERRIDES
    assert NO_OVERRIDES.apply(QUEUE) is QUEUE
    found = parse_work_configs({"queue.lease.ms": "5000"}).apply(QUEUE)
    assert work_configs(found) == {**work_configs(QUEUE), "queue.lease.ms": "5000"}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("queue.dead.letter.policy", "archive"),
        ("queue.dead.letter.topic", "other"),
        ("queue.deliveries.max", "0"),
        ("queue.in.flight.max", "1"),
        ("queue.lease.ms", "0"),
        ("queue.retry.delay.max.ms", "3000"),
        ("queue.retry.delay.ms", "3000"),
        ("queue.retry.policy", "none"),
    ],
)
def test_each_setting_is_set_by_itself(name: str, text: str) -> None:
    found = parse_work_configs({name: text}).apply(QUEUE)
    assert work_configs(found) == {**work_configs(QUEUE), name: text}


def test_a_dead_letter_topic_of_its_own_means_move() -> None:
    discards = WorkSettings(WorkRules(dead=Dead.DISCARD), "failed")
    assert NO_OVERRIDES.apply(discards).rules.dead is Dead.DISCARD
    found = parse_work_configs({"queue.dead.letter.topic": "mine"}).apply(discards)
    assert (found.rules.dead, found.dead_letter_topic) == (Dead.MOVE, "mine")
    both = {"queue.dead.letter.topic": "mine", "queue.dead.letter.policy": "archive"}
    assert parse_work_configs(both).apply(discards).rules.dead is Dead.ARCHIVE
    none = parse_work_configs({"queue.dead.letter.topic": ""}).apply(QUEUE)
    kept = msgspec.structs.replace(QUEUE.rules, dead=Dead.ARCHIVE)
    assert settled(none) == WorkSettings(kept, "")
    assert settled(QUEUE) is QUEUE


def test_delays_of_its_own_fit_the_inherited_ones() -> None:
    longer = parse_work_configs({"queue.retry.delay.ms": "9000"}).apply(QUEUE).rules
    assert (longer.retry_ms, longer.retry_max_ms) == (9_000, 9_000)
    shorter = parse_work_configs({"queue.retry.delay.max.ms": "500"}).apply(QUEUE).rules
    assert (shorter.retry_ms, shorter.retry_max_ms) == (500, 500)


def test_what_cannot_be_is_refused() -> None:
    with pytest.raises(InvalidConfig, match="no work group setting 'queue.delay.ms'"):
        parse_work_configs({"queue.delay.ms": "5"})
    with pytest.raises(InvalidConfig, match="queue.lease.ms cannot be 'x'"):
        parse_work_configs({"queue.lease.ms": "x"})
    with pytest.raises(InvalidConfig, match="at least queue.retry.delay.ms, which is 9"):
        parse_work_configs({"queue.retry.delay.ms": "9", "queue.retry.delay.max.ms": "8"})
