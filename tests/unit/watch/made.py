"""Readings for tests: what matters is said, the rest is a healthy, idle cluster."""

from typing import Any

from penstock.core.alert_levels import Levels
from penstock.watch.readings import (
    GroupReading,
    NodeReading,
    QueueReading,
    Readings,
    ShardReading,
    TopicLag,
    Totals,
)
from penstock.watch.settings import AlertSettings

WALL_MS = 1_700_000_000_000
ANY_DISK = AlertSettings().levels | {"disk": Levels()}
"""For real brokers: how full the disk is that tests run on is not their business."""


def queue(name: str = "jobs", group: str = "queue", **said: Any) -> QueueReading:
    return QueueReading(queue=name, group=group, kind="standard", partitions=1, **said)


def group(lag: int, *, topic: str = "orders", members: int = 1, silent_ms: int = 0) -> GroupReading:
    rows = (TopicLag(topic=topic, lag=lag, committed=0, partitions=1),)
    return GroupReading(
        group="billing",
        state="Stable",
        coordinator=1,
        members=members,
        topics=rows,
        lag=lag,
        silent_ms=silent_ms,
    )


def node(used: float | None) -> NodeReading:
    return NodeReading(node=1, alive=True, disk_used_share=used)


def readings(*found: QueueReading | GroupReading | NodeReading, at_ms: int = WALL_MS) -> Readings:
    return Readings(
        at_ms=at_ms,
        node=1,
        health="1 of 1 nodes, all leaders settled",
        healthy=True,
        totals=Totals(),
        queues=tuple(one for one in found if isinstance(one, QueueReading)),
        groups=tuple(one for one in found if isinstance(one, GroupReading)),
        nodes=tuple(one for one in found if isinstance(one, NodeReading)),
        shards=(ShardReading(shard=0, leader=1, term=1),),
    )
