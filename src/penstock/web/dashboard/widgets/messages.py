"""Messages on a page: of a queue, of a dead-letter queue, of a log.

A row has the beginning of a message, and the one that was chosen (`?message=PARTITION:OFFSET`) has
all of it. A dead letter shows where, when and why it died; a message that died and stayed in its
queue is shown as the dead letter that it would become, so that both read alike.
"""

from collections.abc import Iterable

import msgspec

from penstock.core import delivery_headers
from penstock.core.message import Header, Message
from penstock.core.message_states import LEASED
from penstock.core.move_filter import id_of, read_number
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.delivery.requests import BrowsedMessage
from penstock.engine.inspection.log_scan import HEADER_BYTES_MAX, HEADERS_SEEN_MAX
from penstock.web.dashboard.widgets.payloads import Payload, plain, preview, read_text, show_payload
from penstock.web.queue_browser import as_letter

KEY_CHARACTERS = 400
STATE_TONES = {LEASED: "good", "delayed": "attention", "dead": "critical"}


class ShownHeader(msgspec.Struct, frozen=True, kw_only=True):
    name: str
    value: str
    is_ours: bool
    """True if a queue wrote it, or if it is addressed to a queue."""


class ShownMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message, in a row or by itself."""

    topic: str
    partition: int
    offset: int
    place: str
    """PARTITION:OFFSET, which chooses it."""
    id: str
    trace_start: str
    """The place where its trace begins: where it is, or where it died."""
    sent_ms: int
    state: str = ""
    """Of a message of a queue, where it stands."""
    tone: str = ""
    deliveries: int = -1
    first_received_ms: int = -1
    until_ms: int = -1
    """The time when its lease or delay ends."""
    died_ms: int = -1
    died_in: str = ""
    died_group: str = ""
    reason: str = ""
    is_redriven: bool = False
    """True if it was a dead letter before and was redriven."""
    key: str = ""
    has_key: bool = False
    size_bytes: int = 0
    is_empty: bool = False
    """True if it has no body, which deletes the key."""
    preview: str = ""
    payload: Payload | None = None
    headers: list[ShownHeader] = []


def queue_row(topic: Topic, group: str, one: BrowsedMessage) -> ShownMessage:
    """A message of a queue, in a list."""
    letter = as_letter(topic, group, one)
    shown = _shown(topic, one.index, letter)
    is_dead = one.state == "dead"
    deliveries = one.deliveries
    if not is_dead and shown.died_in:
        deliveries = read_number(letter.header(delivery_headers.DEAD_DELIVERIES), one.deliveries)
    return msgspec.structs.replace(
        shown,
        state=one.state,
        tone=STATE_TONES.get(one.state, ""),
        deliveries=deliveries,
        until_ms=-1 if is_dead else one.until_ms,
        first_received_ms=(
            one.first_received_ms
            if one.first_received_ms > 0
            else read_number(letter.header(delivery_headers.DEAD_FIRST_MS), -1)
        ),
    )


def queue_message(topic: Topic, group: str, one: BrowsedMessage, form: str) -> ShownMessage:
    row = queue_row(topic, group, one)
    return msgspec.structs.replace(
        row, payload=show_payload(one.message.value, form), headers=_headers(one.message.headers)
    )


def log_row(topic: Topic, index: int, message: Message, size_bytes: int) -> ShownMessage:
    """A message of a log, in a list."""
    return msgspec.structs.replace(
        _shown(topic, index, message), size_bytes=max(0, size_bytes), is_empty=size_bytes < 0
    )


def log_message(
    topic: Topic, index: int, message: Message, size_bytes: int, form: str
) -> ShownMessage:
    payload = show_payload(message.value, form, size_bytes=size_bytes)
    return msgspec.structs.replace(
        log_row(topic, index, message, size_bytes),
        payload=payload,
        headers=_headers(message.headers),
    )


def parse_message_place(written: str) -> tuple[int, int] | None:
    """PARTITION:OFFSET, or None: what is in an address may be anything."""
    index, _, offset = written.partition(":")
    if all(one.isascii() and one.isdecimal() and len(one) <= 18 for one in (index, offset)):
        return int(index), int(offset)
    return None


def _shown(topic: Topic, index: int, message: Message) -> ShownMessage:
    key, died_in = message.key, _text(message, delivery_headers.DEAD_TOPIC)
    begins = (topic.name, index, message.offset)
    if died_in:
        begins = (
            died_in,
            read_number(message.header(delivery_headers.DEAD_PARTITION), 0),
            Offset(read_number(message.header(delivery_headers.DEAD_OFFSET), 0)),
        )
    return ShownMessage(
        topic=topic.name,
        partition=index,
        offset=message.offset,
        place=f"{index}:{message.offset}",
        id=id_of(topic.topic_id, index, message),
        trace_start=":".join(map(str, begins)),
        sent_ms=read_number(message.header(delivery_headers.SENT_MS), message.timestamp_ms),
        died_ms=read_number(message.header(delivery_headers.DEAD_MS), -1),
        died_in=died_in,
        died_group=_text(message, delivery_headers.DEAD_GROUP),
        reason=_text(message, delivery_headers.DEAD_REASON),
        is_redriven=message.header(delivery_headers.FORMER_ID) is not None,
        key=preview(key, KEY_CHARACTERS),
        has_key=key is not None,
        size_bytes=len(message.value or b""),
        is_empty=message.value is None,
        preview=preview(message.value),
    )


def _headers(headers: Iterable[Header]) -> list[ShownHeader]:
    shown = []
    for name, value in list(headers)[:HEADERS_SEEN_MAX]:
        cut = (value or b"")[:HEADER_BYTES_MAX]
        text = read_text(cut, is_cut=len(cut) < len(value or b""))
        shown.append(
            ShownHeader(
                name=plain(name[:HEADER_BYTES_MAX]),
                value=cut.hex(" ") if text is None else plain(text),
                is_ours=name.startswith(delivery_headers.PREFIX),
            )
        )
    return sorted(shown, key=lambda one: one.is_ours)


def _text(message: Message, header: str) -> str:
    return plain((message.header(header) or b"").decode("utf-8", "replace"))
