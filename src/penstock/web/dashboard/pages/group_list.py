"""The page of all consumer groups: who reads logs, and how far behind they are."""

from collections.abc import Callable, Mapping

import msgspec
from starlette.requests import Request

from penstock.watch.readings import GroupReading
from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.pagination import part_of

ROWS = 100
TOPICS_SHOWN = 3
_KEYS: Mapping[str, Callable[[GroupReading], float | str]] = {
    "name": lambda one: one.group,
    "members": lambda one: one.members,
    "lag": lambda one: one.lag,
    "pace": lambda one: one.commit_rate,
}


class GroupRow(msgspec.Struct, frozen=True, kw_only=True):
    reading: GroupReading
    topics: list[str]
    topics_more: int
    tone: str
    word: str
    points: list[float]


async def group_list(broker: Broker, request: Request) -> View:
    """All groups, a line each; without a wish, the one that is furthest behind comes first."""
    seen = lately(broker)
    wanted = request.query_params.get("q", "")
    every = () if seen.readings is None else seen.readings.groups
    groups = [one for one in every if wanted.lower() in one.group.lower()]
    sort = request.query_params.get("sort", "")
    key = _KEYS.get(sort.removeprefix("-"))
    if key is not None:
        groups.sort(key=key, reverse=sort.startswith("-"))
    else:
        groups.sort(key=lambda one: (-one.lag, one.group))
    part = part_of(request, len(groups), ROWS)
    rows = [
        _row(one, seen.points(("group", one.group), "lag")) for one in groups[part.first : part.end]
    ]
    return View(
        template="groups.html",
        title="Groups",
        data={
            "known": seen.readings is not None,
            "q": wanted,
            "sort": sort if key is not None else "",
            "total": len(every),
            "found": len(groups),
            "part": part,
            "groups": rows,
        },
        json="/v1/groups",
        command="penstock group list",
    )


def state_of(state: str, members: int, lag: int) -> tuple[str, str]:
    """A word for a group's state, and its tone."""
    if state == "Stable":
        return "stable", "good"
    if "Rebalance" in state:
        return "rebalancing", "attention"
    if members == 0 and lag:
        return "no members", "warning"
    return state.lower(), ""


def _row(one: GroupReading, points: list[float]) -> GroupRow:
    word, tone = state_of(one.state, one.members, one.lag)
    topics = [topic.topic for topic in one.topics]
    return GroupRow(
        reading=one,
        topics=topics[:TOPICS_SHOWN],
        topics_more=max(0, len(topics) - TOPICS_SHOWN),
        tone=tone,
        word=word,
        points=points,
    )
