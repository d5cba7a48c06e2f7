"""Search by name: queues, topics, groups; and messages by their id.

What begins with the text comes before what has it somewhere, short names before long ones, and
pages of the dashboard last.
"""

from collections.abc import Iterable, Mapping

import msgspec
from starlette.requests import Request

from penstock.core.errors import PenstockError
from penstock.core.internal_topics import is_internal
from penstock.web.broker import Broker, NamedTopic
from penstock.web.dashboard.live.recent_readings import lately
from penstock.web.dashboard.renderer import NAVIGATION
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.filters import segment
from penstock.web.setting_names import is_queue

RESULTS_MAX = 20


class SearchHit(msgspec.Struct, frozen=True, kw_only=True):
    """A search result."""

    kind: str
    name: str
    href: str


async def search(broker: Broker, request: Request) -> View:
    """The search page."""
    text = request.query_params.get("q", "").strip()
    results = find(broker, text) if text else []
    return View(
        template="search.html",
        title="Search",
        data={"q": text, "results": results[:RESULTS_MAX], "more": len(results) > RESULTS_MAX},
    )


def find(broker: Broker, text: str) -> list[SearchHit]:
    """Return everything whose name contains the text, and the message if it may be an id."""
    wanted = text.lower()
    found = [one for one in _everything(broker) if wanted in one.name.lower()]
    found.sort(
        key=lambda one: (
            one.kind == "page",
            not one.name.lower().startswith(wanted),
            len(one.name),
            one.name,
        )
    )
    if looks_like_message(text):
        found.append(SearchHit(kind="message", name=text, href=f"/trace?message={segment(text)}"))
    return found


def looks_like_message(text: str) -> bool:
    """True if the text may be a message id: long, one word, with a digit in it."""
    return len(text) >= 5 and " " not in text and any(letter.isdigit() for letter in text)


def _everything(broker: Broker) -> Iterable[SearchHit]:
    readings = lately(broker).readings
    topics = {name: one for name, one in _topics(broker).items() if not is_internal(name)}
    # The watch knows topics that a work group reads, but no queue that is new.
    queues = {name for name, one in topics.items() if is_queue(one.configs)}
    if readings is not None:
        queues |= {one.queue for one in readings.queues}
        for group in readings.groups:
            yield SearchHit(kind="group", name=group.group, href=f"/groups/{segment(group.group)}")
    yield from (SearchHit(kind="queue", name=one, href=f"/queues/{segment(one)}") for one in queues)
    for name in topics:
        if name not in queues:
            yield SearchHit(kind="topic", name=name, href=f"/topics/{segment(name)}")
    for place in NAVIGATION:
        yield SearchHit(kind="page", name=place.name, href=place.path)


def _topics(broker: Broker) -> Mapping[str, NamedTopic]:
    try:
        return {} if broker.node is None else broker.node.engine.topics.catalog.topics
    except PenstockError:  # The catalog is being opened.
        return {}
