"""DescribeConfigs: everything there is, where it comes from and what it means."""

import pytest

from penstock.core.group_configs import GROUP_CONFIGS
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker

TOPIC, BROKER, GROUP = 2, 4, 32


def describe(
    ask: Asker,
    kind: int,
    name: str,
    keys: list[str] | None = None,
    *,
    version: int = 4,
    more: bool = True,
) -> Message:
    resource = {"resource_type": kind, "resource_name": name, "configuration_keys": keys}
    fields = {
        "resources": [resource], "include_synonyms": more, "include_documentation": more,
    }  # fmt: skip
    row: Message = ask(32, version, fields).results[0]
    assert (row.resource_type, row.resource_name) == (kind, name)
    return row


def test_a_topic_has_every_config(ask: Asker) -> None:
    ask.create_topic("described", configs={"retention.ms": "77"})
    row = describe(ask, TOPIC, "described")
    assert (row.error_code, row.error_message) == (0, None)
    configs = {one.name: one for one in row.configs}
    assert configs.keys() == TOPIC_CONFIGS.keys()
    own, default = configs["retention.ms"], configs["max.message.bytes"]
    assert (own.value, own.config_source, own.config_type) == ("77", 1, 5)
    assert [(one.name, one.value, one.source) for one in own.synonyms] == [
        ("retention.ms", "77", 1),
        ("log.retention.ms", "604800000", 5),
    ]
    assert (default.value, default.config_source, default.config_type) == ("1048588", 5, 3)
    assert [(one.name, one.source) for one in default.synonyms] == [("message.max.bytes", 5)]
    assert not any(one.read_only or one.is_sensitive for one in row.configs)
    assert configs["flush.ms"].documentation.startswith("Accepted, but changes nothing here.")


def test_what_is_not_asked_for_is_left_out(ask: Asker) -> None:
    ask.create_topic("in-short")
    row = describe(ask, TOPIC, "in-short", ["segment.ms", "no.such"], more=False)
    (one,) = row.configs
    assert (one.name, one.synonyms, one.documentation) == ("segment.ms", (), None)
    everything: tuple[list[str] | None, ...] = (None, [])
    for keys in everything:
        row = describe(ask, TOPIC, "in-short", keys, version=1, more=False)
        assert len(row.configs) == len(TOPIC_CONFIGS)


def test_a_broker_shows_its_settings(ask: Asker) -> None:
    row = describe(ask, BROKER, "1")
    configs = {one.name: one for one in row.configs}
    assert list(configs) == sorted(configs)
    assert all(one.read_only for one in row.configs)
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["num.partitions"].value == "4"
    assert configs["message.max.bytes"].value == "1048588"
    assert configs["log.retention.ms"].value == "604800000"
    assert configs["offsets.retention.minutes"].value == "10080"
    assert configs["broker.id"].value == "1"
    assert configs["log.dirs"].value == ask.broker.node.engine.topics.directory
    assert configs["advertised.listeners"].value == f"PLAINTEXT://{ask.broker.address}"
    changed = configs["group.initial.rebalance.delay.ms"]
    assert (changed.value, changed.config_source) == ("0", 4)
    assert [(one.value, one.source) for one in changed.synonyms] == [("0", 4), ("250", 5)]
    assert "groups.initial_delay" in changed.documentation
    row = describe(ask, BROKER, "1", ["num.partitions"])
    assert [one.name for one in row.configs] == ["num.partitions"]


def test_there_are_no_defaults_of_the_cluster(ask: Asker) -> None:
    row = describe(ask, BROKER, "")
    assert (row.error_code, row.configs) == (0, ())


@pytest.mark.parametrize(
    ("kind", "name", "code", "words"),
    [
        (TOPIC, "missing", 3, "there is no topic missing"),
        (BROKER, "2", 42, "this is broker 1"),
        (BROKER, "one", 42, "this is broker 1"),
        (8, "1", 42, "BROKER_LOGGER"),
        (16, "metrics", 42, "CLIENT_METRICS"),
        (GROUP, "", 42, "has a name"),
        (99, "x", 42, "type 99"),
    ],
)
def test_what_is_not_there_is_said(ask: Asker, kind: int, name: str, code: int, words: str) -> None:
    for version in (1, 4):
        row = describe(ask, kind, name, version=version)
        assert (row.error_code, words in row.error_message, row.configs) == (code, True, ())


def test_a_groups_configs_are_all_shown(ask: Asker) -> None:
    row = describe(ask, GROUP, "described")
    configs = {one.name: one for one in row.configs}
    assert list(configs) == list(GROUP_CONFIGS)
    lock = configs["share.record.lock.duration.ms"]
    assert (lock.value, lock.config_source, lock.read_only) == ("30000", 5, False)
    assert [one.name for one in lock.synonyms] == ["group.share.record.lock.duration.ms"]
    ask.configure_group("described", {"share.record.lock.duration.ms": "2000"})
    (lock,) = describe(ask, GROUP, "described", ["share.record.lock.duration.ms"]).configs
    assert (lock.value, lock.config_source) == ("2000", 8)
    assert [(one.value, one.source) for one in lock.synonyms] == [("2000", 8), ("30000", 5)]


def test_a_setting_that_a_group_inherits_has_no_value(ask: Asker) -> None:
    def lease() -> Message:
        row: Message
        (row,) = describe(ask, GROUP, "inheriting", ["queue.lease.ms"]).configs
        return row

    assert (lease().value, lease().config_source) == (None, 5)
    ask.configure_group("inheriting", {"queue.lease.ms": "2000"})
    assert (lease().value, lease().config_source) == ("2000", 8)
