"""The recent readings of this node's watch, in the form that pages need.

A broker has no watch until its node is there, and no readings for a moment after that: pages then
say so, instead of showing zeros.
"""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

import msgspec

from penstock.core.limits import EVENTS_MAX
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.events import Event, Events
from penstock.watch.alert import Alert
from penstock.watch.history import CLUSTER, Key, queue_key
from penstock.watch.readings import Readings
from penstock.web.broker import Broker
from penstock.web.dashboard.widgets.trouble import QueueRow

if TYPE_CHECKING:
    from penstock.watch.watch import Watch

SPARK_POINTS = 60
"""Of a small line: five minutes, at a step of five seconds."""
TREND_NAMES = ("in_rate", "out_rate", "ack_rate", "ready")
LINES_SECONDS = 1.0
"""The longest wait of a page for the events of other nodes."""
LINES_AGAIN_MS = 1_500
"""All nodes are asked for their lines so often at most, however many pages are open."""

_asked: "WeakKeyDictionary[Events, tuple[int, list[Event]]]" = WeakKeyDictionary()


@dataclass(frozen=True, slots=True, kw_only=True)
class Lately:
    """The recent readings and alerts."""

    watch: "Watch | None"
    readings: Readings | None
    alerts: list[Alert]
    """The alerts that fire and are neither acknowledged nor silenced, the worst first."""

    def points(self, key: Key, name: str) -> list[float]:
        """Return the last minutes of a curve; an empty list if they are not known."""
        if self.watch is None or self.readings is None:
            return []
        since_ms = self.readings.at_ms - SPARK_POINTS * 5_000
        return self.watch.history.recent(key, name, since_ms)

    def with_points(self, row: QueueRow) -> QueueRow:
        """A row of a list, with how many messages waited lately."""
        points = self.points(queue_key(row.reading.queue, row.reading.group), "ready")
        return msgspec.structs.replace(row, points=points)

    def trends(self) -> dict[str, list[float]]:
        """The trends of the cluster, by name."""
        return {name: self.points(CLUSTER, name) for name in TREND_NAMES}


def lately(broker: Broker) -> Lately:
    """Return the recent readings of this node's watch."""
    watch = broker.watch
    if watch is None:
        return Lately(watch=None, readings=None, alerts=[])
    return Lately(watch=watch, readings=watch.readings, alerts=watch.firing())


def alerts_by_queue(alerts: Iterable[Alert]) -> dict[str, list[Alert]]:
    """The alerts that are about a queue, by its name."""
    found: dict[str, list[Alert]] = {}
    for alert in alerts:
        if alert.subject.queue:
            found.setdefault(alert.subject.queue, []).append(alert)
    return found


async def event_lines(broker: Broker, limit: int, kinds: Sequence[str] = ()) -> list[Event]:
    """Return the last events of all nodes, newest first."""
    node = broker.node
    if not isinstance(node, Node):
        return []
    now_ms = node.engine.topics.clock.monotonic_ms()
    asked_ms, lines = _asked.get(node.events, (-LINES_AGAIN_MS, []))
    if now_ms - asked_ms >= LINES_AGAIN_MS:
        try:
            async with asyncio.timeout(LINES_SECONDS):
                lines = await node.events.everywhere(EVENTS_MAX)
        except TimeoutError:  # A node hangs: what this one knows must do.
            lines = node.events.here()
        _asked[node.events] = (now_ms, lines)
    chosen = [one for one in reversed(lines) if not kinds or one.kind in kinds]
    return chosen[:limit]
