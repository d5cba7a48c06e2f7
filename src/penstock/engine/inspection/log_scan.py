"""Messages of a log for people who look: found in batches, cut to what fits, and bounded.

A sieve is fed batches in the order of the log, from `first` up to `stop`. Reading onwards it is
full with the first messages that match; reading back, with the last ones, so that a window of the
log can be read onwards although its end is what is wanted. Either way it never holds more messages
or bytes than its limits: browsing must not exhaust a broker.

Values that are too long for a look are cut, never in the middle of a character, and say how long
they were. A batch that cannot be opened counts as messages that say `UNREADABLE`.
"""

from collections import deque

import msgspec

from penstock.core.delivery_headers import UNREADABLE
from penstock.core.errors import InvalidBatch
from penstock.core.log_filter import LogFilter
from penstock.core.message import Header, Message
from penstock.core.message_batches import iter_batches, open_messages
from penstock.core.records import read_header
from penstock.core.types import Offset

HEADER_BYTES_MAX = 4_096
HEADERS_SEEN_MAX = 100
MESSAGE_OVERHEAD_BYTES = 200


class SeenMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message, as much of it as is shown."""

    message: Message
    key_bytes: int
    """The size of the key; -1 if there is none."""
    value_bytes: int
    """The size of the value; -1 if there is none."""
    is_cut: bool
    """True if a part of it is left out."""


class LogScan:
    """A search through a log; feed it, then look at `found` and `next`."""

    def __init__(
        self,
        first: Offset,
        stop: Offset,
        *,
        filter: LogFilter,  # noqa: A002
        messages_max: int,
        bytes_max: int,
        value_bytes: int,
        keeps_last: bool,
    ) -> None:
        self.found: deque[SeenMessage] = deque()
        self.next = first
        """Everything below was looked at."""
        self.is_full = False
        self.bytes = 0
        self.has_dropped = False
        """Messages that match were found and given up for later ones."""
        self._stop = stop
        self._filter = filter
        self._messages_max = messages_max
        self._bytes_max = bytes_max
        self._value_bytes = value_bytes
        self._keeps_last = keeps_last

    def feed(self, data: bytes) -> None:
        """Look at batches that follow what was fed before."""
        for batch in iter_batches(data):
            if self.is_full or self.next >= self._stop:
                return
            if not self._filter.passes_over(batch):
                self._look(batch)
            if not self.is_full:
                after = Offset(read_header(batch).last_offset + 1)
                self.next = min(max(self.next, after), self._stop)

    def _look(self, batch: memoryview) -> None:
        try:
            for message in open_messages(batch)[1]:
                if message.offset >= self._stop or self.is_full:
                    return
                if message.offset >= self.next:
                    self.next = Offset(message.offset + 1)
                    if self._filter.matches(message):
                        self._add(message)
        except InvalidBatch:
            self._add_unreadable(batch)

    def _add_unreadable(self, batch: memoryview) -> None:
        header = read_header(batch)
        offset = Offset(max(self.next, header.base_offset))
        if self._filter.is_empty and offset < self._stop:
            mark = ((UNREADABLE, b"1"),)
            self._add(Message(offset, header.max_timestamp, None, None, mark))
            self.next = Offset(offset + 1)

    def _add(self, message: Message) -> None:
        seen = cut_message(message, self._value_bytes)
        self.found.append(seen)
        self.bytes += shown_bytes(seen)
        over = len(self.found) > self._messages_max or self.bytes > self._bytes_max
        if self._keeps_last:
            while len(self.found) > 1 and over:
                self.has_dropped = True
                self.bytes -= shown_bytes(self.found.popleft())
                over = len(self.found) > self._messages_max or self.bytes > self._bytes_max
        else:
            self.is_full = over or len(self.found) == self._messages_max


def cut_message(message: Message, value_bytes: int) -> SeenMessage:
    """Cut a message to the part that is shown."""
    key = _cut(message.key, HEADER_BYTES_MAX)
    value = _cut(message.value, value_bytes)
    headers: tuple[Header, ...] = tuple(
        (name[:HEADER_BYTES_MAX], _cut(one, HEADER_BYTES_MAX))
        for name, one in message.headers[:HEADERS_SEEN_MAX]
    )
    shown = Message(message.offset, message.timestamp_ms, key, value, headers)
    return SeenMessage(
        message=shown,
        key_bytes=-1 if message.key is None else len(message.key),
        value_bytes=-1 if message.value is None else len(message.value),
        is_cut=shown != message,
    )


def shown_bytes(seen: SeenMessage) -> int:
    """The approximate size of a message in an answer."""
    message = seen.message
    size = MESSAGE_OVERHEAD_BYTES + len(message.value or b"") + len(message.key or b"")
    return size + sum(len(name) + len(value or b"") for name, value in message.headers)


def _cut(data: bytes | None, bytes_max: int) -> bytes | None:
    if data is None or len(data) <= bytes_max:
        return data
    end = bytes_max
    while end > max(0, bytes_max - 4) and data[end] & 0xC0 == 0x80:
        end -= 1  # Not in the middle of a character, if it is a text.
    return data[:end]
