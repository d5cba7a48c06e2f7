"""A message to be sent by hand, begun as a copy of another: mend what was wrong, and send it again.

    /queues/orders?tab=send&copy=orders-dlq:0:17

What a queue had said about the message (how it died, where it came from) is left out: the copy is a
new message. Bytes that are no text cannot be written into a field, and are not offered.
"""

import re

import msgspec

from penstock.core.delivery_headers import PREFIX
from penstock.core.errors import PenstockError
from penstock.core.message import Message
from penstock.core.types import Offset
from penstock.engine.cluster.node import Node
from penstock.web.dashboard.widgets.payloads import SHOWN_BYTES_MAX, read_text

_PLACE = re.compile(r"(.{1,249}):(\d{1,9}):(\d{1,18})")


class Draft(msgspec.Struct, frozen=True, kw_only=True):
    """The initial values of the fields."""

    copy: str = ""
    """The place of the message that it is a copy of."""
    body: str = ""
    key: str = ""
    headers: str = ""
    """The headers as JSON."""
    problem: str = ""


async def draft_of(node: Node, written: str) -> Draft:
    """A copy of the message at a place; empty if none is named."""
    place = _PLACE.fullmatch(written)
    topic = None if place is None else node.engine.topics.catalog.topic(place[1])
    if place is None or topic is None or int(place[2]) >= len(topic.partitions):
        return Draft()
    index, offset = int(place[2]), Offset(int(place[3]))
    try:
        seen = await node.log_queries.looks.look(
            topic, {index: offset}, messages_max=1, value_bytes=SHOWN_BYTES_MAX
        )
    except PenstockError as error:
        return Draft(problem=str(error))
    found = seen.parts[0].messages
    if not found or found[0].message.offset != offset:
        return Draft(problem=f"{written} is not there any more.")
    if found[0].is_cut:
        return Draft(problem=f"{written} is too long to be sent from here.")
    return _copy(written, found[0].message)


def _copy(written: str, message: Message) -> Draft:
    texts = {
        name: read_text(value or b"")
        for name, value in message.headers
        if not name.startswith(PREFIX)
    }
    body, key = read_text(message.value or b""), read_text(message.key or b"")
    if body is None or key is None or None in texts.values():
        return Draft(problem=f"{written} is no text; send it with a program.")
    headers = msgspec.json.encode(texts).decode() if texts else ""
    return Draft(copy=written, body=body, key=key, headers=headers)
