"""Looks a queue up to receive from it. Receiving makes none: a name that was mistyped would be a
queue in which nothing ever arrives.

Nodes learn of a new queue a moment after it was made. So a node that knows no queue of the name
does not have the last word: the node that leads the catalog is asked as well.
"""

from difflib import get_close_matches

from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.core.errors import PenstockError, UnknownTopic
from penstock.wire.requests import AskTopics, TopicInfo, TopicRows

NAMES_COMPARED_MAX = 10_000


async def find_queue(router: RequestRouter, name: str, deadline: float) -> TopicInfo:
    """A queue by name, or `UnknownTopic` with a name that exists and a way to make it."""
    try:
        return await router.find(name, NOTHING, deadline)
    except UnknownTopic:
        found = await router.metadata.topic_at_controller(name, router.settings.attempt_timeout)
        if found is not None:
            return found
        hint = await _similar(router, name)
        raise UnknownTopic(
            f"there is no queue {name}{hint}; send something to it, make it by"
            f' client.create_queue("{name}"), or receive with create=True'
        ) from None


async def _similar(router: RequestRouter, name: str) -> str:
    try:
        rows = (await router.ask(AskTopics(), TopicRows)).rows
    except PenstockError:
        return ""
    near = get_close_matches(name, [row.name for row in rows[:NAMES_COMPARED_MAX]], 1)
    return f"; did you mean {near[0]}?" if near else ""
