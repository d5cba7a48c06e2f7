"""`core.group_configs`: Kafka's names and defaults; texts become settings or are refused."""

import pytest

from penstock.core.errors import InvalidConfig
from penstock.core.group_configs import (
    DEFAULT_GROUP_SETTINGS,
    GROUP_CONFIGS,
    GroupConfig,
    parse_group_configs,
)
from penstock.core.queue_rules import Dead, WorkRules


def test_the_table_is_in_order() -> None:
    assert list(GROUP_CONFIGS) == sorted(GROUP_CONFIGS)


@pytest.mark.parametrize("config", GROUP_CONFIGS.values(), ids=lambda config: config.name)
def test_every_line_of_the_table_is_sound(config: GroupConfig) -> None:
    config.parse(config.default)
    assert config.documentation.endswith(".")
    if config.pattern:
        config.parse(config.example)


def test_nothing_set_is_kafkas_defaults() -> None:
    found = parse_group_configs({})
    assert found is DEFAULT_GROUP_SETTINGS
    assert found.work_rules == WorkRules(
        lease_ms=30_000, deliveries_max=5, dead=Dead.DISCARD, in_flight_max=2_000
    )
    assert (found.reset, found.reset_ms) == ("latest", 0)
    assert (found.session_ms, found.heartbeat_ms) == (45_000, 5_000)
    assert not found.read_committed


def test_what_is_set_is_found_in_the_settings() -> None:
    found = parse_group_configs(
        {
            "share.auto.offset.reset": "earliest",
            "share.delivery.count.limit": "3",
            "share.heartbeat.interval.ms": "200",
            "share.isolation.level": "read_committed",
            "share.partition.max.record.locks": "4",
            "share.record.lock.duration.ms": "1000",
            "share.session.timeout.ms": "2000",
        }
    )
    assert found.work_rules == WorkRules(
        lease_ms=1_000, deliveries_max=3, dead=Dead.DISCARD, in_flight_max=4
    )
    assert (found.reset, found.session_ms, found.heartbeat_ms) == ("earliest", 2_000, 200)
    assert found.read_committed


@pytest.mark.parametrize(
    ("text", "duration_ms"),
    [
        ("PT1H", 3_600_000),
        ("P2D", 172_800_000),
        ("P1DT1M", 86_460_000),
        ("PT1H2M3S", 3_723_000),
        ("PT0.9S", 0),
        ("PT90.5S", 90_000),
    ],
)
def test_a_group_may_begin_so_long_ago(text: str, duration_ms: int) -> None:
    found = parse_group_configs({"share.auto.offset.reset": f"by_duration:{text}"})
    assert (found.reset, found.reset_ms) == ("by_duration", duration_ms)


@pytest.mark.parametrize(
    ("name", "text", "allowed"),
    [
        ("share.auto.offset.reset", "by_duration:", "latest, earliest, or like by_duration:PT1H"),
        ("share.auto.offset.reset", "by_duration:P", "latest, earliest"),
        ("share.auto.offset.reset", "by_duration:PT", "latest, earliest"),
        ("share.auto.offset.reset", "by_duration:P1DT", "latest, earliest"),
        ("share.auto.offset.reset", "by_duration:-PT1H", "latest, earliest"),
        ("share.auto.offset.reset", "none", "latest, earliest"),
        ("share.record.lock.duration.ms", "999", "from 1000 to 43200000"),
        ("share.delivery.count.limit", "0", "from 1 to 1000"),
        ("share.isolation.level", "dirty", "one of read_committed, read_uncommitted"),
    ],
)
def test_a_refusal_says_what_is_allowed(name: str, text: str, allowed: str) -> None:
    with pytest.raises(InvalidConfig, match=f"group config {name} cannot be '{text}': .*{allowed}"):
        parse_group_configs({name: text})


def test_an_unknown_name_gets_a_suggestion() -> None:
    with pytest.raises(InvalidConfig, match="no group config 'share.delivery.*did you mean share"):
        parse_group_configs({"share.delivery.limit": "1"})
