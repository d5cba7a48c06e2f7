"""The page of all topics: how many messages they hold, how large they are, how fast they grow."""

from collections.abc import Callable, Mapping

import msgspec
from starlette.requests import Request

from penstock.core.internal_topics import is_internal
from penstock.core.topic import Topic
from penstock.core.types import PartitionId
from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.live.recent_readings import Lately, lately
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.pagination import part_of
from penstock.web.topic_lines import TopicLine
from penstock.web.topics import PARTITIONS_ASKED_MAX, topic_line

ROWS = 100


class TopicRow(msgspec.Struct, frozen=True, kw_only=True):
    line: TopicLine
    in_rate: float
    points: list[float]


_KEYS: Mapping[str, Callable[[TopicRow], float | str]] = {
    "name": lambda row: row.line.name,
    "partitions": lambda row: row.line.partitions,
    "messages": lambda row: row.line.messages or 0,
    "size": lambda row: row.line.size_bytes or 0,
    "in": lambda row: row.in_rate,
}


async def topic_list(broker: Broker, request: Request) -> View:
    """All topics, a line each. Sorting by what the leaders know asks for all of them, as far as
    they may be asked at once."""
    node = node_of(broker)
    asked = request.query_params
    wanted = asked.get("q", "")
    internal = asked.get("internal") == "1"
    catalog = node.engine.topics.catalog
    names = [name for name in sorted(catalog.topics) if internal or not is_internal(name)]
    chosen = [name for name in names if wanted.lower() in name.lower()]
    topics = [topic for name in chosen if (topic := catalog.topic(name)) is not None]
    sort = asked.get("sort", "")
    key = _KEYS.get(sort.removeprefix("-"))
    part = part_of(request, len(topics), ROWS)
    shown = topics if key is not None else topics[part.first : part.end]
    seen = lately(broker)
    places = await node.log_queries.survey.places(_asked(shown))
    readings = () if seen.readings is None else seen.readings.topics
    rates = {one.topic: one.in_rate for one in readings}
    rows = [_row(seen, topic_line(topic, places), rates) for topic in shown]
    if key is not None:
        rows = sorted(rows, key=key, reverse=sort.startswith("-"))[part.first : part.end]
    return View(
        template="topics.html",
        title="Topics",
        data={
            "q": wanted,
            "sort": sort if key is not None else "",
            "internal": internal,
            "total": len(names),
            "found": len(topics),
            "part": part,
            "topics": rows,
        },
        json="/v1/topics",
        command="penstock topic list",
    )


def _asked(topics: list[Topic]) -> list[PartitionId]:
    asked: list[PartitionId] = []
    for topic in topics:
        if len(asked) + len(topic.partitions) <= PARTITIONS_ASKED_MAX:
            asked += topic.partitions
    return asked


def _row(seen: Lately, line: TopicLine, rates: Mapping[str, float]) -> TopicRow:
    return TopicRow(
        line=line,
        in_rate=rates.get(line.name, 0.0),
        points=seen.points(("topic", line.name), "in_rate"),
    )
