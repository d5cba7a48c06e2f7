"""What clients did and saw, and the promises that must hold of it.

Every batch carries a unique value. A send is `ok` (acknowledged with an offset), `failed`
(certainly did not happen) or `unknown`; an unclear answer is never counted as failed. Reads are
checked when they happen, against all other reads; at the end every partition is read from its
start on every node.
"""

import struct
from dataclasses import dataclass, field
from enum import Enum

from crc32c import crc32c

from penstock.core.records import BATCH_HEADER_BYTES, read_header
from penstock.core.types import NO_PRODUCER
from tests.simulation.checkers import broken

_TAIL = struct.Struct(">hiqqqhii")
_HEAD = struct.Struct(">qiibI")
_RECORD_BYTES = 8


class Outcome(Enum):
    OPEN = "open"
    OK = "ok"
    FAILED = "failed"
    UNKNOWN = "unknown"


@dataclass(slots=True)
class Send:
    """One batch a client wants to have in a partition."""

    value: bytes
    partition: int
    count: int
    idempotent: bool
    outcome: Outcome = Outcome.OPEN
    offset: int = -1


@dataclass(slots=True)
class PartitionHistory:
    """What is known of one partition."""

    values: dict[int, bytes] = field(default_factory=dict)
    """Offset -> value, from reads and acknowledgements."""
    offsets: dict[bytes, int] = field(default_factory=dict)
    acked_end: int = 0
    trimmed_to: int = 0
    """The highest log start anybody asked for."""


def build_batch(
    value: bytes, count: int, timestamp: int, producer: int, epoch: int, sequence: int
) -> bytearray:
    """A record batch with a true header; the body is the value, which nobody decodes."""
    body = value.ljust(count * _RECORD_BYTES, b".")
    tail = _TAIL.pack(0, count - 1, timestamp, timestamp, producer, epoch, sequence, count) + body
    length = BATCH_HEADER_BYTES - 12 + len(body)
    return bytearray(_HEAD.pack(0, length, -1, 2, crc32c(tail)) + tail)


class History:
    """All sends, all reads."""

    def __init__(self) -> None:
        self.sends: dict[bytes, Send] = {}
        self.partitions: dict[int, PartitionHistory] = {}
        self.barriers = 0
        self.reads = 0

    def partition(self, number: int) -> PartitionHistory:
        return self.partitions.setdefault(number, PartitionHistory())

    def begin(self, send: Send) -> None:
        assert send.value not in self.sends, f"{send.value!r} is sent twice"
        self.sends[send.value] = send

    def acknowledged(self, send: Send, offset: int) -> None:
        if send.outcome is Outcome.OK and send.offset != offset:
            raise broken("OneOffset", f"{send} is acknowledged again at {offset}")
        send.outcome, send.offset = Outcome.OK, offset
        partition = self.partition(send.partition)
        partition.acked_end = max(partition.acked_end, offset + send.count)
        self._saw(send.partition, offset, send.value)

    def saw_bytes(
        self, number: int, data: bytes, wanted: int, into: dict[int, bytes] | None = None
    ) -> int:
        """Check batches that were read; returns the offset after the last one."""
        position, expected = 0, -1
        while position < len(data):
            header = read_header(data, position)
            if expected >= 0 and header.base_offset != expected:
                raise broken("DenseOffsets", f"partition {number} skips to {header.base_offset}")
            if expected < 0 and not header.base_offset <= wanted <= header.last_offset:
                raise broken("RightBatch", f"{wanted} asked, {header.base_offset} read")
            body = data[position + BATCH_HEADER_BYTES : position + header.size]
            value = body.rstrip(b".")
            self._saw(number, header.base_offset, value)
            if into is not None:
                into[header.base_offset] = value
            position += header.size
            expected = header.base_offset + header.record_count
            self.reads += 1
        return expected

    def _saw(self, number: int, offset: int, value: bytes) -> None:
        partition = self.partition(number)
        if partition.values.setdefault(offset, value) != value:
            raise broken(
                "OneValuePerOffset", f"{number}@{offset}: {value!r}, {partition.values[offset]!r}"
            )
        send = self.sends.get(value)
        if send is None or send.partition != number:
            raise broken("NothingFromNowhere", f"{value!r} read in partition {number}")
        if send.outcome is Outcome.FAILED:
            raise broken("FailedMeansNot", f"{send} failed and was read at {offset}")
        if partition.offsets.setdefault(value, offset) != offset and send.idempotent:
            raise broken("ExactlyOnce", f"{send} is at {partition.offsets[value]} and at {offset}")

    def saw_bounds(self, number: int, log_start: int, high_watermark: int, acked_end: int) -> None:
        """A read behind a barrier sees everything acknowledged before the barrier was asked for."""
        self.barriers += 1
        if high_watermark < acked_end:
            raise broken(
                "LinearizableRead",
                f"partition {number} ends at {high_watermark}, {acked_end} was acknowledged before",
            )
        if log_start > self.partition(number).trimmed_to:
            raise broken("NobodyTrimmed", f"partition {number} starts at {log_start} unasked")

    def check_final(self, number: int, log_start: int, seen: dict[int, bytes]) -> None:
        """`seen` is the whole partition as read at the end: nothing acknowledged may be missing."""
        for send in self.sends.values():
            if send.partition != number or send.outcome is not Outcome.OK:
                continue
            if send.offset >= log_start and seen.get(send.offset) != send.value:
                raise broken("NothingLost", f"{send} is not there at the end")


NOT_IDEMPOTENT = NO_PRODUCER
