"""What is wrong with a queue, in words, and which of several queues is the most urgent.

Dead letters come first, for they wait for a person; then what alerts say; then what looks stuck.
Among equals, the queue with more waiting and with the older message.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

import msgspec

from penstock.watch.alert import Alert
from penstock.watch.readings import QueueReading

TONES = ("attention", "warning", "critical")
"""From the least to the worst; the levels of alerts are called the same."""
SILENT_MS = 30_000
"""A queue whose workers are silent for less may be between two of them."""


class Trouble(NamedTuple):
    """One thing that is wrong."""

    tone: str
    text: str


class QueueRow(msgspec.Struct, frozen=True, kw_only=True):
    """A queue in a list."""

    reading: QueueReading
    troubles: list[Trouble]
    points: list[float] = []
    """How many waited, over the last minutes."""

    @property
    def tone(self) -> str:
        """The worst of its troubles."""
        tones = [one.tone for one in self.troubles if one.tone]
        return max(tones, key=TONES.index, default="")


def troubles(reading: QueueReading, alerts: Iterable[Alert] = ()) -> list[Trouble]:
    """What is wrong with a queue, the worst first."""
    found = []
    if reading.dead_letters and not reading.dead_letters_of:
        found.append(Trouble("critical", f"{reading.dead_letters:,} dead"))
    elif reading.dead_letters_of and reading.ready + reading.dead:
        found.append(Trouble("attention", "dead letters"))
    found += [
        Trouble(alert.level.value, alert.title.lower())
        for alert in sorted(alerts, key=lambda one: -one.level.rank)
    ]
    waiting = reading.ready + reading.delayed
    if reading.paused:
        found.append(Trouble("attention" if waiting else "", "paused"))
    elif reading.ready and not reading.consumers and not reading.dead_letters_of:
        if reading.silent_ms is None or reading.silent_ms >= SILENT_MS:
            found.append(Trouble("attention", "no receivers"))
    if not reading.complete:
        found.append(Trouble("warning", "partly unknown"))
    return [one for one in found if one.tone or one.text == "paused"]


def by_trouble(
    readings: Iterable[QueueReading], alerts: Mapping[str, list[Alert]]
) -> list[QueueRow]:
    """Queues by urgency."""
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
