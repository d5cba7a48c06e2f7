"""Alerts of one rule and level taken together: 23 queues without consumers are one line, not 23."""

from collections.abc import Iterable

import msgspec

from penstock.core.alert_levels import Level
from penstock.watch.alert import Alert

APART_MAX = 3
"""Up to this number, alerts of a kind are listed one by one."""
NAMED = 3
"""The number of subjects that a sentence about a larger group names."""


class AlertGroup(msgspec.Struct, frozen=True, kw_only=True):
    """One or several alerts of the same rule and level."""

    rule: str
    level: Level
    since_ms: int
    """The time when the first of them began."""
    message: str
    alerts: list[Alert]

    @property
    def headline(self) -> str:
        """In a few words: the title, and what it is about."""
        first = self.alerts[0]
        about = first.subject.text if len(self.alerts) == 1 else _count(self.alerts)
        return f"{first.title}: {about}"


def group_alerts(alerts: Iterable[Alert]) -> list[AlertGroup]:
    """Alerts in their order; more than three of one rule and level at the place of the first."""
    kinds: dict[tuple[str, Level], list[Alert]] = {}
    for alert in alerts:
        kinds.setdefault((alert.rule, alert.level), []).append(alert)
    found: list[AlertGroup] = []
    for some in kinds.values():
        parts = [some] if len(some) > APART_MAX else [[one] for one in some]
        found += [_group(part) for part in parts]
    return found


def _group(alerts: list[Alert]) -> AlertGroup:
    first = alerts[0]
    message = first.message
    if len(alerts) > 1:
        names = ", ".join(one.subject.text for one in alerts[:NAMED])
        message = f"{first.title}: {_count(alerts)}, among them {names}"
    return AlertGroup(
        rule=first.rule,
        level=first.level,
        since_ms=min(one.fired_ms or one.since_ms for one in alerts),
        message=message,
        alerts=alerts,
    )


def _count(alerts: list[Alert]) -> str:
    return f"{len(alerts)} {alerts[0].subject.kind}s"
