"""A task at work: stretches of partitions, fetched from their leaders, as Arrow batches.

One fetch of some MiB is under way while the one before it is decoded. A leader that is lost is
looked for again until `fetchTimeoutMs` has passed; what was read is not read again. What has been
deleted meanwhile, and batches that cannot be decoded, are data loss: see `starting`.

A worker of Spark goes through the garbage after every task, which takes longer than a small task
does; `gc.freeze` keeps what is there when the first task begins, all of it modules, out of that.
"""

import gc
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa

from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RangeReader, RawLog
from penstock.core.errors import InvalidBatch, OffsetOutOfRange, UnknownPartition
from penstock.core.limits import MIB
from penstock.core.types import EARLIEST
from penstock.spark.connections import client_of, run
from penstock.spark.reading.decoder import Decoder, StoredHead
from penstock.spark.reading.ranges import Stretch
from penstock.spark.reading.read_options import ReadOptions
from penstock.spark.reading.start_offsets import deleted, lost

FETCH_BYTES: Final = 4 * MIB
"""Of one answer; about two of them are in memory."""

_frozen = False


def read_stretches(
    stretches: Sequence[Stretch], schema: pa.Schema, options: ReadOptions
) -> Iterator[pa.RecordBatch]:
    """All messages of these stretches, in order."""
    _freeze()
    raw = client_of(options.address).raw_log()
    for stretch in stretches:
        part = TopicPartition(stretch.topic, stretch.partition)
        reader = raw.read(
            part,
            stretch.start,
            stretch.end,
            topic_id=stretch.topic_id,
            bytes_max=FETCH_BYTES,
            timeout=options.fetch_seconds,
        )
        try:
            yield from _StretchReading(raw, reader, part, stretch, options, schema).batches()
        finally:
            run(reader.close())


class _StretchReading:
    """The state of a reader between two fetches of the same stretch."""

    def __init__(
        self,
        raw: RawLog,
        reader: RangeReader,
        part: TopicPartition,
        stretch: Stretch,
        options: ReadOptions,
        schema: pa.Schema,
    ) -> None:
        self._raw = raw
        self._reader = reader
        self._part = part
        self._stretch = stretch
        self._options = options
        self._decoder = Decoder(schema, stretch.topic, stretch.partition)

    def batches(self) -> Iterator[pa.RecordBatch]:
        start, end = self._stretch.start, self._stretch.end
        while (data := self._next()) is not None:
            yield from self._decoder.decode(data, start, end, self._on_bad)

    def _next(self) -> memoryview | None:
        """The next batches; None at the end."""
        while True:
            try:
                return run(self._reader.next())
            except OffsetOutOfRange:
                self._go_on()
            except UnknownPartition as error:
                lost(self._options, f"{self._part.topic} cannot be read any more ({error})")
                return None

    def _go_on(self) -> None:
        """Continue after deleted records, at the start of the log."""
        part, position = self._part, self._reader.position
        found = run(self._raw.find_offsets({part: EARLIEST}))[part]
        if found <= position:
            raise OffsetOutOfRange(
                f"partition {part.partition} of {part.topic} has no message {position} yet: it was"
                " there when the read began"
            )
        deleted(self._options, part, position, min(found, self._stretch.end))
        run(self._reader.move(found))

    def _on_bad(self, head: StoredHead, error: InvalidBatch) -> None:
        part = self._part
        lost(
            self._options,
            f"the messages {head.base_offset} to {head.end_offset - 1} of partition"
            f" {part.partition} of {part.topic} cannot be decoded ({error})",
        )


def _freeze() -> None:
    """Freeze existing objects for the garbage collector, once per process."""
    global _frozen  # noqa: PLW0603 - one per process is the point.
    if not _frozen:
        _frozen = True
        gc.collect()
        gc.freeze()
