"""IncrementalAlterConfigs: set, delete, append, subtract."""

import pytest

from penstock.core.limits import TOPIC_CONFIG_CHARACTERS_MAX
from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker

TOPIC, BROKER, GROUP = 2, 4, 32
SET, DELETE, APPEND, SUBTRACT = range(4)
INVALID_CONFIG = 40


def alter(
    ask: Asker,
    name: str,
    *changes: tuple[str, int, str | None],
    kind: int = TOPIC,
    version: int = 1,
    validate_only: bool = False,
) -> Message:
    rows = [
        {"name": key, "config_operation": operation, "value": value}
        for key, operation, value in changes
    ]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    answer = ask(44, version, {"resources": [resource], "validate_only": validate_only})
    row: Message = answer.responses[0]
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row


def configs_of(ask: Asker, name: str) -> dict[str, str]:
    return ask.broker.node.engine.topics.topic(name).configs


def test_the_rest_stays_as_it_is(ask: Asker) -> None:
    ask.create_topic("changed", configs={"retention.ms": "1", "segment.ms": "2"})
    changes = (("retention.ms", SET, "5"), ("segment.ms", DELETE, None), ("flush.ms", DELETE, None))
    row = alter(ask, "changed", *changes, version=0)
    assert (row.error_code, row.error_message) == (0, None)
    assert configs_of(ask, "changed") == {"retention.ms": "5"}
    assert alter(ask, "changed", ("max.message.bytes", SET, "2000")).error_code == 0
    assert configs_of(ask, "changed") == {"max.message.bytes": "2000", "retention.ms": "5"}


def test_lists_grow_and_shrink(ask: Asker) -> None:
    ask.create_topic("listed")
    for operation, value, policy in (
        (APPEND, "compact", "delete,compact"),
        (APPEND, "compact", "delete,compact"),
        (SUBTRACT, "delete", "compact"),
        (SUBTRACT, "delete", "compact"),
        (APPEND, "delete, compact", "compact,delete"),
        (SUBTRACT, "delete,compact", ""),
        (APPEND, "delete", "delete"),
    ):
        assert alter(ask, "listed", ("cleanup.policy", operation, value)).error_code == 0
        assert configs_of(ask, "listed") == {"cleanup.policy": policy}


@pytest.mark.parametrize("operation", [APPEND, SUBTRACT])
def test_a_long_value_is_refused_before_it_is_split(ask: Asker, operation: int) -> None:
    name = f"long-list-{operation}"
    ask.create_topic(name, configs={"cleanup.policy": "compact"})
    longest = "compact" + " " * (TOPIC_CONFIG_CHARACTERS_MAX - len("compact"))
    assert alter(ask, name, ("cleanup.policy", operation, longest)).error_code == 0
    row = alter(ask, name, ("cleanup.policy", operation, longest + " "))
    assert (row.error_code, "cleanup.policy" in row.error_message) == (INVALID_CONFIG, True)


def test_validating_changes_nothing(ask: Asker) -> None:
    ask.create_topic("considered")
    assert alter(ask, "considered", ("segment.ms", SET, "5"), validate_only=True).error_code == 0
    assert alter(ask, "considered", ("segment.ms", SET, "0"), validate_only=True).error_code == 40
    assert configs_of(ask, "considered") == {}


@pytest.mark.parametrize(
    ("changes", "code", "words"),
    [
        ([("segment.ms", SET, "5"), ("retention.ms", SET, "x")], 40, "an integer"),
        ([("segment.ms", SET, "5"), ("retentions.ms", SET, "1")], 40, "did you mean"),
        ([("no.such", DELETE, None)], 40, "there is no topic config"),
        ([("segment.ms", SET, None)], 42, "delete it"),
        ([("segment.ms", APPEND, "1")], 40, "is no list"),
        ([("cleanup.policy", APPEND, "burn")], 40, "any number of"),
        ([("remote.storage.enable", SET, "true")], 40, "it is false"),
        ([("segment.ms", 4, "1")], 42, "there is no operation 4"),
        ([("segment.ms", SET, "1"), ("segment.ms", SET, "2")], 42, "more than once"),
    ],
)
def test_a_change_is_made_as_a_whole_or_not_at_all(
    ask: Asker, changes: list[tuple[str, int, str | None]], code: int, words: str
) -> None:
    if ask.broker.node.engine.topics.catalog.topic("whole") is None:
        ask.create_topic("whole", configs={"retention.ms": "1"})
    for version in (0, 1):
        row = alter(ask, "whole", *changes, version=version)
        assert (row.error_code, words in row.error_message) == (code, True)
    assert configs_of(ask, "whole") == {"retention.ms": "1"}


