"""The `alert.*` configs of a topic: rows of the table of configs, and their meaning.

A config that is not set here is as the broker's own settings have it (`[alerts]`). These decide
only when an alert fires; nothing that happens to messages depends on them.
"""

import msgspec

from penstock.core.alert_levels import (
    DEFAULT,
    LEVELS_PATTERN,
    OFF,
    Levels,
    parse_levels,
)
from penstock.core.configs import ConfigKind, ConfigValues
from penstock.core.queue_settings import TopicConfig

PREFIX = "alert."


def _levels(name: str, example: str, documentation: str) -> TopicConfig:
    return TopicConfig(
        name=name,
        kind=ConfigKind.STRING,
        default=DEFAULT,
        choices=(DEFAULT, OFF),
        pattern=LEVELS_PATTERN,
        example=example,
        documentation=f"{documentation} Three numbers: attention, warning, critical; each may be"
        " off. default: as the broker's settings have it.",
    )


ALERT_CONFIGS = (
    _levels(
        "alert.dead.letters",
        "1,100,1000",
        "Number of dead letters above which an alert fires; set it on the dead-letter queue if"
        " there is one.",
    ),
    _levels(
        "alert.depth", "10000,50000,off", "Number of ready messages above which an alert fires."
    ),
    _levels(
        "alert.error.rate.percent",
        "1,5,off",
        "Share of failed deliveries above which an alert fires, in percent.",
    ),
    TopicConfig(
        name="alert.expected.rate",
        kind=ConfigKind.DOUBLE,
        default="0",
        most=1_000_000_000,
        documentation="How many messages a second its workers should get done; 0: as many as was"
        " usual in the last hour.",
    ),
    _levels("alert.lag", "1000,off,10000", "Lag of a consumer group above which an alert fires."),
    _levels(
        "alert.no.consumers.ms",
        "off,60000,300000",
        "Milliseconds without a worker, while messages are ready, after which an alert fires.",
    ),
    _levels(
        "alert.processing.rate.percent",
        "50,25,off",
        "Share of the expected rate below which an alert fires, in percent.",
    ),
)
"""The configs, sorted by name."""


class AlertConfigs(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parsed `alert.*` configs of a topic; None means the broker's setting."""

    lag: Levels | None = None
    depth: Levels | None = None
    dead_letters: Levels | None = None
    error_rate: Levels | None = None
    """Shares, 0 to 1."""
    no_consumers: Levels | None = None
    """Milliseconds."""
    processing_rate: Levels | None = None
    """Shares."""
    expected_rate: float | None = None
    """Messages a second; None: as usual."""


def alert_configs(values: ConfigValues) -> AlertConfigs:
    """Parse the configs."""
    found = AlertConfigs(
        lag=parse_levels(values.text("alert.lag")),
        depth=parse_levels(values.text("alert.depth")),
        dead_letters=parse_levels(values.text("alert.dead.letters")),
        error_rate=_shares(values.text("alert.error.rate.percent")),
        no_consumers=parse_levels(values.text("alert.no.consumers.ms")),
        processing_rate=_shares(values.text("alert.processing.rate.percent")),
        expected_rate=values.decimal("alert.expected.rate") or None,
    )
    return DEFAULT_ALERT_CONFIGS if found == DEFAULT_ALERT_CONFIGS else found


def _shares(text: str) -> Levels | None:
    found = parse_levels(text)
    return None if found is None else found.scaled(100)


DEFAULT_ALERT_CONFIGS = AlertConfigs()
"""The configs of a topic on which none is set."""
