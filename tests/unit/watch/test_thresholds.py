"""Every alert at its number: just below, exactly at it, just above, and at each level.

The numbers are written out here once more, on purpose: this is the list that was asked for."""

from collections.abc import Callable

import pytest

from penstock.core.alert_levels import Level
from penstock.machines.catalog import Catalog
from penstock.watch.alerts import Finding
from penstock.watch.inspection import inspect
from penstock.watch.readings import NodeReading, Readings
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings
from tests.unit.watch.made import group, node, queue, readings

ATTENTION, WARNING, CRITICAL = Level.ATTENTION, Level.WARNING, Level.CRITICAL


def found(one: Readings, settings: AlertSettings | None = None) -> dict[str, Finding]:
    findings = inspect(one, Catalog(), settings or AlertSettings())
    return {finding.rule: finding for some in findings for finding in some}


def level(one: Readings, rule: str) -> Level | None:
    finding = found(one).get(rule)
    return None if finding is None else finding.level


def lag(value: float) -> Readings:
    return readings(group(int(value)))


def depth(value: float) -> Readings:
    return readings(queue(ready=int(value)))


def dead_letters(value: float) -> Readings:
    return readings(queue("jobs-dead", ready=int(value), dead_letters_of=("jobs",)))


def archived(value: float) -> Readings:
    return readings(queue(dead=int(value)))


def error_rate(value: float) -> Readings:
    return readings(queue(error_rate=value, leased=1, minute_ended=1_000))


def no_consumers(value: float) -> Readings:
    return readings(queue(ready=1, silent_ms=int(value)))


def no_members(value: float) -> Readings:
    return readings(group(1, members=0, silent_ms=int(value)))


def disk(value: float) -> Readings:
    return readings(node(value))


def state(value: float) -> Readings:
    return readings(NodeReading(node=1, alive=True, disk_used_share=0.1, state_used_share=value))


def processing_rate(value: float) -> Readings:
    return readings(queue(ready=2_000, expected_rate=100.0, minute_ack_rate=100 * value))


TABLE: list[tuple[str, Callable[[float], Readings], float, Level | None, Level]] = [
    ("lag", lag, 1_000, None, ATTENTION),
    ("lag", lag, 10_000, ATTENTION, CRITICAL),
    ("depth", depth, 10_000, None, ATTENTION),
    ("depth", depth, 50_000, ATTENTION, WARNING),
    ("dead_letters", dead_letters, 0, None, ATTENTION),
    ("dead_letters", dead_letters, 100, ATTENTION, WARNING),
    ("dead_letters", dead_letters, 1_000, WARNING, CRITICAL),
    ("dead_letters", archived, 0, None, ATTENTION),
    ("dead_letters", archived, 1_000, WARNING, CRITICAL),
    ("error_rate", error_rate, 0.01, None, WARNING),
    ("no_consumers", no_consumers, 300_000, None, CRITICAL),
    ("no_consumers", no_members, 300_000, None, CRITICAL),
    ("disk", disk, 0.80, None, WARNING),
    ("state", state, 0.70, None, WARNING),
    ("state", state, 0.95, WARNING, CRITICAL),
]


@pytest.mark.parametrize(("rule", "make", "number", "before", "after"), TABLE)
def test_a_number_counts_when_it_is_exceeded(
    rule: str,
    make: Callable[[float], Readings],
    number: float,
    before: Level | None,
    after: Level,
) -> None:
    step = 0.000_001 if 0 < number < 1 else 1
    assert level(make(max(0, number - step)), rule) is before
    assert level(make(number), rule) is before
    assert level(make(number + step), rule) is after


def test_the_processing_rate_counts_when_it_is_undercut() -> None:
    assert level(processing_rate(0.51), "processing_rate") is None
    assert level(processing_rate(0.50), "processing_rate") is None
    assert level(processing_rate(0.499_9), "processing_rate") is ATTENTION


def test_an_error_rate_of_exactly_one_percent_is_none_however_it_is_counted() -> None:
    for ended in (100, 200, 300, 700, 1_000, 12_300):
        assert level(error_rate((ended // 100) / ended), "error_rate") is None
        assert level(error_rate((ended // 100 + 1) / ended), "error_rate") is WARNING


def test_a_rate_of_a_few_deliveries_is_not_judged() -> None:
    def one(failed: int, ended: int) -> Readings:
        return readings(queue(error_rate=failed / ended, delayed=1, minute_ended=ended))

    assert level(one(1, 1), "error_rate") is None
    assert level(one(19, 19), "error_rate") is None
    assert level(one(1, 20), "error_rate") is WARNING


def test_no_rule_is_without_a_test() -> None:
    assert {rule for rule, *_ in TABLE} | {"processing_rate"} == set(RULES)


def test_attention_to_errors_begins_where_the_warning_does() -> None:
    levels = RULES["error_rate"].levels
    assert levels.attention == levels.warning == 0.01


def test_the_targets_of_a_healthy_cluster() -> None:
    targets = {name: rule.target for name, rule in RULES.items()}
    assert targets["depth"] == 10_000
    assert targets["lag"] == 1_000
    assert targets["error_rate"] == 0.001
    assert targets["dead_letters"] == 100


# What is left alone.


def test_a_dead_letter_queue_has_no_depth_and_needs_no_workers() -> None:
    one = queue("jobs-dead", ready=60_000, silent_ms=10**7, dead_letters_of=("jobs",))
    assert set(found(readings(one))) == {"dead_letters"}


def test_a_queue_with_nothing_to_do_needs_no_workers() -> None:
    assert found(readings(queue(silent_ms=10**7))) == {}
    assert found(readings(queue(silent_ms=10**7, delayed=5))) == {}


def test_a_paused_queue_needs_no_workers_and_is_not_slow() -> None:
    one = queue(ready=20_000, paused=True, silent_ms=10**7, expected_rate=100.0)
    assert set(found(readings(one))) == {"depth"}


def test_a_group_that_is_not_behind_needs_no_members() -> None:
    assert found(readings(group(0, members=0, silent_ms=10**7))) == {}


def test_a_queue_to_which_little_comes_is_not_slow() -> None:
    one = queue(ready=1_000, expected_rate=100.0, minute_ack_rate=1.0)
    assert found(readings(one)) == {}
    one = queue(ready=1_001, expected_rate=100.0, minute_ack_rate=1.0)
    assert set(found(readings(one))) == {"processing_rate"}


def test_nothing_is_expected_of_a_queue_that_is_new() -> None:
    assert found(readings(queue(ready=5_000))) == {}


def test_what_could_not_be_asked_is_not_judged() -> None:
    assert found(readings(queue(ready=60_000, complete=False))) == {}
    assert found(readings(node(None))) == {}


def test_a_sentence_says_what_and_how_much() -> None:
    assert found(lag(12_345))["lag"].message == "group billing is 12,345 messages behind in orders"
    sentence = found(no_consumers(420_000))["no_consumers"].message
    assert sentence == "no consumer has asked for messages of jobs for 7 minutes, and 1 wait"
    assert found(dead_letters(1_500))["dead_letters"].message.endswith("1,500 dead letters of jobs")
