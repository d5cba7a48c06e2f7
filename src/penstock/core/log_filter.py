"""A filter of the messages of a log: a message passes if every given condition holds.

Texts match in part, byte by byte and case-sensitively: the same rule as that of a move
(`core.move_filter`). A batch that is not compressed is skipped without being opened if the text
does not occur in its bytes, which makes scanning a log fast enough.
"""

import msgspec

from penstock.core.errors import InvalidRequest
from penstock.core.limits import MOVE_FILTER_CHARACTERS_MAX
from penstock.core.message import Message
from penstock.core.record_bodies import CODEC_MASK
from penstock.core.records import read_header


class LogFilter(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The conditions of a filter; an empty one matches everything."""

    text: str = ""
    """Part of the key, the value, or the name or value of a header."""
    key: str = ""
    value: str = ""
    header: str = ""
    """The name of a header whose value contains `header_value`."""
    header_value: str = ""

    @property
    def is_empty(self) -> bool:
        """True if the filter matches every message."""
        return self == LogFilter()

    def check(self) -> None:
        """Raise InvalidRequest if a text is too long."""
        texts = (self.text, self.key, self.value, self.header, self.header_value)
        if any(len(text) > MOVE_FILTER_CHARACTERS_MAX for text in texts):
            raise InvalidRequest(
                f"a text of a filter has at most {MOVE_FILTER_CHARACTERS_MAX} characters"
            )

    def passes_over(self, batch: memoryview) -> bool:
        """True if no message of this batch can match, judging by its bytes without opening it."""
        if self.is_empty or read_header(batch).attributes & CODEC_MASK:
            return False
        data = bytes(batch)
        texts = (self.text, self.key, self.value, self.header, self.header_value)
        return any(text.encode() not in data for text in texts if text)

    def matches(self, message: Message) -> bool:
        """True if the message matches."""
        if self.key and self.key.encode() not in (message.key or b""):
            return False
        if self.value and self.value.encode() not in (message.value or b""):
            return False
        if self.header and not self._has_header(message):
            return False
        return not self.text or self._has_text(message)

    def _has_header(self, message: Message) -> bool:
        wanted = self.header_value.encode()
        return any(
            name == self.header and wanted in (value or b"") for name, value in message.headers
        )

    def _has_text(self, message: Message) -> bool:
        wanted = self.text.encode()
        return (
            wanted in (message.value or b"")
            or wanted in (message.key or b"")
            or any(self.text in name or wanted in (value or b"") for name, value in message.headers)
        )
