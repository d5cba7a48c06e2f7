"""Archive: topics into a lake of Parquet files, each offset exactly once.

    log ends, catalog ──▶ offsets still to come ──▶ tasks: fetch, write files ──▶ one entry

There is no checkpoint. The lake's own catalog says which offsets it has, so a step begins where the
catalog ends, and its entry in the manifest puts files and offsets in at once. Killed at any point,
the job has added a step or not; what it wrote of one that was not added is never read, and the
next run writes it again. Offsets that are there are never added again, by any run.

A task fetches its offsets from the leader of the partition and writes them as they come, Arrow to
Parquet; the rows do not go through Spark's JVM. What Spark gives is the tasks: as many as it has
cores, on as many machines, and run again where one fails.

Steps are bounded (`max_offsets`), so a long backlog becomes many entries, and a job that is killed
has lost one step of work. With `follow`, the job looks for more after each step, and waits for it.
"""

import logging
import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

import msgspec

from penstock.client.descriptions import TopicDescription
from penstock.core.decoders import decode_json
from penstock.core.errors import (
    DirectoryRefused,
    ForeignDirectory,
    InvalidRequest,
    OffsetOutOfRange,
    Unavailable,
)
from penstock.spark.address import address_of
from penstock.spark.connections import client_of, run
from penstock.spark.lake.compaction import ORPHAN_SECONDS
from penstock.spark.lake.day_files import SCHEMA, DayFiles
from penstock.spark.lake.entries import Change, Covered, LakeFile
from penstock.spark.lake.lake import Lake
from penstock.spark.lake.log_batches import log_batches
from penstock.spark.lake.tasks import parallelism, run_tasks

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

logger = logging.getLogger(__name__)

MAX_OFFSETS: Final = 4_000_000
TASK_OFFSETS_MIN: Final = 20_000
"""A task costs some milliseconds: smaller shares are not worth one."""
INTERVAL_SECONDS: Final = 10.0
STEP_SECONDS_MAX: Final = ORPHAN_SECONDS / 2
"""A step that took longer is given up: compaction might take its files for leftovers."""

Place = tuple[str, int]
"""A topic and one of its partitions."""


class Share(msgspec.Struct, frozen=True, kw_only=True):
    """The part of an archive that one task writes."""

    root: str
    url: str
    topic: str
    topic_id: str
    partition: int
    first: int
    end: int
    skip_bad: bool
    """Leave out what cannot be decoded."""


