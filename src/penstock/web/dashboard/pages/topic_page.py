"""The page of one topic: its messages, its partitions, who reads it, how it is set.

    ?tab=messages     what is in it (&order= &from= &partition= &text= &key= &header= &message=)
    ?tab=tail         what comes, as it comes: the page asks /v1/topics/{name}/messages itself
    ?tab=partitions   where it lies
    ?tab=groups       who reads it, and how far behind
    ?tab=configs      how it is set

A search is repeated only as often as it is cheap (`live/search_cache.py`).
"""

from urllib.parse import urlencode
from weakref import WeakKeyDictionary

import msgspec
from starlette.requests import Request

from penstock.core.errors import PenstockError
from penstock.core.message import Message
from penstock.core.topic import Topic
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.core.types import Offset
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.log_browser import LogPart
from penstock.web.broker import Broker, node_of
from penstock.web.dashboard.live.recent_readings import lately
from penstock.web.dashboard.live.search_cache import SearchCache
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.filters import segment
from penstock.web.dashboard.widgets.messages import (
    ShownMessage,
    log_message,
    log_row,
    parse_message_place,
)
from penstock.web.dashboard.widgets.payloads import AUTO, FORMS, SHOWN_BYTES_MAX
from penstock.web.queue_messages import data as bytes_of
from penstock.web.setting_names import is_queue
from penstock.web.topic_lines import LogMessage, LogPage
from penstock.web.topic_messages import MessageBrowser, look_wanted
from penstock.web.topics import topic_detail

ROWS = 50
ROW_BYTES = 1_024
TABS = ("messages", "tail", "partitions", "groups", "configs")
_ASKED = ("order", "from", "partition", "text", "key", "header")

_searches: "WeakKeyDictionary[Node, SearchCache[LogPage]]" = WeakKeyDictionary()


class ConfigLine(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str
    is_set: bool
    about: str


async def topic_page(broker: Broker, request: Request) -> View:
    node = node_of(broker)
    topic = node.engine.topics.topic(request.path_params["name"])
    tab = request.query_params.get("tab", "")
    if tab not in TABS:
        tab = "messages"
    detail = await topic_detail(node, topic)
    seen = lately(broker)
    reading = None if seen.readings is None else seen.readings.topic(topic.name)
    asked = {name: request.query_params.get(name, "") for name in _ASKED}
    data: dict[str, object] = {
        "name": topic.name,
        "is_queue": is_queue(topic.configs),
        "topic": detail,
        "reading": reading,
        "points": seen.points(("topic", topic.name), "in_rate"),
        "now_ms": node.engine.topics.clock.wall_ms(),
        "tab": tab,
        "asked": asked,
        "path": f"/v1/topics/{segment(topic.name)}",
        "form": _form(request),
        "chosen": None,
    }
    if tab == "messages":
        data |= await _messages(broker, node, topic, request)
    elif tab == "configs":
        data["configs"] = config_lines(topic)
    return View(
        template="topic.html",
        title=topic.name,
        data=data,
        json=_json(topic, tab, asked),
        command=_command(topic, tab),
    )


async def _messages(
    broker: Broker, node: Node, topic: Topic, request: Request
) -> dict[str, object]:
    """The tab of messages; an error is shown beside the field."""
    searches = _searches.get(node)
    if searches is None:
        searches = _searches[node] = SearchCache(node.engine.topics.clock)
    problem = ""
    page: LogPage | None = None
    try:
        wanted = msgspec.structs.replace(
            look_wanted(request), limit=ROWS, body_bytes=ROW_BYTES, wait_ms=0
        )
        key = (topic.topic_id, msgspec.msgpack.encode(wanted))
        browser = MessageBrowser(broker)
        page = await searches.get(key, lambda: browser.look(node, topic, wanted))
    except PenstockError as error:
        problem = str(error)
    rows = [] if page is None else [_row(topic, one) for one in page.messages]
    return {
        "rows": rows,
        "next": None if page is None else page.next,
        "unreachable": [] if page is None else page.unreachable,
        "problem": problem,
        "is_narrowed": any(request.query_params.get(name) for name in ("text", "key", "header")),
        "chosen": await _chosen(node, topic, request),
    }


def _row(topic: Topic, one: LogMessage) -> ShownMessage:
    """The look has made texts of bytes; a row wants them back."""
    headers = tuple(
        (name, bytes_of(value))
        for name, values in one.headers.items()
        for value in (values if isinstance(values, list) else [values])
    )
    message = Message(
        Offset(one.offset), one.timestamp_ms, bytes_of(one.key), bytes_of(one.body), headers
    )
    return log_row(topic, one.partition, message, one.body_bytes)


async def _chosen(node: Node, topic: Topic, request: Request) -> ShownMessage | None:
    """The message that the address names, if it is still there."""
    place = parse_message_place(request.query_params.get("message", ""))
    if place is None or place[0] >= len(topic.partitions):
        return None
    try:
        seen = await node.log_queries.looks.look(
            topic,
            {place[0]: Offset(place[1])},
            messages_max=1,
            value_bytes=SHOWN_BYTES_MAX,
        )
    except PenstockError:
        return None
    part: LogPart = seen.parts[0]
    if not part.messages or part.messages[0].message.offset != place[1]:
        return None
    found = part.messages[0]
    return log_message(topic, place[0], found.message, found.value_bytes, _form(request))


def config_lines(topic: Topic) -> list[ConfigLine]:
    """Every config that does something here; what was set comes first."""
    lines = [
        ConfigLine(
            name=name,
            value=topic.configs.get(name, one.default),
            is_set=name in topic.configs,
            about=one.documentation,
        )
        for name, one in TOPIC_CONFIGS.items()
        if (one.acts and not name.startswith("queue.")) or name in topic.configs
    ]
    return sorted(lines, key=lambda one: (not one.is_set, one.name))


def _form(request: Request) -> str:
    wanted = request.query_params.get("view", AUTO)
    return wanted if wanted in FORMS else AUTO


def _json(topic: Topic, tab: str, asked: dict[str, str]) -> str:
    path = f"/v1/topics/{segment(topic.name)}"
    if tab not in ("messages", "tail"):
        return path
    query = urlencode({name: value for name, value in asked.items() if value})
    return f"{path}/messages?{query}" if query else f"{path}/messages"


def _command(topic: Topic, tab: str) -> str:
    match tab:
        case "messages":
            return f"penstock consume {topic.name} -o -50 --exit"
        case "tail":
            return f"penstock consume {topic.name} -o end"
        case "configs":
            return f"penstock topic config {topic.name}"
    return f"penstock topic describe {topic.name}"
