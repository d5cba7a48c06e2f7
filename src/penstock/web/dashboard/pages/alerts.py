"""Alerts: what fires, what is about to, what is over; and the rules they go by."""

from collections.abc import Iterable

from starlette.requests import Request

from penstock.watch.alert import Alert, AlertState
from penstock.watch.alert_groups import group_alerts
from penstock.watch.rules import RULES, Unit
from penstock.watch.silences import AlertSilence
from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets import filters as words

RESOLVED_SHOWN = 50


async def alerts(broker: Broker, _request: Request) -> View:
    seen = lately(broker)
    active = () if seen.watch is None else seen.watch.alerts.active()
    resolved = () if seen.watch is None else seen.watch.alerts.resolved()
    silences = () if seen.watch is None else seen.watch.silences.current()
    pending = [one for one in active if one.state is AlertState.PENDING]
    covered = {one.id: _covered(active, one) for one in silences}
    return View(
        template="alerts.html",
        title="Alerts",
        data={
            "now_ms": 0 if seen.readings is None else seen.readings.at_ms,
            "watching": seen.readings is not None,
            "firing": group_alerts(seen.alerts),
            "pending": group_alerts(pending),
            "silences": silences,
            "covered": covered,
            "rule_names": {name: rule.title for name, rule in RULES.items()},
            "resolved": resolved[:RESOLVED_SHOWN],
            "rules": _rules(broker),
        },
        json="/v1/alerts",
        command="penstock alert list",
    )


def _covered(active: Iterable[Alert], silence: AlertSilence) -> list[Alert]:
    """Return the firing alerts that a silence covers."""
    return [one for one in active if one.state is AlertState.FIRING and silence.covers(one)]


def _rules(broker: Broker) -> list[dict[str, object]]:
    if broker.watch is None:
        return []
    settings = broker.watch.settings
    return [
        {
            "name": rule.name,
            "title": rule.title,
            "meaning": rule.meaning,
            "about": rule.about,
            "below": rule.below,
            "levels": {
                level.value: _written(at, rule.unit)
                for level, at in settings.levels_for(rule.name).items()
            },
        }
        for rule in RULES.values()
    ]


def _written(value: float, unit: Unit) -> str:
    match unit:
        case Unit.SHARE:
            return words.share(value)
        case Unit.DURATION:
            return words.age(value)
        case Unit.MESSAGES:
            return words.number(value)
