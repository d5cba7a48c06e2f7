"""Streams: a topic as a table that grows.

Spark keeps how far a query has got, as JSON in its checkpoint: {"orders": {"0": 123, "1": 99}},
each the next offset to read. From micro-batch to micro-batch it asks how far there is something to
read (`latestOffset`), has tasks made of the difference (`partitions`), and writes both down before
any of them runs, so that a micro-batch that is repeated reads the same messages again.

Where a query began is not in the checkpoint: Spark asks again, for every look at the first
micro-batch and after a crash in it, when "latest" means something else. So the end of the first
one says where it began, under a name that no topic can have, and that counts:

    {"orders": {"0": 123, "1": 99}, ":began": {"orders": {"0": 100, "1": 99}}}

Rules:

- A partition that appears later is read from its beginning. One that was read stays in the JSON,
  whatever becomes of its topic.
- What is read is committed: the end of a log comes from a leader that a majority has confirmed.
- A log that is shorter than what was read of it belongs to another topic of that name, or has been
  lost: see `starting` on data loss. But a topic that this process has seen whole, and that has kept
  its id, is asked again: while a cluster has lost its majority, a node that is behind may answer.

Spark asks an idle stream some ninety times a second. From the second time on, the broker is asked
to answer when there is something, for a tenth of a second: that is ten questions, and no message
waits for the next of them.
"""

import re
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import (
    ReadAllAvailable,
    ReadLimit,
    ReadMaxBytes,
    ReadMaxRows,
    ReadMinRows,
    SupportsTriggerAvailableNow,
)
from pyspark.sql.types import StructType

from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RawLog
from penstock.client.reader.topic_watch import TopicSight, TopicWatch
from penstock.core.errors import OffsetOutOfRange, UnknownPartition
from penstock.core.limits import KIB
from penstock.core.types import EARLIEST, LATEST
from penstock.spark.connections import client_of, run
from penstock.spark.identity import tell_topics
from penstock.spark.reading.admission import Patience, share, share_bytes
from penstock.spark.reading.columns import arrow_schema, check_schema
from penstock.spark.reading.decoder import heads_of
from penstock.spark.reading.fetcher import read_stretches
from penstock.spark.reading.ranges import Stretch, split
from penstock.spark.reading.read_options import ReadOptions
from penstock.spark.reading.reader import Task
from penstock.spark.reading.start_offsets import (
    Places,
    deleted,
    extent_of,
    find_parts,
    look,
    lost,
    parts_of,
    resolve,
    watch_of,
)

Json = dict[str, Any]

BEGAN: Final = ":began"

WAIT_SECONDS: Final = 0.1
"""The time that an idle stream waits for a message before it reports that there is none; also the
largest age of a report of the ends."""
GONE_SECONDS: Final = 5.0
"""For how long a topic must be missing to be gone: a node that has just begun knows little."""


class PenstockStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Plans the micro-batches of a stream over the log, and keeps its offsets."""

    def __init__(self, schema: StructType, options: ReadOptions) -> None:
        check_schema(schema)
        self._schema = arrow_schema(schema)
        self._options = options
        self._live: _Live | None = None
        self._initial: Json | None = None

    def __getstate__(self) -> dict[str, Any]:
        """Tasks get what they need to read; what the driver has learnt stays with it."""
        return {
            "_schema": self._schema,
            "_options": self._options,
            "_live": None,
            "_initial": None,
        }

    @property
    def _driver(self) -> "_Live":
        if self._live is None:
            self._live = _Live(self._options)
        return self._live

    # What Spark asks the driver.

    def initialOffset(self) -> Json:  # noqa: N802
        """Return the start offsets of a new query; the first answer is repeated."""
        if self._initial is None:
            self._initial = to_json(run(self._driver.find_start()))
        return self._initial

    def getDefaultReadLimit(self) -> ReadLimit:  # noqa: N802
        """Return the limit that Spark passes to `latestOffset`, so that its plans show it."""
        options = self._options
        if options.trigger_offsets_max is not None:
            return ReadMaxRows(options.trigger_offsets_max)
        if options.trigger_bytes_max is not None:
            return ReadMaxBytes(options.trigger_bytes_max)
        if options.trigger_offsets_min is not None:
            return ReadMinRows(options.trigger_offsets_min)
        return ReadAllAvailable()

    def latestOffset(self, start: Json, limit: ReadLimit) -> Json:  # noqa: N802
        """Return the end offsets of the next micro-batch."""
        is_limited = not isinstance(limit, ReadAllAvailable)
        begins = from_json(start)
        ends = run(self._driver.find_end(begins, is_limited=is_limited))
        if ends == begins:
            return start  # Letter by letter: that is how Spark sees that there is nothing new.
        return {**to_json(ends), **({BEGAN: start} if start == self._initial else {})}

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        """Read up to here and then end."""
        run(self._driver.fix_target())

    def reportLatestOffset(self) -> dict[str, Any] | None:  # noqa: N802
        """Return the ends of the logs, for the progress of the query: see `lag`; and the group
        whose offsets are committed: see `progress`."""
        told = (
            tell_topics(self._options.address, self._options.group) if self._options.group else {}
        )
        return {**to_json(run(self._driver.ends())), **told}

    def partitions(self, start: Json, end: Json) -> Sequence[InputPartition]:
        """Return the tasks of a micro-batch."""
        begins = from_json(end.get(BEGAN, start))
        stretches = run(self._driver.stretches(begins, from_json(end)))
        options = self._options
        tasks = split(
            stretches, partitions_min=options.partitions_min, records_max=options.records_max
        )
        return [Task(one) for one in tasks] or [Task(())]

    def commit(self, end: Json) -> None:
        """Do nothing: the checkpoint has the offsets, and `progress` commits them for groups."""

    # What Spark asks a worker.

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the messages of a task."""
        assert isinstance(partition, Task)
        return read_stretches(partition.stretches, self._schema, self._options)


