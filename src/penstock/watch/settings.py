"""The settings of alerts for all queues together; a topic's own configs take precedence."""

import msgspec

from penstock.core.alert_configs import AlertConfigs
from penstock.core.alert_levels import Levels
from penstock.watch.rules import RULES

HOLD_MS = 10_000
CLEAR_MS = 30_000


class AlertSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The thresholds, and where alerts are sent."""

    enabled: bool = True
    levels: dict[str, Levels] = msgspec.field(
        default_factory=lambda: {name: rule.levels for name, rule in RULES.items()}
    )
    """The thresholds, by rule."""
    hold_ms: int = HOLD_MS
    """The time that a condition must hold before its alert fires."""
    clear_ms: int = CLEAR_MS
    """The time that it must be over before the alert is resolved."""
    webhook: str = ""
    """A URL; empty: alerts are not sent."""
    runbooks: str = ""
    """The address of the runbooks on the web; empty for those of this broker."""

    def levels_for(self, rule: str, configs: AlertConfigs | None = None) -> Levels:
        """The numbers of a rule, for a topic with these configs."""
        own: Levels | None = None if configs is None else getattr(configs, rule, None)
        return self.levels[rule] if own is None else own
