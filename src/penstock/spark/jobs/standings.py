"""The lag of groups and the depth of queues, read twice so that rates can be computed.

One look tells depths; rates need two. Consumer groups go by committed offsets: arrivals are how far
the log's end moved, departures how far the commits did. Work groups of queues go by the counters of
their messages (see `QueueStats`): what was sent has arrived, what is neither left to do nor dead
has departed. A group that commits once a minute departs by jumps: look for longer than that.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Literal

from penstock.client.client import Client
from penstock.core.errors import UnknownGroup
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.forecasts import Forecast, forecast


@dataclass(frozen=True, slots=True, kw_only=True)
class Lag:
    """A group on a partition, or a work group on a queue (partition -1: all of them)."""

    at: datetime
    kind: Literal["consumer group", "work group"]
    group: str
    topic: str
    partition: int
    lag: int
    """Messages not yet read; of a queue, ready, leased and delayed."""
    arrived: int
    """Since the log or the group began."""
    departed: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupForecast:
    """The forecast of one group on one topic."""

    at: datetime
    kind: Literal["consumer group", "work group"]
    group: str
    topic: str
    forecast: Forecast


def look_twice(
    url: str, topics: Sequence[str], *, seconds: float
) -> tuple[list[Lag], list[GroupForecast]]:
    """Return the lag of these topics' groups after `seconds`, and their forecasts."""
    return run(_look_twice(client_of(url), topics, seconds))


def forecasts(before: Sequence[Lag], after: Sequence[Lag]) -> list[GroupForecast]:
    """From two looks, by group and topic. A group that one of them lacks has no rates yet."""
    found = []
    first = _summed(before)
    for name, (at, lag, arrived, departed) in sorted(_summed(after).items()):
        if name not in first:
            continue
        began_at, _, arrived_before, departed_before = first[name]
        seconds = (at - began_at).total_seconds()
        if seconds <= 0:
            continue
        kind, group, topic = name
        seen = forecast(
            lag,
            arrivals_per_second=max(0, arrived - arrived_before) / seconds,
            departures_per_second=max(0, departed - departed_before) / seconds,
        )
        found.append(GroupForecast(at=at, kind=kind, group=group, topic=topic, forecast=seen))
    return found


_Name = tuple[Literal["consumer group", "work group"], str, str]


def _summed(lags: Sequence[Lag]) -> dict[_Name, tuple[datetime, int, int, int]]:
    found: dict[_Name, tuple[datetime, int, int, int]] = {}
    for one in lags:
        name: _Name = (one.kind, one.group, one.topic)
        _, lag, arrived, departed = found.get(name, (one.at, 0, 0, 0))
        found[name] = (
            one.at,
            lag + one.lag,
            arrived + one.arrived,
            departed + one.departed,
        )
    return found


async def _look_twice(
    client: Client, topics: Sequence[str], seconds: float
) -> tuple[list[Lag], list[GroupForecast]]:
    before = await _look(client, topics)
    await asyncio.sleep(seconds)
    after = await _look(client, topics)
    return after, forecasts(before, after)


async def _look(client: Client, topics: Sequence[str]) -> list[Lag]:
    found: list[Lag] = []
    for summary in await client.groups():
        try:
            group = await client.describe_group(summary.name)
        except UnknownGroup:  # It has just gone.
            continue
        at = datetime.now(UTC)
        found += [
            Lag(
                at=at,
                kind="consumer group",
                group=group.name,
                topic=part.topic,
                partition=part.partition,
                lag=part.lag or 0,
                arrived=part.end or 0,
                departed=part.committed,
            )
            for part in group.partitions
            if part.topic in topics
        ]
    for topic in topics:
        queue = await client.describe_queue(topic)
        at = datetime.now(UTC)
        found += [
            Lag(
                at=at,
                kind="work group",
                group=name,
                topic=topic,
                partition=-1,
                lag=stats.depth,
                arrived=stats.sent,
                departed=stats.sent - stats.depth,
            )
            for name, stats in queue.groups.items()
            if stats.sent
        ]
    return found
