"""The first page: how the cluster is, in a sentence, and which queues need attention."""

from starlette.requests import Request

from penstock.watch.alert_groups import AlertGroup, group_alerts
from penstock.watch.readings import Readings
from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import alerts_by_queue, event_lines, lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.trouble import by_trouble

QUEUES_SHOWN = 25
GROUPS_SHOWN = 8
ALERTS_SHOWN = 6
LINES_SHOWN = 8


async def overview(broker: Broker, _request: Request) -> View:
    """The overview page."""
    seen = lately(broker)
    readings = seen.readings
    rows = [] if readings is None else by_trouble(readings.queues, alerts_by_queue(seen.alerts))
    firing = group_alerts(seen.alerts)
    groups = [] if readings is None else [one for one in readings.groups if one.topics]
    return View(
        template="overview.html",
        title="Overview",
        data={
            "readings": None if readings is None else {
                "at_ms": readings.at_ms,
                "health": readings.health,
                "healthy": readings.healthy,
                "totals": readings.totals,
                "every_ms": readings.every_ms,
            },
            "queues": [seen.with_points(row) for row in rows[:QUEUES_SHOWN]],
            "queues_more": max(0, len(rows) - QUEUES_SHOWN),
            "troubled": sum(1 for row in rows if row.tone),
            "groups": sorted(groups, key=lambda one: (-one.lag, one.group))[:GROUPS_SHOWN],
            "groups_more": max(0, len(groups) - GROUPS_SHOWN),
            "headline": _headline(readings, firing),
            "firing": firing[:ALERTS_SHOWN],
            "firing_more": max(0, len(firing) - ALERTS_SHOWN),
            "lines": await event_lines(broker, LINES_SHOWN),
            "trends": seen.trends(),
        },
        json="/v1/readings",
        command="penstock top",
    )  # fmt: skip


def _headline(readings: Readings | None, firing: list[AlertGroup]) -> str:
    """The worst that fires; the health of the cluster if nothing does, or if that is worse."""
    if readings is None or not readings.healthy or not firing:
        return "" if readings is None else readings.health
    return firing[0].headline
