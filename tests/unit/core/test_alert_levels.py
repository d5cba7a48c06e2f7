"""Three levels, as they are written on topics."""

import pytest

from penstock.core.alert_configs import ALERT_CONFIGS, DEFAULT_ALERT_CONFIGS
from penstock.core.alert_levels import NO_LEVELS, Level, Levels, parse_levels
from penstock.core.errors import InvalidConfig
from penstock.core.topic_configs import parse_topic_configs


@pytest.mark.parametrize(
    ("text", "levels"),
    [
        ("default", None),
        ("off", NO_LEVELS),
        ("1000,off,10000", Levels(attention=1_000, critical=10_000)),
        ("1, 2.5, 3", Levels(attention=1, warning=2.5, critical=3)),
        ("off,off,off", NO_LEVELS),
    ],
)
def test_levels_are_read(text: str, levels: Levels | None) -> None:
    assert parse_levels(text) == levels


@pytest.mark.parametrize("text", ["", "1", "1,2", "1,2,3,4", "a,b,c", "-1,off,off", "1,,2"])
def test_what_is_no_three_levels_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="levels"):
        parse_levels(text)


def test_the_worst_comes_first() -> None:
    levels = Levels(attention=1, warning=2, critical=3)
    assert [level for level, _ in levels.items()] == [
        Level.CRITICAL, Level.WARNING, Level.ATTENTION
    ]  # fmt: skip
    assert Level.CRITICAL.rank > Level.WARNING.rank > Level.ATTENTION.rank


def test_percent_and_milliseconds_become_what_rules_count_in() -> None:
    alerts = parse_topic_configs(
        {
            "alert.error.rate.percent": "0.5,5,off",
            "alert.no.consumers.ms": "off,60000,300000",
            "alert.expected.rate": "12.5",
        }
    ).alerts
    assert alerts.error_rate == Levels(attention=0.005, warning=0.05)
    assert alerts.no_consumers == Levels(warning=60_000, critical=300_000)
    assert alerts.expected_rate == 12.5
    assert alerts.depth is None


def test_a_topic_that_says_nothing_costs_nothing() -> None:
    assert parse_topic_configs({}).alerts == DEFAULT_ALERT_CONFIGS
    assert parse_topic_configs({"retention.ms": "1000"}).alerts is DEFAULT_ALERT_CONFIGS


@pytest.mark.parametrize("config", ALERT_CONFIGS, ids=lambda config: config.name)
def test_what_is_no_level_is_refused_with_an_example(config: object) -> None:
    name = getattr(config, "name", "")
    with pytest.raises(InvalidConfig, match=name):
        parse_topic_configs({name: "plenty"})


def test_alerts_make_no_queue() -> None:
    settings = parse_topic_configs({"alert.lag": "5,off,off"})
    assert not settings.queue.is_queue
    assert settings.alerts.lag == Levels(attention=5)
