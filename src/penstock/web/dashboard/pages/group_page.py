"""The page of one consumer group: how far behind it is and where, who its members are, and a
reset of its offsets, with a look at what that means before it is done.

    ?to= &topic=      what a reset there would change: earliest, latest, an offset, -100, @-1h …
"""

import shlex

from starlette.requests import Request

from penstock.core.errors import PenstockError, UnknownGroup
from penstock.engine.cluster.node import Node
from penstock.engine.groups.lag import GroupLag
from penstock.engine.inspection.offset_resets import OffsetChange
from penstock.watch.readings import Readings
from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.live.recent_readings import lately
from penstock.web.dashboard.pages.group_list import state_of
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.filters import segment
from penstock.web.topics import read_place

PARTITIONS_SHOWN = 200
MEMBERS_SHOWN = 100
CHANGES_SHOWN = 100


async def group_page(broker: Broker, request: Request) -> View:
    node = node_of(broker)
    name = request.path_params["name"]
    found = await node.lag.group(name)
    if found.state == "Dead" and not found.partitions:
        raise UnknownGroup(f"there is no group {name}")
    seen = lately(broker)
    word, tone = state_of(found.state, len(found.members), found.lag)
    rows = sorted(found.partitions, key=lambda row: (-(row.lag or 0), row.topic, row.partition))
    to, topic = (request.query_params.get(one, "") for one in ("to", "topic"))
    return View(
        template="group.html",
        title=name,
        data={
            "name": name,
            "state": found.state,
            "word": word,
            "tone": tone,
            "assignor": found.protocol,
            "coordinator": found.coordinator,
            "members": list(found.members[:MEMBERS_SHOWN]),
            "members_more": max(0, len(found.members) - MEMBERS_SHOWN),
            "partitions": rows[:PARTITIONS_SHOWN],
            "partitions_more": max(0, len(rows) - PARTITIONS_SHOWN),
            "lag": found.lag,
            "behind": sum(1 for row in rows if row.lag),
            "count": len(rows),
            "topics": _topics(found),
            "reading": None if seen.readings is None else seen.readings.group(name),
            "gain": _gain(seen.readings, name),
            "path": f"/v1/groups/{segment(name)}",
            "to": to,
            "topic": topic,
            **await _preview(node, found, to, topic),
        },
        json=f"/v1/groups/{segment(name)}",
        command=f"penstock group describe {shlex.quote(name)}",
    )


async def _preview(node: Node, group: GroupLag, to: str, topic: str) -> dict[str, object]:
    """The preview of a reset; an error is shown beside the field."""
    changes: list[OffsetChange] = []
    problem = ""
    if to and not group.members:
        try:
            place = read_place(to, node.engine.topics.clock.wall_ms())
            changes = await node.log_queries.resets.plan(
                group.group, place, topics=(topic,) if topic else ()
            )
        except PenstockError as error:
            problem = str(error)
    before = sum(max(0, one.end - one.before) for one in changes if one.before is not None)
    return {
        "changes": changes[:CHANGES_SHOWN],
        "changes_more": max(0, len(changes) - CHANGES_SHOWN),
        "problem": problem,
        "lag_before": before,
        "lag_after": sum(one.end - one.after for one in changes),
        "again": sum(max(0, one.before - one.after) for one in changes if one.before is not None),
        "skipped": sum(max(0, one.after - one.before) for one in changes if one.before is not None),
        "reset_body": {"to": to, **({"topic": topic} if topic else {})},
    }


def _gain(readings: Readings | None, name: str) -> float | None:
    """The rate at which the lag shrinks, in messages a second; None if unknown."""
    reading = None if readings is None else readings.group(name)
    if readings is None or reading is None:
        return None
    read = {one.topic for one in reading.topics}
    return reading.commit_rate - sum(one.in_rate for one in readings.topics if one.topic in read)


def _topics(group: GroupLag) -> list[str]:
    return sorted({row.topic for row in group.partitions})
