"""Three levels, as they are written in settings."""

import pytest

from penstock.core.alert_levels import NO_LEVELS, Levels
from penstock.server.config import Config, make_config
from penstock.server.level_notation import COUNTS, DURATIONS, SECRET_URL, SHARES
from penstock.server.notation import Notation
from penstock.server.server import alert_settings
from penstock.server.sources import load_config
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings


@pytest.mark.parametrize(
    ("notation", "text", "levels"),
    [
        (COUNTS, "1000,off,10000", Levels(attention=1_000, critical=10_000)),
        (COUNTS, "off", NO_LEVELS),
        (SHARES, "1%,2.5%,off", Levels(attention=0.01, warning=0.025)),
        (SHARES, "off,80%,100%", Levels(warning=0.8, critical=1.0)),
        (DURATIONS, "off,90s,5m", Levels(warning=90_000, critical=300_000)),
    ],
)
def test_levels_are_read_and_written(notation: Notation[Levels], text: str, levels: Levels) -> None:
    assert notation.parse(text) == levels
    assert notation.parse(notation.format(levels)) == levels
    assert notation.format(levels) == text
    assert notation.parse(text.split(",")) == levels or text == "off"


@pytest.mark.parametrize(
    ("notation", "text"),
    [
        (COUNTS, "1000"),
        (COUNTS, "1%,off,off"),
        (SHARES, "1,off,off"),
        (SHARES, "101%,off,off"),
        (DURATIONS, "off,off,300"),
        (DURATIONS, 5),
    ],
)
def test_what_is_not_levels_is_refused(notation: Notation[Levels], text: object) -> None:
    with pytest.raises(ValueError, match=r"."):
        notation.parse(text)


def test_by_default_the_broker_watches_for_what_the_table_says() -> None:
    settings = alert_settings(Config())
    assert settings == AlertSettings()
    assert settings.levels == {name: rule.levels for name, rule in RULES.items()}


def test_settings_reach_the_watch() -> None:
    config = make_config({"alerts.depth": Levels(critical=5), "alerts.webhook": "http://a/b"})
    settings = alert_settings(config)
    assert settings.levels["depth"] == Levels(critical=5)
    assert settings.webhook == "http://a/b"


def test_only_the_host_of_a_webhook_is_shown() -> None:
    loaded = load_config(
        flags={},
        environment={"PENSTOCK_ALERTS_WEBHOOK": "https://user:pass@hooks.example/T00/geheim?x=1"},
        file=None,
    )
    shown = {entry.name: entry.written(value) for entry, value, _ in loaded.rows()}
    assert shown["alerts.webhook"] == "https://hooks.example/…"
    assert SECRET_URL.parse("https://hooks.example/T00/geheim").endswith("geheim")
    with pytest.raises(ValueError, match="address"):
        SECRET_URL.parse("hooks.example")
