"""A record: one message of a log, as a reader gets it. Reading does not exclude other readers.

Its parts are made when they are asked for: a reader of a hundred thousand messages a second rarely
wants the headers of each.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager
from datetime import UTC, datetime, timedelta
from typing import Any, Generic, TypeVar, cast

from penstock.client.codecs import Codec
from penstock.client.dead_letter import DeadLetter, dead_letter_of
from penstock.client.reader.positions import TopicPartition
from penstock.client.tracer import ANYBODYS
from penstock.core.delivery_headers import MESSAGE_ID, PREFIX
from penstock.core.message import Header, Message
from penstock.core.message_id import message_id
from penstock.core.types import TopicId

T = TypeVar("T")

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_UNREAD = object()


class Record(Generic[T]):
    """A message with its place: topic, partition and offset."""

    __slots__ = ("_body", "_codec", "_message", "_topic_id", "partition", "topic")

    def __init__(
        self, topic: str, topic_id: bytes, partition: int, message: Message, codec: Codec[T]
    ) -> None:
        self.topic = topic
        self.partition = partition
        self._topic_id = topic_id
        self._message = message
        self._codec = codec
        self._body: object = _UNREAD

    def __repr__(self) -> str:
        return f"Record({self.topic}:{self.partition}:{self.offset}, {len(self.raw)} bytes)"

    @property
    def offset(self) -> int:
        """Its offset in the partition, from 0."""
        return self._message.offset

    @property
    def place(self) -> TopicPartition:
        """The topic and partition it is in."""
        return TopicPartition(self.topic, self.partition)

    @property
    def id(self) -> str:
        """The message id: the same for every reader, at any time."""
        moved = self._message.header(MESSAGE_ID)
        if moved is not None:
            return moved.decode(errors="replace")
        return message_id(TopicId(self._topic_id), self.partition, self._message.offset)

    @property
    def key(self) -> bytes | None:
        """The key, which chooses the partition: messages of one key are in order."""
        return self._message.key

    @property
    def raw(self) -> bytes:
        """The bytes of the body; none at all for a tombstone."""
        return self._message.value or b""

    @property
    def is_tombstone(self) -> bool:
        """True if it has no body: on a compacted topic it deletes its key. Its `body` is None."""
        return self._message.value is None

    @property
    def body(self) -> T:
        """The body, decoded; `InvalidBody` if the codec cannot."""
        if self._body is _UNREAD:
            value = self._message.value
            self._body = None if value is None else self._codec.decode(value, self._message.headers)
        return cast(T, self._body)

    @property
    def headers(self) -> Mapping[str, bytes | None]:
        """The headers, but for those that say how Penstock handles the message; of several of one
        name the last."""
        return {name: value for name, value in self._message.headers if not name.startswith(PREFIX)}

    def processing(self) -> AbstractContextManager[None]:
        """`with record.processing():` around the work on it makes a span of OpenTelemetry, of the
        trace that the message was sent in. Without an SDK it does nothing."""
        return ANYBODYS.processing(self)

    @property
    def dead_letter(self) -> DeadLetter | None:
        """The place, time and reason of its death, if it is in a dead-letter queue."""
        return dead_letter_of(self._message.headers)

    @property
    def timestamp_ms(self) -> int:
        """The time when it was sent, by the sender's clock, or when it was appended, as the topic
        is configured."""
        return self._message.timestamp_ms

    @property
    def sent_at(self) -> datetime:
        """`timestamp_ms` as a datetime."""
        return _EPOCH + timedelta(milliseconds=self._message.timestamp_ms)


def rows_of(record: Record[Any]) -> tuple[Header, ...]:
    """All headers as they are stored, also of one name, and those of Penstock's own."""
    return record._message.headers  # noqa: SLF001 - of this module's own class.