def test_a_broker_is_changed_in_its_file(ask: Asker) -> None:
    row = alter(ask, "1", ("num.partitions", SET, "3"), kind=BROKER)
    assert (row.error_code, "configuration file" in row.error_message) == (42, True)


def test_a_name_that_no_topic_may_have(ask: Asker) -> None:
    assert alter(ask, "no such topic", ("retention.ms", DELETE, None)).error_code == 17
    assert alter(ask, "no-such-topic", ("retention.ms", DELETE, None)).error_code == 3
    resources = [
        {"resource_type": TOPIC, "resource_name": name, "configuration_keys": None}
        for name in ("a b", "a-b")
    ]
    found = ask(32, 4, {"resources": resources}).results
    assert [row.error_code for row in found] == [17, 3]


def test_what_ends_a_reassignment_succeeds(ask: Asker) -> None:
    """kafka-reassign-partitions takes its throttles back when it has verified or cancelled."""
    rates = [f"{who}.replication.throttled.rate" for who in ("leader", "follower")]
    changes = [(name, DELETE, None) for name in rates]
    assert alter(ask, "1", *changes, kind=BROKER).error_code == 0
    ask.create_topic("reassigned")
    lists = [f"{who}.replication.throttled.replicas" for who in ("leader", "follower")]
    assert alter(ask, "reassigned", *[(name, DELETE, None) for name in lists]).error_code == 0
    assert alter(ask, "reassigned", (lists[0], SET, "0:1,1:2")).error_code == 0
    assert configs_of(ask, "reassigned") == {lists[0]: "0:1,1:2"}
    assert alter(ask, "reassigned", (lists[0], SUBTRACT, "0:1,1:2")).error_code == 0
    assert alter(ask, "reassigned", *[(name, DELETE, None) for name in lists]).error_code == 0
    assert configs_of(ask, "reassigned") == {}


def test_a_group_is_configured_before_it_exists(ask: Asker) -> None:
    engine = ask.broker.node.engine
    reset = "share.auto.offset.reset"
    for value in ("earliest", "by_duration:PT1H", "latest"):
        assert alter(ask, "to come", (reset, SET, value), kind=GROUP).error_code == 0
        assert engine.groups.group_configs("to come") == {reset: value}
    row = alter(ask, "to come", (reset, SET, "sometime"), kind=GROUP)
    assert (row.error_code, "by_duration" in row.error_message) == (40, True)
    row = alter(ask, "to come", ("share.locks", SET, "1"), kind=GROUP)
    assert (row.error_code, "there is no group config" in row.error_message) == (40, True)
    row = alter(ask, "to come", (reset, APPEND, "earliest"), kind=GROUP)
    assert (row.error_code, "is no list" in row.error_message) == (40, True)
    row = alter(ask, "to come", (reset, DELETE, None), kind=GROUP, validate_only=True)
    assert (row.error_code, engine.groups.group_configs("to come")) == (0, {reset: "latest"})
    assert alter(ask, "to come", (reset, DELETE, None), kind=GROUP).error_code == 0
    assert engine.groups.group_configs("to come") == {}


def test_a_group_takes_the_settings_of_a_work_group(ask: Asker) -> None:
    lease = "queue.lease.ms"
    assert (
        alter(ask, "worked", (lease, SET, "9000"), kind=GROUP, validate_only=True).error_code == 0
    )
    assert ask.broker.node.groups.group_configs("worked") == {}
    assert alter(ask, "worked", (lease, SET, "9000"), kind=GROUP).error_code == 0
    assert ask.broker.node.groups.group_configs("worked") == {lease: "9000"}
    ask.create_topic("worked_on", configs={"queue.deliveries.max": "3"})
    topic = ask.broker.node.engine.topics.topic("worked_on")
    rules = ask.broker.node.engine.topics.catalog.work_settings(topic, "worked").rules
    assert (rules.lease_ms, rules.deliveries_max) == (9_000, 3)
    wrong = alter(ask, "worked", (lease, SET, "x"), kind=GROUP)
    assert (wrong.error_code, "queue.lease.ms cannot be 'x'" in wrong.error_message) == (40, True)
    default = alter(ask, "queue", (lease, SET, "9000"), kind=GROUP)
    assert default.error_code != 0
    assert "goes by the settings of its queue" in default.error_message
    assert alter(ask, "worked", (lease, DELETE, None), kind=GROUP).error_code == 0
    assert ask.broker.node.groups.group_configs("worked") == {}
