"""The problems of a queue, in words, and the order of queues by urgency.

Dead letters come first, for they wait for a person; then what alerts say; then what looks stuck.
How bad dead letters are is what their alert says. One fact has one badge: what an alert says is not
said again. Among equals, the queue with more waiting and with the older message.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from penstock.watch.alert import Alert
from penstock.watch.inspection import judge
from penstock.watch.readings import QueueReading
from penstock.watch.rules import RULES

_DEAD = RULES["dead_letters"]
_IDLE = RULES["no_consumers"]
TONES = ("attention", "warning", "critical")
"""From the least to the worst; the levels of alerts are called the same."""
SILENT_MS = 30_000
"""Workers that are silent for less than this may be between two messages."""


class Trouble(NamedTuple):
    """A problem of a queue."""

    tone: str
    text: str


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list of queues."""

    reading: QueueReading
    troubles: list[Trouble]
    points: list[float] = []
    """The number of waiting messages over the last minutes."""

    @property
    def tone(self) -> str:
        """The tone of the worst problem."""
        tones = [one.tone for one in self.troubles if one.tone]
        return max(tones, key=TONES.index, default="")


def troubles(reading: QueueReading, alerts: Iterable[Alert] = ()) -> list[Trouble]:
    """Return the problems of a queue, worst first."""
    found = []
    if reading.dead_letters and not reading.dead_letters_of:
        reached = judge(_DEAD.levels, reading.dead_letters)
        tone = TONES[0] if reached is None else reached[0].value
        found.append(Trouble(tone, f"{reading.dead_letters:,} dead"))
    elif reading.dead_letters_of and reading.ready + reading.dead:
        found.append(Trouble("attention", "dead letters"))
    alerts = [one for one in alerts if one.rule != _DEAD.name or not found]
    found += [
        Trouble(alert.level.value, alert.title.lower())
        for alert in sorted(alerts, key=lambda one: -one.level.rank)
    ]
    unattended = any(one.rule == _IDLE.name for one in alerts)
    waiting = reading.ready + reading.delayed
    if reading.paused:
        found.append(Trouble("attention" if waiting else "", "paused"))
    elif reading.ready and not reading.consumers and not reading.dead_letters_of:
        long = reading.silent_ms is None or reading.silent_ms >= SILENT_MS
        if long and not unattended:
            found.append(Trouble("attention", _IDLE.title.lower()))
    if not reading.complete:
        found.append(Trouble("warning", "partly unknown"))
    return [one for one in found if one.tone or one.text == "paused"]


def by_trouble(
    readings: Iterable[QueueReading], alerts: Mapping[str, list[Alert]]
) -> list[QueueRow]:
    """Return the queues in the order of urgency."""
    rows = [
        QueueRow(reading=one, troubles=troubles(one, alerts.get(one.queue, ()))) for one in readings
    ]
    return sorted(rows, key=_order)


def _order(row: QueueRow) -> tuple[object, ...]:
    one = row.reading
    dead = one.dead_letters if not one.dead_letters_of else 0
    ranks = [TONES.index(trouble.tone) for trouble in row.troubles if trouble.tone]
    return (
        not dead,
        -max(ranks, default=-1),
        -dead,
        -(one.oldest_age_ms or 0) if one.ready else 0,
        -one.ready,
        -one.in_rate,
        one.queue,
        one.group,
    )
