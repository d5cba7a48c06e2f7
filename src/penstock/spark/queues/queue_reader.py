"""A queue as a source: `option("queue", "orders")`, and `option("workGroup", …)` for another group.

A queue is a view of a log. A stream reads that log by offset, from where its work group has
something left to do, and tells the work group afterwards what it has finished (`settling`). So a
micro-batch can be read again, which no leased message can, and workers, `penstock queue` and every
other face of the queue see what the stream has done as if a worker had done it.

Rules that hold here:

- The stream's work group is the stream's. Another group's workers are not concerned; workers of the
  same group lose what they have leased when the stream settles it.
- A message that waits for its time (a delay, or a retry) is not read before. It holds up those
  behind it in its partition: an offset cannot come back for it. While a queue is paused, nothing is
  read.
- What the group is done with at the front of a partition is passed over. Further back everything in
  the log is read, also what has expired or is a duplicate: a log has both.
- Dead messages that are delivered anew in place (`penstock redrive`) are read again, in the next
  micro-batch. So is everything that lies ahead of a group that was turned back.
- Partitions that are added are read from their beginning.
- A queue that deletes what is done may delete rows that were buried while their batch still runs,
  or before it is run again. They are dead, and are not missed.

    option             means
    queue              its name
    workGroup          "queue", the one that all workers share who name none
    startingOffsets    where a work group begins that has never been there: earliest or latest
    maxOffsetsPerTrigger, minPartitions, maxRecordsPerPartition, failOnDataLoss, includeHeaders,
    fetchTimeoutMs     as for a topic

A batch read is what the group has left to do and could be handed out now. It settles nothing.
"""

import secrets
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.client.client import Client
from penstock.client.worker.cumulative_ack import Beginning, WorkStanding
from penstock.core.errors import InvalidRequest, UnknownWork
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.spark.connections import client_of, run
from penstock.spark.identity import tell_queue
from penstock.spark.queues.queue_batch import QueueBatch, read_batch
from penstock.spark.queues.queue_columns import QueueColumns
from penstock.spark.queues.settlement import settle
from penstock.spark.reading.fetcher import read_stretches
from penstock.spark.reading.ranges import Stretch, split
from penstock.spark.reading.read_options import ReadOptions, read_options