class Written(msgspec.Struct, frozen=True, kw_only=True):
    rows: int
    files: tuple[LakeFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ArchiveStep:
    """An entry that the job has added."""

    number: int
    """Of the entry in the manifest."""
    offsets: int
    rows: int
    files: int
    bytes: int
    behind: int
    """Offsets that were there and are still to come."""
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Archived:
    """The result of `archive`, and the size of the lake."""

    root: str
    topics: tuple[str, ...]
    steps: int
    rows: int
    files: int
    bytes: int
    seconds: float
    ends: Mapping[str, Mapping[int, int]]
    """By topic and partition, the offset that the next run begins with."""
    lost: Mapping[str, int]
    """By topic, offsets that the log had dropped before they were archived (failOnDataLoss off)."""


def archive(
    spark: "SparkSession",
    root: str,
    topics: str | Sequence[str],
    *,
    url: str,
    follow: bool = False,
    max_offsets: int = MAX_OFFSETS,
    fail_on_data_loss: bool = True,
    interval_seconds: float = INTERVAL_SECONDS,
    stop: threading.Event | None = None,
    told: Callable[[ArchiveStep], None] | None = None,
) -> Archived:
    """Bring into the lake at `root` what topics have and it has not.

    Without `follow` it ends where the topics ended when it began. With it, it goes on until `stop`
    is set, looking every `interval_seconds`, and outlives brokers that are away for a while.
    A partition of which the lake has nothing begins with the first offset that the log has. Offsets
    that retention has removed before they were archived are an error (`OffsetOutOfRange`), or,
    without `fail_on_data_loss`, a gap that the catalog shows; so are batches that cannot be
    decoded. `told` is called with each step.
    """
    names = (topics,) if isinstance(topics, str) else tuple(topics)
    if not names:
        raise InvalidRequest("nothing to archive: name a topic")
    if max_offsets < 1:
        raise InvalidRequest(f"max_offsets = {max_offsets}: a step has at least one offset")
    job = _Archive(spark, Lake.open(root), names, address_of({"url": url}))
    job.fail_on_data_loss, job.told = fail_on_data_loss, told
    waiting = stop or threading.Event()
    until = job.ends()
    while not waiting.is_set():
        try:
            goes_on = job.step(max_offsets, None if follow else until)
        except OffsetOutOfRange:
            if fail_on_data_loss or not job.look_again():
                raise
            goes_on = True  # What a task was about to read has been removed meanwhile.
        except Unavailable as error:
            if not follow:
                raise
            logger.warning("archive goes on in %g s: %s", interval_seconds, error)
            goes_on = False
        if not goes_on:
            if not follow:
                break
            waiting.wait(interval_seconds)
    return job.outcome()


class _Archive:
    """One run of the job."""

    def __init__(
        self, spark: "SparkSession", lake: Lake, topics: tuple[str, ...], url: str
    ) -> None:
        self.fail_on_data_loss = True
        self.told: Callable[[ArchiveStep], None] | None = None
        self._spark = spark
        self._lake = lake
        self._topics = topics
        self._url = url
        self._query = uuid.uuid4().hex
        self._steps: list[ArchiveStep] = []
        self._lost: dict[str, int] = {}
        self._begun = time.monotonic()
        self._described = self._describe()

    def ends(self) -> dict[Place, int]:
        """The end offsets of the topics, as last seen."""
        return {
            (topic.name, one.index): one.end
            for topic in self._described.values()
            for one in topic.partitions
        }

    def look_again(self) -> bool:
        """Whether a log begins later than when it was last looked at."""
        before = self._described
        self._described = self._describe()
        return any(
            new.start > old.start
            for name, topic in self._described.items()
            for old, new in zip(before[name].partitions, topic.partitions, strict=False)
        )

    def step(self, max_offsets: int, until: Mapping[Place, int] | None) -> bool:
        """Archive some more, if there is more; False if there was not."""
        started = time.monotonic()
        if until is None:
            self._described = self._describe()
        self._lake.refresh()
        waiting = self._waiting(until or self.ends())
        chosen = share_out(waiting, max_offsets)
        if not chosen:
            return False
        shares = self._shares(chosen)
        written = [
            decode_json(one, Written) for one in run_tasks(self._spark, shares, archive_share)
        ]
        if time.monotonic() - started > STEP_SECONDS_MAX:
            raise Unavailable("a step has taken too long to be added safely; lower max_offsets")
        files = tuple(file for one in written for file in one.files)
        rows: dict[Place, int] = {}
        for share, one in zip(shares, written, strict=True):
            place = (share.topic, share.partition)
            rows[place] = rows.get(place, 0) + one.rows
        change = Change(
            writer="archive",
            query=self._query,
            batch=len(self._steps),
            covered=tuple(self._covered(place, chosen[place], rows[place]) for place in chosen),
            added=files,
        )
        try:
            entry = self._lake.commit(change)
        except DirectoryRefused:
            for file in files:  # They will never be read.
                self._lake.storage.remove(file.path)
            raise
        offsets = sum(end - first for first, end in chosen.values())
        done = ArchiveStep(
            number=entry.number,
            offsets=offsets,
            rows=sum(rows.values()),
            files=len(files),
            bytes=sum(file.bytes for file in files),
            behind=sum(end - first for first, end in waiting.values()) - offsets,
            seconds=time.monotonic() - started,
        )
        self._steps.append(done)
        if self.told is not None:
            self.told(done)
        return True

    def outcome(self) -> Archived:
        """The result of all steps."""
        return Archived(
            root=self._lake.root,
            topics=self._topics,
            steps=len(self._steps),
            rows=sum(one.rows for one in self._steps),
            files=sum(one.files for one in self._steps),
            bytes=sum(one.bytes for one in self._steps),
            seconds=time.monotonic() - self._begun,
            ends={topic: self._lake.catalog.ends(topic) for topic in self._topics},
            lost=self._lost,
        )

    def _describe(self) -> dict[str, TopicDescription]:
        client = client_of(self._url)
        return {name: run(client.describe_topic(name)) for name in self._topics}

    def _waiting(self, until: Mapping[Place, int]) -> dict[Place, tuple[int, int]]:
        """By partition, from where to where there is something that the lake has not."""
        waiting = {}
        for name, topic in self._described.items():
            self._check_topic(topic)
            known = self._lake.catalog.ends(name)
            for one in topic.partitions:
                place = (name, one.index)
                first = known.get(one.index, one.start)
                if one.end < first:
                    raise OffsetOutOfRange(
                        f"the lake has {name}, partition {one.index}, up to offset {first}, and"
                        f" the broker only up to {one.end}: it has lost messages; archive what it"
                        " has now under another root"
                    )
                if one.start > first:
                    self._note_loss(place, first, one.start)
                    first = one.start
                if first < until.get(place, 0):
                    waiting[place] = (first, until[place])
        return waiting

    def _check_topic(self, topic: TopicDescription) -> None:
        known = self._lake.catalog.topic_id(topic.name)
        if known and known != topic.id:
            raise ForeignDirectory(
                f"the lake at {self._lake.root} has offsets of an earlier topic {topic.name}, which"
                " was deleted; archive the new one under another root"
            )

    def _note_loss(self, place: Place, first: int, start: int) -> None:
        topic, partition = place
        if self.fail_on_data_loss:
            raise OffsetOutOfRange(
                f"offsets {first} to {start - 1} of {topic}, partition {partition}, were removed"
                " from the log before they were archived; archive more often, keep messages for"
                " longer, or go on without them with failOnDataLoss off"
            )
        logger.warning("%s/%d: offsets %d to %d are lost", topic, partition, first, start - 1)
        self._lost[topic] = self._lost.get(topic, 0) + start - first

    def _shares(self, chosen: Mapping[Place, tuple[int, int]]) -> list[Share]:
        """Divide the offsets among tasks: as many as Spark runs at once, unless they would become
        tiny."""
        total = sum(end - first for first, end in chosen.values())
        width = max(TASK_OFFSETS_MIN, -(-total // parallelism(self._spark)))
        return [
            Share(
                root=self._lake.root,
                url=self._url,
                topic=topic,
                topic_id=self._described[topic].id,
                partition=partition,
                first=at,
                end=min(at + width, end),
                skip_bad=not self.fail_on_data_loss,
            )
            for (topic, partition), (first, end) in chosen.items()
            for at in range(first, end, width)
        ]

    def _covered(self, place: Place, span: tuple[int, int], rows: int) -> Covered:
        topic, partition = place
        return Covered(
            topic=topic,
            topic_id=self._described[topic].id,
            partition=partition,
            first=span[0],
            end=span[1],
            rows=rows,
        )


def share_out(
    waiting: Mapping[Place, tuple[int, int]], max_offsets: int
) -> dict[Place, tuple[int, int]]:
    """Choose at most `max_offsets` offsets (but at least one of each partition), in proportion to
    the backlog of each partition."""
    total = sum(end - first for first, end in waiting.values())
    if total <= max_offsets:
        return dict(waiting)
    return {
        place: (first, min(end, first + max(1, (end - first) * max_offsets // total)))
        for place, (first, end) in waiting.items()
    }


def archive_share(share: Share) -> bytes:
    """In a task: fetch offsets and write them by day."""
    files = DayFiles(share.root, share.topic)
    span = (share.first, share.end)
    place = (share.url, share.topic, share.topic_id, share.partition, span, SCHEMA)
    for batch in log_batches(*place, skip_bad=share.skip_bad):
        files.write(batch)
    rows = files.rows
    return msgspec.json.encode(Written(rows=rows, files=tuple(files.close())))
