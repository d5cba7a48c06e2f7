"""A part of a publication, on its way from where it is staged to its partition.

Staged batches are copied as they are, but for the producer in their headers: the application's, in
the publication's own epoch, numbered from 0. What the partition remembers of this producer says how
much of the part it has. So a part that was broken off is continued, one that is there is left
alone, and one that comes from a coordinator that was replaced long ago is fenced.

A staged batch belongs to no producer, and says for which partition it was staged where others have
their sequence: what is staged for one partition cannot be published in another.

Nothing here waits, and nothing is appended: that is for the caller (`promotion`, and in simulated
clusters a client), by one rule. A partition accepts a producer that it does not know, or has
forgotten, with any number (KIP-360); so while `is_first`, the first batch must have been
acknowledged before the next is tried. Otherwise the first could be lost, with a leader, and the
second be accepted.
"""

from collections.abc import Callable, Iterator

import msgspec

from penstock.core.errors import InvalidRequest, ProducerFenced, StagingExpired, UnsupportedBatch
from penstock.core.limits import MIB
from penstock.core.message_batches import iter_batches
from penstock.core.records import check_batch, number_batch, read_header, stamp_append_time
from penstock.core.types import NO_PRODUCER, Offset, PartitionId, ProducerId
from penstock.machines.partitions import Partitions
from penstock.machines.producers import Producer
from penstock.machines.publication_commands import PublishedPart

READ_BYTES = 1 * MIB
"""The number of bytes copied at once; a larger batch is copied alone."""

Fetch = Callable[[PartitionId, Offset, int], bytes]
Range = tuple[Offset, Offset]


class Promotion(msgspec.Struct, frozen=True, array_like=True):
    """A part, and the producer that appends it."""

    part: PublishedPart
    producer_id: ProducerId
    epoch: int


class PartCopy:
    """The messages of a part that a partition still lacks, as of the entries applied when this was
    made."""

    def __init__(self, partitions: Partitions, fetch: Fetch, promotion: Promotion) -> None:
        """Raises `ProducerFenced` if the application has gone on to a later publication."""
        part = promotion.part
        known = partitions.producer(part.partition, promotion.producer_id)
        self._promotion = promotion
        self._sequence = records_there(known, promotion.epoch)
        self.is_first = self._sequence == 0
        """The partition has nothing of the part: see the top of this module."""
        left = ranges_after(part.ranges, self._sequence)
        self._pieces = read_staged(partitions, fetch, part, left)

    def next_piece(self, append_time_ms: int | None = None) -> list[bytearray]:
        """The next batches to append, in this order; none when all have been given out."""
        numbered = []
        for stored in next(self._pieces, []):
            batch = bytearray(stored)
            if append_time_ms is not None:
                stamp_append_time(batch, append_time_ms)
            number_batch(
                batch,
                producer_id=self._promotion.producer_id,
                epoch=self._promotion.epoch,
                sequence=self._sequence,
            )
            self._sequence += read_header(batch).record_count
            numbered.append(batch)
        return numbered


def records_there(producer: Producer | None, epoch: int) -> int:
    """The number of messages of a part in a partition, by its record of the producer."""
    if producer is None or producer.epoch < epoch:
        return 0
    if producer.epoch > epoch:
        raise ProducerFenced("a later publication of the application has begun")
    return producer.batches[-1].last_sequence + 1


def ranges_after(ranges: tuple[Range, ...], done: int) -> tuple[Range, ...]:
    """Return the rest of ranges after `done` messages."""
    left = []
    for first, end in ranges:
        skipped = min(done, end - first)
        done -= skipped
        if first + skipped < end:
            left.append((Offset(first + skipped), end))
    return tuple(left)


def mark_staged(batch: bytearray | memoryview, partition: PartitionId) -> None:
    """Make a batch that came from outside one that is staged for a partition, in place."""
    header = check_batch(batch)
    if header.producer_id != NO_PRODUCER:
        raise UnsupportedBatch(
            "a batch that is staged has no producer of its own: set its producer id to -1"
        )
    number_batch(batch, producer_id=NO_PRODUCER, epoch=-1, sequence=partition)


def read_staged(
    partitions: Partitions, fetch: Fetch, part: PublishedPart, ranges: tuple[Range, ...]
) -> Iterator[list[memoryview]]:
    """The staged batches of a part's ranges, in their order, some at a time. Raises what is wrong
    with the ranges when it comes to it."""
    for first, end in ranges:
        position = first
        while position < end:
            found: list[memoryview] = []
            for batch in iter_batches(_read(partitions, fetch, part, position)):
                if position >= end:
                    break
                header = read_header(batch)
                if header.base_offset != position or header.last_offset >= end:
                    raise not_whole(part)
                if header.base_sequence != part.partition:
                    raise foreign(part)
                found.append(batch)
                position = Offset(header.last_offset + 1)
            yield found


def _read(partitions: Partitions, fetch: Fetch, part: PublishedPart, position: Offset) -> bytes:
    if not partitions.holds(part.staging):
        raise expired(part)
    start, end = partitions.bounds(part.staging)
    if not start <= position < end:
        raise expired(part)
    data = fetch(part.staging, position, READ_BYTES)
    if not data:
        raise expired(part)
    return data


def expired(part: PublishedPart) -> StagingExpired:
    """The part, or some of it, is gone."""
    return StagingExpired(
        f"{part.records} messages for partition {part.partition} are not staged any more: they were"
        " published, or staged too long ago; stage them again"
    )


def not_whole(part: PublishedPart) -> InvalidRequest:
    """The ranges of the part are not what was staged."""
    return InvalidRequest(
        f"the ranges to publish in partition {part.partition} do not begin and end"
        " where staged batches do; pass the staged messages unchanged"
    )


def foreign(part: PublishedPart) -> InvalidRequest:
    """Return the error for ranges that were staged for another partition."""
    return InvalidRequest(
        f"the ranges to publish in partition {part.partition} were staged for another partition;"
        " pass the staged messages unchanged"
    )
