"""AlterConfigs: what is not named goes back to its default."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker

TOPIC, BROKER, GROUP = 2, 4, 32


def alter(
    ask: Asker,
    name: str,
    configs: list[tuple[str, str | None]],
    *,
    kind: int = TOPIC,
    version: int = 2,
    validate_only: bool = False,
) -> Message:
    rows = [{"name": key, "value": value} for key, value in configs]
    resource = {"resource_type": kind, "resource_name": name, "configs": rows}
    answer = ask(33, version, {"resources": [resource], "validate_only": validate_only})
    row: Message = answer.responses[0]
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row


def configs_of(ask: Asker, name: str) -> dict[str, str]:
    return ask.broker.node.engine.topics.topic(name).configs


def test_all_configs_are_set_anew(ask: Asker) -> None:
    ask.create_topic("altered", configs={"retention.ms": "1", "segment.ms": "2"})
    for version in (0, 2):
        row = alter(ask, "altered", [("retention.bytes", "3")], version=version)
        assert (row.error_code, row.error_message) == (0, None)
        assert configs_of(ask, "altered") == {"retention.bytes": "3"}
    assert alter(ask, "altered", []).error_code == 0
    assert configs_of(ask, "altered") == {}


def test_validating_changes_nothing(ask: Asker) -> None:
    ask.create_topic("unaltered", configs={"retention.ms": "1"})
    assert alter(ask, "unaltered", [("segment.ms", "9")], validate_only=True).error_code == 0
    assert alter(ask, "unaltered", [("segment.ms", "-9")], validate_only=True).error_code == 40
    assert configs_of(ask, "unaltered") == {"retention.ms": "1"}


@pytest.mark.parametrize(
    ("kind", "name", "configs", "code", "words"),
    [
        (TOPIC, "kept", [("retention.ms", "x")], 40, "an integer"),
        (TOPIC, "kept", [("segment.ms", "5"), ("no.such", "5")], 40, "there is no topic config"),
        (TOPIC, "kept", [("segment.ms", None)], 40, "leave it out"),
        (TOPIC, "kept", [("segment.ms", "5"), ("segment.ms", "6")], 42, "more than once"),
        (TOPIC, "missing", [], 3, "there is no topic missing"),
        (BROKER, "1", [("num.partitions", "3")], 42, "configuration file"),
        (BROKER, "", [("num.partitions", "3")], 42, "configuration file"),
        (16, "metrics", [], 42, "CLIENT_METRICS"),
        (GROUP, "", [], 24, "needs a name"),
        (GROUP, "g", [("share.isolation.level", "none")], 40, "one of"),
        (3, "x", [], 42, "type 3"),
    ],
)
def test_what_cannot_be_set_is_refused_and_loses_nothing(
    ask: Asker, kind: int, name: str, configs: list[tuple[str, str | None]], code: int, words: str
) -> None:
    if ask.broker.node.engine.topics.catalog.topic("kept") is None:
        ask.create_topic("kept", configs={"retention.ms": "1"})
    for version in (0, 2):
        row = alter(ask, name, configs, kind=kind, version=version)
        assert (row.error_code, words in row.error_message) == (code, True)
    assert configs_of(ask, "kept") == {"retention.ms": "1"}


def test_a_resource_appears_once(ask: Asker) -> None:
    ask.create_topic("doubled")
    row = {"resource_type": TOPIC, "resource_name": "doubled", "configs": []}
    rows = ask(33, 2, {"resources": [row, row]}).responses
    assert [one.error_code for one in rows] == [42, 42]
    assert "once" in rows[0].error_message


def test_a_groups_configs_are_set_anew(ask: Asker) -> None:
    engine = ask.broker.node.engine
    configs: list[tuple[str, str | None]] = [("share.delivery.count.limit", "3")]
    assert alter(ask, "anew", configs, kind=GROUP).error_code == 0
    assert engine.groups.group_configs("anew") == {"share.delivery.count.limit": "3"}
    configs = [("share.isolation.level", "read_committed")]
    assert alter(ask, "anew", configs, kind=GROUP).error_code == 0
    assert engine.groups.group_configs("anew") == {"share.isolation.level": "read_committed"}