LOOK_SECONDS: Final = 0.1
"""An idle stream asks no more often."""
Ranges = tuple[tuple[int, int], ...]
_ELSEWHERE: Final = (
    "subscribe", "subscribePattern", "assign", "endingOffsets", "startingTimestamp",
    "endingTimestamp", "startingOffsetsByTimestamp", "endingOffsetsByTimestamp",
    "startingOffsetsByTimestampStrategy", "minOffsetsPerTrigger", "maxTriggerDelay",
    "maxBytesPerTrigger", "pushFilters",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueOptions:
    """The validated options of a read; they are sent to the tasks."""

    queue: str
    group: str
    beginning: Beginning
    reading: ReadOptions

    @property
    def client(self) -> Client:
        """The client of this process."""
        return client_of(self.reading.address)


def queue_options(given: Mapping[str, str], *, is_stream: bool) -> QueueOptions:
    """Check everything that can be checked without asking a broker."""
    options = {name.lower(): value for name, value in given.items()}
    for name in _ELSEWHERE:
        if name.lower() in options:
            raise InvalidRequest(
                f"{name} is for topics: a queue is read from where its work group stands, message"
                " by message. Leave it out, or read the log with subscribe"
            )
    queue = options.pop("queue", "").strip()
    group = options.pop("workgroup", DEFAULT_WORK_GROUP).strip()
    if not queue or "," in queue:
        raise InvalidRequest(f'queue is {queue!r}: name one queue, as in "orders"')
    if not group:
        raise InvalidRequest(
            "workGroup is empty: leave it out for the group that all workers share"
        )
    start = options.pop("startingoffsets", "earliest").strip().lower()
    if start not in ("earliest", "latest"):
        raise InvalidRequest(
            f"startingOffsets is {start!r}: the work group of a queue begins at earliest or latest"
        )
    beginning: Beginning = "latest" if start == "latest" else "earliest"
    reading = read_options({**options, "subscribe": queue}, is_stream=is_stream)
    return QueueOptions(queue=queue, group=group, beginning=beginning, reading=reading)


class QueueTask(InputPartition):
    """Stretches of leased messages that one Spark task reads."""

    def __init__(self, stretches: tuple[Stretch, ...], *, fifo: bool, deletes: bool) -> None:
        super().__init__(None)
        self.stretches = stretches
        self.fifo = fifo
        self.deletes = deletes
        """True if acknowledged messages are deleted, which may include rows that became dead
        letters while others are read."""

    def __repr__(self) -> str:
        parts = (f"{one.topic}:{one.partition}:{one.start}-{one.end}" for one in self.stretches)
        return f"QueueTask({', '.join(parts)})"


class _Reading:
    """The common part of both readers: columns, tasks, and the positions of the work group."""

    def __init__(self, schema: StructType, options: QueueOptions) -> None:
        self._columns = QueueColumns(schema)
        self._options = options

    def tasks(self, ranges: Sequence[tuple[int, tuple[int, int]]]) -> list[InputPartition]:
        """Tasks that read these ranges."""
        options = self._options
        topic = run(options.client.describe_topic(options.queue))
        topic_id = bytes.fromhex(topic.id)
        deletes = topic.configs.get("queue.delete.acked") == "true"
        stretches = []
        for index, (first, end) in ranges:
            there = topic.partitions[index].start if deletes else 0
            if there < end:
                start = max(first, there)
                stretches.append(Stretch(options.queue, index, start, end, topic_id))
        parts = split(
            stretches,
            partitions_min=options.reading.partitions_min,
            records_max=options.reading.records_max,
        )
        fifo = topic.configs.get("queue.order") == "fifo"
        return [QueueTask(part, fifo=fifo, deletes=deletes) for part in parts or [()]]

    def rows(self, task: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(task, QueueTask)
        columns, options = self._columns, self._options.reading
        if task.deletes:
            options = replace(options, fail_on_data_loss=False)
        for batch in read_stretches(task.stretches, columns.decoded, options):
            yield columns.complete(batch, fifo=task.fifo)

    def look(
        self, positions: Mapping[int, int], beginning: Beginning = "earliest"
    ) -> dict[int, WorkStanding]:
        """Return the positions of the work group; start the group on partitions that are new to
        it."""
        options = self._options
        return run(_look(options.client, options, positions, beginning))


async def _look(
    client: Client, options: QueueOptions, positions: Mapping[int, int], beginning: Beginning
) -> dict[int, WorkStanding]:
    queue = client.queue(options.queue, group=options.group)
    try:
        return await queue.standing(positions)
    except UnknownWork:
        await queue.begin(beginning)
        return await queue.standing(positions)


class QueueReader(DataSourceReader):
    """Batch reads: what there is to do now."""

    def __init__(self, schema: StructType, options: QueueOptions) -> None:
        self._options = options
        self._reading = _Reading(schema, options)

    def partitions(self) -> list[InputPartition]:
        found = self._reading.look({}, self._options.beginning)
        starts = {index: one.first for index, one in found.items()}
        ready = starts
        while True:  # The broker looks at so many messages at a time.
            found = self._reading.look(ready)
            further = {index: one.ready for index, one in found.items()}
            if further == ready:
                break
            ready = further
        return self._reading.tasks([(index, (starts[index], ready[index])) for index in starts])

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        return self._reading.rows(partition)


class QueueStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream that reads a queue, and settles what is committed."""

    def __init__(self, schema: StructType, options: QueueOptions) -> None:
        self._options = options
        self._reading = _Reading(schema, options)
        self._initial: dict[str, Any] | None = None
        self._targets: dict[int, int] | None = None
        self._settled: tuple[str, int] = ("", -1)
        self._latest: dict[int, int] = {}
        self._idle: dict[str, Any] = {}
        self._look_at = 0.0

    # Where it begins and how far it goes.

    def initialOffset(self) -> dict[str, Any]:  # noqa: N802
        """Return the first messages that the work group has not processed."""
        if self._initial is None:
            found = self._reading.look({}, self._options.beginning)
            firsts = {index: one.first for index, one in found.items()}
            begun = QueueBatch(
                queue=self._options.queue,
                stream=secrets.token_hex(8),
                number=-1,
                starts=firsts,
                ends=firsts,
            )
            self._initial = begun.to_offset()
        return self._initial

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Stop the query after the messages that exist now."""
        found = self._reading.look({}, self._options.beginning)
        self._targets = {index: one.end for index, one in found.items()}

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """`maxOffsetsPerTrigger`, or all."""
        most = self._options.reading.trigger_offsets_max
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def latestOffset(self, start: dict[str, Any], limit: ReadLimit) -> dict[str, Any]:  # noqa: N802
        """The end of the next micro-batch. `start` is where a committed one ended: settle it."""
        before = read_batch(self._options.queue, start)
        self._settle(before)
        now = time.monotonic()
        if start == self._idle and now < self._look_at:
            return start
        found = self._reading.look(before.ends)
        self._latest = {index: one.end for index, one in found.items()}
        batch = self._next(before, found, limit)
        if not batch.ranges() and len(batch.ends) == len(before.ends):
            self._idle, self._look_at = start, now + LOOK_SECONDS
            return start
        return batch.to_offset()

    def _next(
        self, before: QueueBatch, found: Mapping[int, WorkStanding], limit: ReadLimit
    ) -> QueueBatch:
        starts, ends = dict(before.ends), dict(before.ends)
        for index, one in found.items():
            starts[index] = max(before.ends.get(index, 0), one.first)
            end = (
                one.ready if self._targets is None else min(one.ready, self._targets.get(index, 0))
            )
            ends[index] = max(starts[index], end)
        again = {index: one.again for index, one in found.items() if one.again}
        if isinstance(limit, ReadMaxRows):
            again, left = _bound(again, limit.max_rows)
            ends = _admit(starts, ends, left)
        return QueueBatch(
            queue=before.queue,
            stream=before.stream,
            number=before.number + 1,
            starts=starts,
            ends=ends,
            again=again,
        )

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """For the progress of the query; and the group it is committed to."""
        options = self._options
        ends = {str(index): end for index, end in sorted(self._latest.items())}
        return {options.queue: ends, **tell_queue(options.reading.address, options.group)}

    # A batch.

    def partitions(
        self,
        start: dict[str, Any],  # noqa: ARG002 - the end says it all
        end: dict[str, Any],
    ) -> list[InputPartition]:
        """The tasks of a micro-batch, by what its end says."""
        return self._reading.tasks(read_batch(self._options.queue, end).ranges())

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        return self._reading.rows(partition)

    def commit(self, end: dict[str, Any]) -> None:
        """Spark has committed everything up to here."""
        self._settle(read_batch(self._options.queue, end))

    def _settle(self, batch: QueueBatch) -> None:
        if (batch.stream, batch.number) != self._settled:
            run(settle(self._options.client, self._options.group, batch))
            self._settled = (batch.stream, batch.number)

    def stop(self) -> None:
        """Do nothing: messages that were not settled remain in the queue."""


def _bound(again: Mapping[int, Ranges], most: int) -> tuple[dict[int, Ranges], int]:
    """Limit the messages that were delivered again to `most`; also return the remaining room."""
    bounded: dict[int, Ranges] = {}
    for index, ranges in again.items():
        kept = []
        for first, end in ranges:
            end = min(end, first + most)  # noqa: PLW2901 - what is left of it
            most -= end - first
            if first < end:
                kept.append((first, end))
        if kept:
            bounded[index] = tuple(kept)
    return bounded, most


def _admit(starts: Mapping[int, int], ends: Mapping[int, int], most: int) -> dict[int, int]:
    """Distribute `most` messages among the partitions in proportion to their backlogs; at least one
    for each that has any, so that none waits for ever."""
    total = sum(end - starts[index] for index, end in ends.items())
    if total <= most:
        return dict(ends)
    if most <= 0:
        return dict(starts)
    return {
        index: min(end, starts[index] + max(1, (end - starts[index]) * most // total))
        for index, end in ends.items()
    }


def queue_reader(schema: StructType, given: Mapping[str, str]) -> QueueReader:
    """Make the reader for `spark.read`."""
    return QueueReader(schema, queue_options(given, is_stream=False))


def queue_stream_reader(schema: StructType, given: Mapping[str, str]) -> QueueStreamReader:
    """Make the reader for `spark.readStream`."""
    return QueueStreamReader(schema, queue_options(given, is_stream=True))
