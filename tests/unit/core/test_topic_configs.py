"""`core.topic_configs`: the table is complete and sound; texts become settings or are refused."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.core.errors import InvalidConfig
from penstock.core.limits import BATCH_BYTES_MAX, TOPIC_CONFIG_CHARACTERS_MAX
from penstock.core.topic_configs import (
    DEFAULT_TOPIC_SETTINGS,
    TOPIC_CONFIGS,
    ConfigKind,
    Durability,
    TopicConfig,
    catalog_version_of,
    check_topic_config_names,
    parse_topic_configs,
)

KAFKA_NAMES = {
    "cleanup.policy",
    "compression.type",
    "delete.retention.ms",
    "file.delete.delay.ms",
    "flush.messages",
    "flush.ms",
    "follower.replication.throttled.replicas",
    "index.interval.bytes",
    "leader.replication.throttled.replicas",
    "local.retention.bytes",
    "local.retention.ms",
    "max.compaction.lag.ms",
    "max.message.bytes",
    "message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms",
    "message.timestamp.type",
    "min.cleanable.dirty.ratio",
    "min.compaction.lag.ms",
    "min.insync.replicas",
    "preallocate",
    "remote.log.copy.disable",
    "remote.log.delete.on.disable",
    "remote.storage.enable",
    "retention.bytes",
    "retention.ms",
    "segment.bytes",
    "segment.index.bytes",
    "segment.jitter.ms",
    "segment.ms",
    "unclean.leader.election.enable",
}

FREE_TEXTS = {"queue.dead.letter.topic", "queue.sqs"}


def test_the_table_has_what_kafka_has() -> None:
    assert TOPIC_CONFIGS.keys() >= KAFKA_NAMES | {"penstock.durability"}
    assert list(TOPIC_CONFIGS) == sorted(TOPIC_CONFIGS)


@pytest.mark.parametrize("config", TOPIC_CONFIGS.values(), ids=lambda config: config.name)
def test_every_line_of_the_table_is_sound(config: TopicConfig) -> None:
    config.parse(config.default)
    assert config.documentation.endswith(".")
    assert config.allowed
    if config.kind is not ConfigKind.BOOLEAN:
        assert bool(config.choices) == (
            config.kind in (ConfigKind.STRING, ConfigKind.LIST) and config.name not in FREE_TEXTS
        )


def test_nothing_set_is_kafkas_defaults() -> None:
    found = parse_topic_configs({})
    assert found is DEFAULT_TOPIC_SETTINGS
    assert found.retention_ms == 604_800_000
    assert found.retention_bytes is None
    assert found.message_bytes_max == 1_048_588
    assert (found.deletes, found.compacts) == (True, False)
    assert not found.log_append_time
    assert found.insync_min == 1
    assert found.durability is Durability.REPLICATED
    assert found.timestamp_after_max_ms == 3_600_000
    assert found.min_cleanable_dirty_ratio == 0.5


def test_what_is_set_is_found_in_the_settings() -> None:
    found = parse_topic_configs(
        {
            "cleanup.policy": "compact, delete",
            "delete.retention.ms": "10",
            "max.compaction.lag.ms": "30",
            "max.message.bytes": "1000",
            "message.timestamp.after.max.ms": "40",
            "message.timestamp.before.max.ms": "50",
            "message.timestamp.type": "LogAppendTime",
            "min.cleanable.dirty.ratio": ".25",
            "min.compaction.lag.ms": "20",
            "min.insync.replicas": "2",
            "penstock.durability": "memory",
            "retention.bytes": " 60 ",
            "retention.ms": "-1",
        }
    )
    assert (found.compacts, found.deletes) == (True, True)
    assert (found.retention_ms, found.retention_bytes) == (None, 60)
    assert (found.min_compaction_lag_ms, found.max_compaction_lag_ms) == (20, 30)
    assert (found.timestamp_after_max_ms, found.timestamp_before_max_ms) == (40, 50)
    assert (found.delete_retention_ms, found.message_bytes_max, found.insync_min) == (10, 1000, 2)
    assert found.min_cleanable_dirty_ratio == 0.25
    assert found.log_append_time
    assert found.durability is Durability.MEMORY


@pytest.mark.parametrize("text", ["compact", "delete", "compact,delete", "delete , compact"])
def test_a_list_has_one_or_more_of_its_choices(text: str) -> None:
    found = parse_topic_configs({"cleanup.policy": text})
    assert found.compacts == ("compact" in text)
    assert found.deletes == ("delete" in text)


def test_a_topic_may_keep_everything() -> None:
    found = parse_topic_configs({"cleanup.policy": ""})
    assert not found.compacts
    assert not found.deletes
    assert catalog_version_of({"cleanup.policy": ""}) == 2
    assert catalog_version_of({"cleanup.policy": "delete", "retention.ms": None}) == 1


@pytest.mark.parametrize("text", ["", "*", "0:1", "0:1,1:2, 2:3"])
def test_throttled_replicas_are_accepted(text: str) -> None:
    name = "leader.replication.throttled.replicas"
    assert parse_topic_configs({name: text}) == DEFAULT_TOPIC_SETTINGS
    with pytest.raises(InvalidConfig, match=r"texts like 0:1"):
        parse_topic_configs({name: "one:two"})


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("retention.ms", "a week", "an integer from -1 to 9223372036854775807"),
        ("retention.ms", "-2", "an integer from -1"),
        ("retention.ms", "9223372036854775808", "an integer from -1"),
        ("retention.ms", "1.5", "an integer"),
        ("retention.ms", "١", "an integer"),
        ("retention.ms", "1_000", "an integer"),
        ("retention.ms", "", "an integer"),
        ("max.message.bytes", str(BATCH_BYTES_MAX + 1), f"to {BATCH_BYTES_MAX}"),
        ("segment.bytes", "2147483648", "an integer from 14 to 2147483647"),
        ("min.cleanable.dirty.ratio", "1.1", "a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", "nan", "a number from 0 to 1"),
        ("min.cleanable.dirty.ratio", ".", "a number from 0 to 1"),
        ("preallocate", "yes", "true or false"),
        ("message.timestamp.type", "createtime", "one of CreateTime, LogAppendTime"),
        ("cleanup.policy", "delete,", "any number of compact, delete"),
        ("cleanup.policy", "delete,shrink", "any number of compact, delete"),
        ("remote.storage.enable", "true", "it is false"),
        ("penstock.durability", "tape", "one of replicated, disk, memory"),
        ("retention.ms", "1" + " " * TOPIC_CONFIG_CHARACTERS_MAX, "characters"),
    ],
)
def test_a_refusal_names_the_key_the_value_and_what_is_allowed(
    name: str, text: str, allowed: str
) -> None:
    with pytest.raises(InvalidConfig) as caught:
        parse_topic_configs({name: text})
    message = str(caught.value)
    assert name in message
    assert repr(text[:60]) in message
    assert allowed in message


@pytest.mark.parametrize("text", ["true", "FALSE", " True "])
def test_booleans_are_read_in_any_case(text: str) -> None:
    assert TOPIC_CONFIGS["preallocate"].parse(text) == ("true" in text.lower())


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("retention_ms", "retention.ms"),
        ("log.retention.ms", "retention.ms"),
        ("max.mesage.bytes", "max.message.bytes"),
        ("Cleanup.Policy", "cleanup.policy"),
    ],
)
def test_an_unknown_name_gets_a_suggestion(name: str, meant: str) -> None:
    with pytest.raises(InvalidConfig, match=f"{name}.*did you mean {meant}"):
        parse_topic_configs({name: "1"})


def test_a_name_like_no_other_gets_the_list() -> None:
    with pytest.raises(InvalidConfig, match="no topic config.*known are alert.dead.letters,"):
        check_topic_config_names(["retention.ms", "z" * 10_000])


def test_the_lags_of_compaction_fit_together() -> None:
    with pytest.raises(InvalidConfig, match=r"max.compaction.lag.ms cannot be 5.*which is 6"):
        parse_topic_configs({"max.compaction.lag.ms": "5", "min.compaction.lag.ms": "6"})


@settings(derandomize=True, deadline=None, max_examples=300, database=None)
@given(st.dictionaries(st.sampled_from([*TOPIC_CONFIGS, "x"]), st.text(max_size=30), max_size=3))
def test_any_text_is_read_or_refused(configs: dict[str, str]) -> None:
    try:
        found = parse_topic_configs(configs)
    except InvalidConfig:
        return
    assert found.message_bytes_max <= BATCH_BYTES_MAX
