"""The last hour, as curves: what the charts draw, and what "usual" is measured by.

A curve belongs to something (a queue, a group, a node, everything) and has a name. All of them
share one ring of times: every five seconds, or less often if readings are, a column is added, and
the column of an hour ago is overwritten.

    times      12:00:00   12:00:05   12:00:10   …
    jobs/queue ready        10         12          9
               ack_rate    4.2        4.0        4.4

A curve is an array of 32-bit floats. One that has never been anything but 0 is not kept at all, so
that a thousand idle queues cost nothing. When there are too many, those go that have been 0 for an
hour, and if there are none, new ones are not kept.
"""

import math
from array import array
from bisect import bisect_left
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from statistics import median

import msgspec

from penstock.core.limits import HISTORY_SERIES_MAX, HISTORY_STEP_MS, HISTORY_STEPS
from penstock.core.message_states import current_state
from penstock.watch.readings import GroupReading, QueueReading, Readings

Key = tuple[str, ...]
"""The owner of a curve: ("queue", name, group), ("group", name), ("node", "1"), ("cluster",)."""

CLUSTER: Key = ("cluster",)
QUEUE_NAMES = ("ready", "leased", "delayed", "dead", "dead_letters", "oldest_age_s", "in_rate",
               "out_rate", "ack_rate", "redelivery_rate", "error_rate", "consumers")  # fmt: skip
GROUP_NAMES = ("lag", "commit_rate", "members")
TOPIC_NAMES = ("in_rate",)
NODE_NAMES = ("disk_used_share", "memory_bytes")
CLUSTER_NAMES = ("ready", "leased", "delayed", "dead_letters", "lag", "oldest_age_s", "in_rate",
                 "out_rate", "ack_rate", "redelivery_rate", "error_rate")  # fmt: skip
DEPRECATED_NAMES = {"leased": "in_flight"}
"""The names of curves in release 0.1; both names work until 0.3."""

_NOTHING = math.nan


class Curves(msgspec.Struct, frozen=True, kw_only=True):
    """Some curves over the same times; what charts are given."""

    step_s: float
    """The least time between two points."""
    times: list[float]
    """Seconds since 1970, ascending."""
    series: dict[str, list[float | None]]
    """By name; None where nothing is known."""


