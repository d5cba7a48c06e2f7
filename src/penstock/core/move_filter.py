"""A filter of the messages that a move takes: a message passes if every given condition holds.

Conditions are those of a search through a dead-letter queue: why a message died, where, when, and
its content. Texts match in part, byte by byte and case-sensitively.
"""

from functools import cached_property

import msgspec

from penstock.core.delivery_headers import DEAD_GROUP, DEAD_MS, DEAD_REASON, DEAD_TOPIC, MESSAGE_ID
from penstock.core.errors import InvalidRequest
from penstock.core.limits import MOVE_FILTER_CHARACTERS_MAX, MOVE_FILTER_PLACES_MAX
from penstock.core.message import Message
from penstock.core.message_id import message_id
from penstock.core.types import Offset, TopicId

_DIGITS_MAX = 19


class MoveFilter(
    msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True, dict=True
):
    """The conditions of a filter; one that is empty or -1 matches everything. The order of fields
    is on disk."""

    reason: str = ""
    """Part of the reason that a message died for."""
    topic: str = ""
    """The topic it died in."""
    group: str = ""
    """The work group it died in."""
    from_ms: int = -1
    """The earliest time of its death; for a message that is not dead, of sending."""
    until_ms: int = -1
    """The end of that interval, exclusive."""
    ids: tuple[str, ...] = ()
    """The accepted ids (see `core.message_id`); any if empty."""
    places: tuple[tuple[int, Offset], ...] = ()
    """The accepted places, each a partition's index and an offset; any if empty."""
    key: str = ""
    """Part of its key."""
    header: str = ""
    """The name of a header whose value contains `header_value`."""
    header_value: str = ""
    body: str = ""
    """Part of its value."""

    @cached_property
    def _ids(self) -> frozenset[str]:
        return frozenset(self.ids)

    @cached_property
    def _places(self) -> frozenset[tuple[int, Offset]]:
        return frozenset(self.places)

    def check(self) -> None:
        """Raise InvalidRequest if a text is too long to be stored."""
        texts = (self.reason, self.topic, self.group, self.key, self.header, self.header_value)
        if any(len(text) > MOVE_FILTER_CHARACTERS_MAX for text in (*texts, self.body, *self.ids)):
            raise InvalidRequest(
                f"a text of a filter has at most {MOVE_FILTER_CHARACTERS_MAX} characters"
            )
        if len(self.ids) + len(self.places) > MOVE_FILTER_PLACES_MAX:
            raise InvalidRequest(
                f"a filter names at most {MOVE_FILTER_PLACES_MAX} messages one by one; use a"
                " condition that they share, or several moves"
            )

    def matches(self, topic_id: TopicId, index: int, message: Message) -> bool:
        """True if a message of this partition matches."""
        return (
            (not self.places or (index, message.offset) in self._places)
            and (not self.topic or _text(message, DEAD_TOPIC) == self.topic)
            and (not self.group or _text(message, DEAD_GROUP) == self.group)
            and self.reason in _text(message, DEAD_REASON)
            and self._in_time(message)
            and (not self.ids or id_of(topic_id, index, message) in self._ids)
            and self._in_content(message)
        )

    def span(self, index: int, end: Offset) -> tuple[Offset, Offset]:
        """The offsets of a partition among which such messages can be, given where it ends."""
        if not self.places:
            return Offset(0), end
        offsets = [offset for number, offset in self.places if number == index]
        if not offsets:
            return Offset(0), Offset(0)
        return min(offsets), min(end, Offset(max(offsets) + 1))

    def _in_time(self, message: Message) -> bool:
        if self.from_ms < 0 and self.until_ms < 0:
            return True
        time_ms = read_number(message.header(DEAD_MS), message.timestamp_ms)
        return time_ms >= self.from_ms and (self.until_ms < 0 or time_ms < self.until_ms)

    def _in_content(self, message: Message) -> bool:
        if self.key and self.key.encode() not in (message.key or b""):
            return False
        if self.body and self.body.encode() not in (message.value or b""):
            return False
        if not self.header:
            return True
        wanted = self.header_value.encode()
        return any(
            name == self.header and wanted in (value or b"") for name, value in message.headers
        )


EVERYTHING = MoveFilter()


def id_of(topic_id: TopicId, index: int, message: Message) -> str:
    """The id that a message shows: the one it had before it was moved, or that of its place."""
    return _text(message, MESSAGE_ID) or message_id(topic_id, index, message.offset)


def read_number(value: bytes | None, otherwise: int) -> int:
    """The number that a header says, if it says one: every client can write headers."""
    return int(value) if value and len(value) <= _DIGITS_MAX and value.isdigit() else otherwise


def _text(message: Message, header: str) -> str:
    value = message.header(header)
    return value.decode("utf-8", "replace") if value is not None else ""
