"""The copy of a message that is moved to another queue.

It is a new message: its content stays, but its instructions to the queue that it came from do not,
because a delay or a deduplication id has done its work. Group and priority stay.

A move sends a copy and then removes the original, in two shards; the mover may die in between, and
its successor repeats the move. So the copy names its origin in one text, and a queue that has seen
that text recently drops a second copy:

    penstock-origin    topic id in hex:partition:offset:work group:life

A message may be moved the same way twice on purpose: it was delivered again, or its queue was
reset. Its life is a time that is the same for every repetition of one move, and another for the
next: when it died, or when it was first received.

    to the dead letters    id and time of sending stay, headers say how it died. In a FIFO queue the
                           deduplication id is the message's id, and the retention begins anew
    out of them            with a new id and a new time, as if it had just been sent; a header
                           has its first id
"""

import msgspec

from penstock.core import delivery_headers
from penstock.core.message import Header, Message, NewMessage
from penstock.core.move_filter import id_of, read_number
from penstock.core.types import Offset, TopicId

_DONE = frozenset({
    delivery_headers.DELAY,
    delivery_headers.DELIVER_AT,
    delivery_headers.TTL,
    delivery_headers.EXPIRE_AT,
    delivery_headers.DEDUP_ID,
    delivery_headers.ORIGIN,
})  # fmt: skip
_DEATH = frozenset({
    delivery_headers.DEAD_TOPIC,
    delivery_headers.DEAD_PARTITION,
    delivery_headers.DEAD_OFFSET,
    delivery_headers.DEAD_GROUP,
    delivery_headers.DEAD_REASON,
    delivery_headers.DEAD_DELIVERIES,
    delivery_headers.DEAD_FIRST_MS,
    delivery_headers.DEAD_MS,
})  # fmt: skip
_IDENTITY = frozenset({delivery_headers.MESSAGE_ID, delivery_headers.SENT_MS})


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """The place, time and reason of a message's death."""

    topic: str
    topic_id: TopicId
    index: int
    group: str
    deliveries: int
    first_received_ms: int
    died_ms: int
    reason: str


def origin(topic_id: TopicId, index: int, offset: Offset, group: str, life: int) -> str:
    """An identifier of one life of one message in one work group."""
    return f"{topic_id.hex()}:{index}:{offset}:{group}:{life}"


def dead_letter(message: Message, death: Death, *, fifo: bool = False) -> NewMessage:
    """The copy for the dead-letter queue, which may be a FIFO queue."""
    place = (death.topic_id, death.index)
    said = {
        delivery_headers.ORIGIN: origin(*place, message.offset, death.group, death.died_ms),
        delivery_headers.DEAD_TOPIC: death.topic,
        delivery_headers.DEAD_PARTITION: str(death.index),
        delivery_headers.DEAD_OFFSET: str(message.offset),
        delivery_headers.DEAD_GROUP: death.group,
        delivery_headers.DEAD_REASON: death.reason,
        delivery_headers.DEAD_DELIVERIES: str(death.deliveries),
        delivery_headers.DEAD_FIRST_MS: str(death.first_received_ms),
        delivery_headers.DEAD_MS: str(death.died_ms),
    }
    known_as = id_of(*place, message)
    if message.header(delivery_headers.MESSAGE_ID) is None:
        said[delivery_headers.MESSAGE_ID] = known_as
    if fifo:  # It is there to be read: what has an origin is not compared by its id.
        said[delivery_headers.DEDUP_ID] = known_as
    if message.header(delivery_headers.SENT_MS) is None:
        said[delivery_headers.SENT_MS] = str(message.timestamp_ms)
    kept = _without(message, _DONE | _DEATH)
    sent_ms = -1 if fifo else message.timestamp_ms
    return NewMessage(message.value, message.key, kept + _headers(said), sent_ms)


def redriven(message: Message, origin: str, known_as: str) -> NewMessage:
    """The copy for the queue that a dead letter goes back to, or on to; `known_as` is its id."""
    kept = _without(message, _DONE | _DEATH | _IDENTITY)
    said = {delivery_headers.ORIGIN: origin}
    if message.header(delivery_headers.FORMER_ID) is None:
        said[delivery_headers.FORMER_ID] = known_as
    if message.header(delivery_headers.DEDUP_ID) is not None:
        said[delivery_headers.DEDUP_ID] = known_as
    return NewMessage(message.value, message.key, kept + _headers(said))


def died_in(message: Message) -> tuple[str, int] | None:
    """The topic that a dead letter came from, and the index of its partition there; -1 if the
    letter does not say."""
    topic = message.header(delivery_headers.DEAD_TOPIC)
    if not topic:
        return None
    return topic.decode("utf-8", "replace"), read_number(
        message.header(delivery_headers.DEAD_PARTITION), -1
    )


def _without(message: Message, names: frozenset[str]) -> tuple[Header, ...]:
    return tuple(one for one in message.headers if one[0] not in names)


def _headers(said: dict[str, str]) -> tuple[Header, ...]:
    return tuple((name, value.encode()) for name, value in said.items())
