"""What a native client may ask about the log itself, and what it is answered.

    Fetch        batches of several partitions     → Fetched     payload: the batches as stored
    AskOffsets   where a log starts and ends, or
                 which message a time falls on      → OffsetsFound

Both go to the node that leads the partitions. One partition's error is in its row and keeps
no other from being served; rows are in the order of the request.
"""

from typing import Final

import msgspec

from penstock.wire.failures import Described
from penstock.wire.requests import Answer, Request

NO_OFFSET: Final = -1
"""Of a partition that could not be looked at."""

FETCH_PARTS_MAX: Final = 1_000
"""Of one request; a reader of more partitions of one node asks twice."""


class FetchPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition, and from where it is to be read."""

    topic_id: bytes
    index: int
    offset: int


class Fetch(Request, frozen=True, tag="fetch"):
    """Batches from these offsets on, as far as they fit; at least one, if there is any. Waits so
    long for the first message, and not at all once a partition has something to say."""

    parts: tuple[FetchPart, ...]
    bytes_max: int
    wait_ms: int = 0


class FetchedPart(msgspec.Struct, frozen=True, array_like=True):
    """One partition's row: its batches are the next `size` bytes of the payload. The first of them
    may begin before the offset. Bounds are -1 if the partition could not be looked at."""

    topic_id: bytes
    index: int
    log_start: int
    high_watermark: int
    size: int
    failure: Described | None = None


class Fetched(Answer, frozen=True, tag="fetch"):
    """A row for every partition that was asked for."""

    parts: tuple[FetchedPart, ...]


class AskOffset(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """One partition, and a time in milliseconds, `LATEST` or `EARLIEST`."""

    topic_id: bytes
    index: int
    time_ms: int


class AskOffsets(Request, frozen=True, tag="offsets"):
    """Where to read from. The end of a log is answered after a majority has confirmed that the node
    still leads: it includes everything that was acknowledged before."""

    parts: tuple[AskOffset, ...]


class OffsetFound(msgspec.Struct, frozen=True, array_like=True):
    """The first message as late as the time, exactly; the end of the log if all are earlier."""

    topic_id: bytes
    index: int
    offset: int
    time_ms: int = -1
    """Of the message; -1 for the ends of the log, where there may be none."""
    failure: Described | None = None


class OffsetsFound(Answer, frozen=True, tag="offsets"):
    """A row for every partition that was asked for."""

    parts: tuple[OffsetFound, ...]
