"""The requests of native clients about the log itself, and their answers.

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
"""The bounds of a partition that could not be read."""

FETCH_PARTS_MAX: Final = 1_000
"""The partitions in one request; a reader of more partitions of one node sends two requests."""


class FetchPart(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """A partition and the offset to read from."""

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
    """A row of one partition: its batches are the next `size` bytes of the payload. The first batch
    may begin before the requested offset. Bounds are -1 if the partition could not be read."""

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
    """A partition, and a time in milliseconds, `LATEST` or `EARLIEST`."""

    topic_id: bytes
    index: int
    time_ms: int


class AskOffsets(Request, frozen=True, tag="offsets"):
    """Requests offsets. The end of a log is answered after a majority has confirmed that the node
    still leads, so it includes everything that was acknowledged before."""

    parts: tuple[AskOffset, ...]


class OffsetFound(msgspec.Struct, frozen=True, array_like=True):
    """The first message as late as the time, exactly; the end of the log if all are earlier."""

    topic_id: bytes
    index: int
    offset: int
    time_ms: int = -1
    """The time of the message; -1 for the ends of the log, where there may be none."""
    failure: Described | None = None


class OffsetsFound(Answer, frozen=True, tag="offsets"):
    """A row for every partition that was asked for."""

    parts: tuple[OffsetFound, ...]