class History:
    def __init__(
        self,
        *,
        steps: int = HISTORY_STEPS,
        step_ms: int = HISTORY_STEP_MS,
        series_max: int = HISTORY_SERIES_MAX,
    ) -> None:
        self._steps = steps
        self._step_ms = step_ms
        self._series_max = series_max
        self._times_ms: list[int] = []
        """A ring buffer; `_column` is the newest entry."""
        self._column = -1
        self._since: tuple[int, list[int]] = (-1, [])
        """The columns since a time, as they were last asked for."""
        self._added = 0
        self._series: dict[Key, dict[str, array[float]]] = {}
        self._count = 0

    @property
    def series(self) -> int:
        """The number of curves."""
        return self._count

    def note(self, readings: Readings) -> None:
        """Add a column, if it is time for one."""
        for _ in self.steps(readings):
            pass

    def steps(self, readings: Readings) -> Iterator[None]:
        """Add a reading in small steps. If the clock was set back, the history begins anew."""
        at_ms = readings.at_ms
        if self._times_ms:
            since_ms = at_ms - self._times_ms[self._column]
            if 0 <= since_ms < self._step_ms:
                return
            if since_ms < 0:
                self._forget()
        self._begin(at_ms)
        yield
        for queue in readings.queues:
            key = ("queue", queue.queue, queue.group)
            if key in self._series or not _is_idle(queue):
                self._put(key, _queue_values(queue))
                yield
        for group in readings.groups:
            self._put(("group", group.group), _group_values(group))
            yield
        for topic in readings.topics:
            self._put(("topic", topic.topic), {"in_rate": topic.in_rate})
            yield
        for node in readings.nodes:
            self._put(
                ("node", str(node.node)),
                {
                    "disk_used_share": node.disk_used_share or 0.0,
                    "memory_bytes": float(node.memory_bytes or 0),
                },
            )
        self._put(CLUSTER, _cluster_values(readings))

    def begin(self, at_ms: int) -> None:
        """A new column, of which nothing is known yet."""
        self._begin(at_ms)

    def put(self, key: Key, name: str, value: float) -> bool:
        """A value of the newest column; False if there is no room for its curve."""
        self._put(key, {name: value})
        return name in self._series.get(key, ())

    def means(self, since_ms: int, names: Container[str]) -> Iterator[tuple[Key, str, float]]:
        """The mean of each curve from a time on, those of the cluster first."""
        columns = self._columns_since(since_ms)
        for key in [CLUSTER, *(one for one in self._series if one != CLUSTER)]:
            for name, curve in list(self._series.get(key, {}).items()):
                values = [curve[column] for column in columns] if name in names else []
                known = [value for value in values if not math.isnan(value)]
                if known:
                    yield key, name, sum(known) / len(known)

    def curves(self, key: Key, names: Sequence[str], since_ms: int = 0) -> Curves:
        """Curves of one thing, from a wall time on. One that is not kept is 0 throughout.
        Deprecated names are understood."""
        columns = self._columns_since(since_ms)
        kept = self._series.get(key, {})
        return Curves(
            step_s=self._step_ms / 1_000,
            times=[self._times_ms[column] / 1_000 for column in columns],
            series={name: _values(kept.get(current_state(name)), columns) for name in names},
        )

    def recent(self, key: Key, name: str, since_ms: int) -> list[float]:
        """Return a curve from a wall time on, with 0 where nothing is known: for the small charts,
        of which a page has many."""
        columns = self._columns_since(since_ms)
        curve = self._series.get(key, {}).get(name)
        if curve is None:
            return [0.0] * len(columns)
        values = map(curve.__getitem__, columns)
        return [0.0 if math.isnan(value) else value for value in values]

    def usual(self, key: Key, name: str, *, least: int) -> float | None:
        """Return the median of a curve over the last hour; None if there are fewer than `least`
        points."""
        columns = self._columns()
        if len(columns) < least:
            return None
        kept = self._series.get(key, {}).get(name)
        if kept is None:
            return 0.0
        values = [kept[column] for column in columns]
        known = [value for value in values if not math.isnan(value)]
        return median(known) if len(known) >= least else None

    def _columns(self) -> list[int]:
        """From the oldest to the newest."""
        length = len(self._times_ms)
        return [*range(self._column + 1, length), *range(self._column + 1)]

    def _columns_since(self, since_ms: int) -> list[int]:
        """The columns from a time on. The last result is cached, because a page requests it many
        times."""
        known_ms, known = self._since
        if known_ms != since_ms:
            columns, times_ms = self._columns(), self._times_ms
            known = columns[bisect_left(columns, since_ms, key=times_ms.__getitem__) :]
            self._since = since_ms, known
        return known

    def _forget(self) -> None:
        self._since = -1, []
        self._times_ms.clear()
        self._column = -1
        self._series.clear()
        self._count = 0

    def _begin(self, at_ms: int) -> None:
        """A new column, in which nothing is known yet."""
        self._since = -1, []
        self._added += 1
        self._column = (self._column + 1) % self._steps
        if self._column < len(self._times_ms):
            self._times_ms[self._column] = at_ms
        else:
            self._times_ms.append(at_ms)
        for curves in self._series.values():
            for curve in curves.values():
                curve[self._column] = _NOTHING
        if self._added % self._steps == 0:
            self._drop_flat()

    def _put(self, key: Key, values: Mapping[str, float]) -> None:
        kept = self._series.get(key)
        for name, value in values.items():
            curve = None if kept is None else kept.get(name)
            if curve is None:
                if value == 0 or not self._has_room():
                    continue
                curve = array("f", bytes(4 * self._steps))
                kept = self._series.setdefault(key, {})
                kept[name] = curve
                self._count += 1
            curve[self._column] = value

    def _has_room(self) -> bool:
        return self._count < self._series_max

    def _drop_flat(self) -> None:
        """Once an hour, drop curves that were 0 all the time."""
        for key, curves in list(self._series.items()):
            for name, curve in list(curves.items()):
                if not any(value > 0 for value in curve):
                    del curves[name]
                    self._count -= 1
            if not curves:
                del self._series[key]


def queue_key(queue: str, group: str) -> Key:
    """The key under which the curves of a queue are kept."""
    return ("queue", queue, group)


def _values(curve: "array[float] | None", columns: Iterable[int]) -> list[float | None]:
    if curve is None:
        return [0.0 for _ in columns]
    return [
        None if math.isnan(value) else round(value, 3)
        for value in (curve[column] for column in columns)
    ]


def _is_idle(one: QueueReading) -> bool:
    """True if all values are 0."""
    return not (
        one.ready or one.leased or one.delayed or one.dead_letters or one.in_rate or one.consumers
        or one.out_rate or one.ack_rate
    )  # fmt: skip


def _queue_values(one: QueueReading) -> dict[str, float]:
    return {
        "ready": one.ready,
        "leased": one.leased,
        "delayed": one.delayed,
        "dead": one.dead,
        "dead_letters": one.dead_letters,
        "oldest_age_s": (one.oldest_age_ms or 0) / 1_000,
        "in_rate": one.in_rate,
        "out_rate": one.out_rate,
        "ack_rate": one.ack_rate,
        "redelivery_rate": one.redelivery_rate,
        "error_rate": one.error_rate,
        "consumers": one.consumers,
    }


def _group_values(one: GroupReading) -> dict[str, float]:
    return {"lag": one.lag, "commit_rate": one.commit_rate, "members": one.members}


def _cluster_values(readings: Readings) -> dict[str, float]:
    totals = readings.totals
    return {
        "ready": totals.ready,
        "leased": totals.leased,
        "delayed": totals.delayed,
        "dead_letters": totals.dead_letters,
        "lag": totals.lag,
        "oldest_age_s": (totals.oldest_age_ms or 0) / 1_000,
        "in_rate": totals.in_rate,
        "out_rate": totals.out_rate,
        "ack_rate": totals.ack_rate,
        "redelivery_rate": totals.redelivery_rate,
        "error_rate": totals.error_rate,
    }