class _Live:
    """The state of one query's topics on the driver; used on the loop only."""

    def __init__(self, options: ReadOptions) -> None:
        self._options = options
        self._raw: RawLog = client_of(options.address).raw_log()
        self._watch: TopicWatch = watch_of(self._raw, options, patience=GONE_SECONDS)
        self._ids: dict[str, bytes] = {}
        self._whole: set[str] = set()
        """Topics whose logs were at least as long as the part read of them."""
        self._gone: set[str] = set()
        """Topics that were reported already."""
        self._ends: Places = {}
        self._asked_at = float("-inf")
        self._target: Places | None = None
        self._patience: Patience | None = None
        if options.trigger_offsets_min is not None:
            self._patience = Patience(
                options.trigger_offsets_min, options.trigger_delay_seconds, float("-inf")
            )

    async def find_start(self) -> Places:
        """Resolve `startingOffsets` and the related options to offsets."""
        options = self._options
        sights = await self._look()
        parts = await find_parts(self._raw, options, sights)
        extent = await extent_of(self._raw, parts)
        return await resolve(
            self._raw, options.starting, parts, extent, or_latest=options.time_or_latest
        )

    async def ends(self) -> Places:
        """Return the ends of all partitions, which may be a moment old: for reports."""
        if time.monotonic() - self._asked_at >= WAIT_SECONDS:
            await self._ask_ends()
        return self._ends

    async def _ask_ends(self) -> Places:
        parts = self._parts(await self._look())
        self._ends = await self._raw.find_offsets(dict.fromkeys(parts, LATEST))
        self._asked_at = time.monotonic()
        return self._ends

    async def fix_target(self) -> None:
        """The end that is not passed any more."""
        self._target = dict(await self._ask_ends())

    async def _new_ends(self, start: Places) -> Places:
        """Return the current ends of all partitions. If they are those of the last call, wait a
        moment for messages."""
        if self._target is not None:
            return dict(self._target)
        if self._ends and all(start.get(part) == end for part, end in self._ends.items()):
            await self._raw.wait_for_growth(self._ends, seconds=WAIT_SECONDS)
        return dict(await self._ask_ends())

    async def find_end(self, start: Places, *, is_limited: bool) -> Places:
        """Return the end offsets of the next micro-batch."""
        ends = self._without_shrinking(start, await self._new_ends(start))
        begins = dict(start)
        new = [part for part in ends if part not in start]
        if new:
            begins |= await self._raw.find_offsets(dict.fromkeys(new, EARLIEST))
        self._check_gone(start, ends)
        options = self._options
        if is_limited:
            if self._patience is not None and self._target is None:
                if not self._patience.is_enough(begins, ends, time.monotonic()):
                    return dict(start)
            if options.trigger_offsets_max is not None:
                ends = share(begins, ends, options.trigger_offsets_max)
            if options.trigger_bytes_max is not None:
                behind = [part for part, end in ends.items() if end > begins[part]]
                sizes = await bytes_per_message(self._raw, begins, behind)
                ends = share_bytes(begins, ends, options.trigger_bytes_max, sizes)
        return {**start, **ends}

    def _without_shrinking(self, start: Places, ends: Places) -> Places:
        """A topic that was whole has not become shorter: a node that says so is behind."""
        short = {part.topic for part, end in ends.items() if end < start.get(part, 0)}
        self._whole |= {part.topic for part in ends} - short
        return {
            part: max(end, start.get(part, 0)) if part.topic in self._whole else end
            for part, end in ends.items()
        }

    def _check_gone(self, start: Places, ends: Places) -> None:
        """A topic that was read and is gone: nothing more will come of it."""
        for topic in sorted({part.topic for part in start} - {part.topic for part in ends}):
            if self._is_wanted(topic) and topic not in self._gone:
                self._gone.add(topic)
                lost(self._options, f"the topic {topic} has been deleted")

    def _is_wanted(self, topic: str) -> bool:
        options = self._options
        if options.pattern:
            return re.fullmatch(options.pattern, topic) is not None
        return topic in (options.topics or options.assigned or ())

    async def stretches(self, start: Places, end: Places) -> list[Stretch]:
        """Return the existing stretches between two positions."""
        sights = await self._look()
        there = {part for part in end if part.partition < _partitions(sights, part.topic)}
        wanted = [part for part in end if end[part] != start.get(part)]
        for part in wanted:
            if part not in there:
                lost(self._options, f"partition {part.partition} of {part.topic} is gone")
        extent = await extent_of(self._raw, [part for part in wanted if part in there])
        found = []
        for part in wanted:
            if part in there:
                log_start, log_end = extent.starts[part], extent.ends[part]
                first, last = self._bounds(part, start.get(part), end[part], log_start, log_end)
                if first < last:
                    topic_id = sights[part.topic].topic_id
                    found.append(Stretch(part.topic, part.partition, first, last, topic_id))
        return found

    def _bounds(
        self, part: TopicPartition, start: int | None, end: int, log_start: int, log_end: int
    ) -> tuple[int, int]:
        """Return the existing part of a stretch; a part that was deleted is data loss."""
        if start is None:
            start = log_start  # A new partition.
        name = f"partition {part.partition} of {part.topic}"
        if end < start or (end > log_end and part.topic not in self._whole):
            lost(
                self._options,
                f"{name} ends at {log_end}, and was read up to {max(start, end)} before: it has"
                " been deleted and made anew, or its end was lost",
            )
            return log_start, min(end, log_end)
        if start < log_start:
            deleted(self._options, part, start, min(end, log_start))
        return max(start, log_start), end

    async def _look(self) -> Mapping[str, TopicSight]:
        sights = await look(self._raw, self._watch)
        self._gone -= sights.keys()
        for name, sight in sights.items():
            known = self._ids.setdefault(name, sight.topic_id)
            if known != sight.topic_id:
                self._ids[name] = sight.topic_id
                self._whole.discard(name)
                lost(self._options, f"the topic {name} has been deleted and made anew")
        return sights

    def _parts(self, sights: Mapping[str, TopicSight]) -> list[TopicPartition]:
        assigned = self._options.assigned
        if assigned is None:
            return parts_of(sights)
        return [part for part in parts_of(sights) if part.partition in assigned[part.topic]]


