"""What a message becomes when it is moved to another queue.

It is a new message: its content stays, but its instructions to the queue that it came from do not,
because a delay or a deduplication id has done its work. Group and priority stay.

A move sends a copy and then removes the original, in two shards; the mover may die in between, and
its successor repeats the move. So the copy names its origin in one text, and a queue that has seen
that text recently drops a second copy:

    penstock-origin    topic id in hex:partition:offset:work group:life

A message may be moved the same way twice on purpose: it was delivered again, or its queue was
reset. Its life is a time that is the same for every repetition of one move, and another for the
next: when it died, or when it was first received.

    to the dead letters    id and time of sending stay, headers say how it died
    out of them            with a new id and a new time, as if it had just been sent; a header
                           has its first id
"""

import msgspec

from penstock.core import delivery_headers as card
from penstock.core.message import Header, Message, NewMessage
from penstock.core.move_filter import id_of, read_number
from penstock.core.types import Offset, TopicId

_DONE = frozenset({
    card.DELAY,
    card.DELIVER_AT,
    card.TTL,
    card.EXPIRE_AT,
    card.DEDUP_ID,
    card.ORIGIN,
})  # fmt: skip
_DEATH = frozenset({
    card.DEAD_TOPIC,
    card.DEAD_PARTITION,
    card.DEAD_OFFSET,
    card.DEAD_GROUP,
    card.DEAD_REASON,
    card.DEAD_DELIVERIES,
    card.DEAD_FIRST_MS,
    card.DEAD_MS,
})  # fmt: skip
_IDENTITY = frozenset({card.MESSAGE_ID, card.SENT_MS})


class Death(msgspec.Struct, frozen=True, kw_only=True):
    """Where, when and why a message died."""

    topic: str
    topic_id: TopicId
    index: int
    group: str
    deliveries: int
    first_received_ms: int
    died_ms: int
    reason: str


def origin(topic_id: TopicId, index: int, offset: Offset, group: str, life: int) -> str:
    """One life of one message in one work group."""
    return f"{topic_id.hex()}:{index}:{offset}:{group}:{life}"


def dead_letter(message: Message, death: Death) -> NewMessage:
    """The copy for the dead-letter queue."""
    place = (death.topic_id, death.index)
    said = {
        card.ORIGIN: origin(*place, message.offset, death.group, death.died_ms),
        card.DEAD_TOPIC: death.topic,
        card.DEAD_PARTITION: str(death.index),
        card.DEAD_OFFSET: str(message.offset),
        card.DEAD_GROUP: death.group,
        card.DEAD_REASON: death.reason,
        card.DEAD_DELIVERIES: str(death.deliveries),
        card.DEAD_FIRST_MS: str(death.first_received_ms),
        card.DEAD_MS: str(death.died_ms),
    }
    if message.header(card.MESSAGE_ID) is None:
        said[card.MESSAGE_ID] = id_of(*place, message)
    if message.header(card.SENT_MS) is None:
        said[card.SENT_MS] = str(message.timestamp_ms)
    kept = _without(message, _DONE | _DEATH)
    return NewMessage(message.value, message.key, kept + _headers(said), message.timestamp_ms)


def redriven(message: Message, origin: str, known_as: str) -> NewMessage:
    """The copy for the queue that a dead letter goes back to, or on to; `known_as` is its id."""
    kept = _without(message, _DONE | _DEATH | _IDENTITY)
    said = {card.ORIGIN: origin}
    if message.header(card.FORMER_ID) is None:
        said[card.FORMER_ID] = known_as
    return NewMessage(message.value, message.key, kept + _headers(said))


def died_in(message: Message) -> tuple[str, int] | None:
    """The topic that a dead letter came from, and the index of its partition there; -1 if the
    letter does not say."""
    topic = message.header(card.DEAD_TOPIC)
    if not topic:
        return None
    return topic.decode("utf-8", "replace"), read_number(message.header(card.DEAD_PARTITION), -1)


def _without(message: Message, names: frozenset[str]) -> tuple[Header, ...]:
    return tuple(one for one in message.headers if one[0] not in names)


def _headers(said: dict[str, str]) -> tuple[Header, ...]:
    return tuple((name, value.encode()) for name, value in said.items())
