"""What can be set about alerts for all queues together; a topic's own configs count for more."""

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
    """By rule."""
    hold_ms: int = HOLD_MS
    """How long a condition must hold before its alert fires."""
    clear_ms: int = CLEAR_MS
    """How long it must be over before that is said."""
    webhook: str = ""
    """A URL; empty: alerts are not sent."""
    runbooks: str = ""
    """Where the runbooks are on the web; empty: in the documents of Penstock."""

    def levels_for(self, rule: str, configs: AlertConfigs | None = None) -> Levels:
        """The numbers of a rule, for a topic with these configs."""
        own: Levels | None = None if configs is None else getattr(configs, rule, None)
        return self.levels[rule] if own is None else own