def to_json(places: Places) -> Json:
    """Convert positions for the checkpoint, always in the same order, because Spark compares the
    text."""
    found: Json = {}
    for part in sorted(places):
        found.setdefault(part.topic, {})[str(part.partition)] = places[part]
    return found


def from_json(offsets: Json) -> Places:
    """Parse positions of a checkpoint; entries that are not topics are ignored."""
    return {
        TopicPartition(topic, int(index)): offset
        for topic, indexes in offsets.items()
        if ":" not in topic
        for index, offset in indexes.items()
    }


def _partitions(sights: Mapping[str, TopicSight], topic: str) -> int:
    return sights[topic].partitions if topic in sights else 0


SAMPLE_BYTES: Final = 64 * KIB
FOREVER: Final = 1 << 62


async def bytes_per_message(
    raw: RawLog, places: Mapping[TopicPartition, int], parts: Sequence[TopicPartition]
) -> dict[TopicPartition, float]:
    """Stored bytes of a message after each of these places, estimated from the next batches, which
    are not opened; nothing of a place that is not there."""
    found: dict[TopicPartition, float] = {}
    for part in parts:
        start = places[part]
        reader = raw.read(part, start, start + 1, bytes_max=SAMPLE_BYTES)
        try:
            data = await reader.next()
        except (OffsetOutOfRange, UnknownPartition):
            continue  # The reader of the batch reports it.
        finally:
            await reader.close()
        if data is None:
            continue
        size = messages = 0
        for head in heads_of(data, 0, FOREVER):
            size += head.size
            messages += head.records
        if messages:
            found[part] = size / messages
    return found
