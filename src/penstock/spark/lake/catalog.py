"""The catalog of offsets: which offsets of which partitions a lake has, and in which files.

It is what the entries of the manifest come to, applied in order. Nothing is taken on trust: an
entry that covers offsets twice, removes a file that is not there, or whose files hold another
number of messages than it says, is not applied. For a writer that means that another one was
first; in a manifest that is being read it means damage, and is reported as such.
"""

from collections.abc import Mapping

from penstock.core.errors import DirectoryInUse, DirectoryRefused, ForeignDirectory
from penstock.spark.lake.entries import (
    FORMAT,
    Change,
    CoveredTopic,
    Entry,
    LakeFile,
    Snapshot,
)
from penstock.spark.lake.spans import Span, Spans, difference, gaps, overlap, union, written

DROPPED_KEPT_MS = 7 * 86_400_000
"""For how long it is remembered that a file is no longer read; by then it has been swept away."""


class Catalog:
    """The content of a lake up to entry `number`."""

    def __init__(self, root: str) -> None:
        self.root = root
        self.number = 0
        self.files: dict[str, LakeFile] = {}
        self.dropped: dict[str, int] = {}
        self._spans: dict[str, dict[int, Spans]] = {}
        self._ids: dict[str, str] = {}
        self._rows: dict[str, int] = {}

    @classmethod
    def of(cls, root: str, snapshot: Snapshot) -> "Catalog":
        """Build the catalog of a snapshot."""
        catalog = cls(root)
        catalog.number = snapshot.number
        catalog.files = {one.path: one for one in snapshot.files}
        catalog.dropped = dict(snapshot.dropped)
        for topic, covered in snapshot.topics.items():
            catalog._spans[topic] = dict(covered.partitions)
            catalog._ids[topic] = covered.topic_id
            catalog._rows[topic] = covered.rows
        return catalog

    def snapshot(self) -> Snapshot:
        """The whole of it, to be written."""
        return Snapshot(
            format=FORMAT,
            number=self.number,
            topics={
                topic: CoveredTopic(
                    topic_id=self._ids[topic], rows=self._rows[topic], partitions=spans
                )
                for topic, spans in self._spans.items()
            },
            files=tuple(self.files.values()),
            dropped=self.dropped,
        )

    # Asking.

    @property
    def topics(self) -> list[str]:
        """The topics it has something of."""
        return sorted(self._spans)

    def topic_id(self, topic: str) -> str:
        """Return the id of the topic in the lake; empty if the lake has none of its messages."""
        return self._ids.get(topic, "")

    def rows(self, topic: str) -> int:
        """Return the number of messages of a topic."""
        return self._rows.get(topic, 0)

    def spans(self, topic: str) -> Mapping[int, Spans]:
        """The offsets it has of a topic, by partition."""
        return self._spans.get(topic, {})

    def ends(self, topic: str) -> dict[int, int]:
        """By partition, the offset after the last that it has."""
        return {partition: spans[-1][1] for partition, spans in self.spans(topic).items()}

    def gaps(self, topic: str) -> dict[int, Spans]:
        """By partition, what is missing between the first offset and the last."""
        found = {partition: gaps(spans) for partition, spans in self.spans(topic).items()}
        return {partition: spans for partition, spans in sorted(found.items()) if spans}

    def files_of(
        self, topic: str, *, since_ms: int | None = None, until_ms: int | None = None
    ) -> list[LakeFile]:
        """The files of a topic that may hold messages of [since, until), in order."""
        found = [
            one
            for one in self.files.values()
            if one.topic == topic
            and (since_ms is None or one.timestamp_max_ms >= since_ms)
            and (until_ms is None or one.timestamp_min_ms < until_ms)
        ]
        return sorted(found, key=lambda one: (one.date, one.first_place))

    # Changing.

    def check(self, change: Change) -> None:
        """Raise what stands against a change."""
        self._check_covered(change)
        for path in change.removed:
            if path not in self.files:
                raise DirectoryInUse(
                    f"{path} of the lake at {self.root} has been replaced by another writer"
                    " meanwhile; run the job again"
                )
        for one in change.added:
            if one.path in self.files or one.path in self.dropped:
                raise DirectoryRefused(f"{one.path} is in the lake at {self.root} already")
        self._check_rows(change)

    def apply(self, entry: Entry) -> None:
        """Apply the next entry."""
        assert entry.number == self.number + 1, (entry.number, self.number)
        self.check(entry.change)
        self.number = entry.number
        for covered in entry.change.covered:
            topic, partition = covered.topic, covered.partition
            partitions = self._spans.setdefault(topic, {})
            span = (covered.first, covered.end)
            partitions[partition] = union([*partitions.get(partition, ()), span])
            self._ids[topic] = covered.topic_id
            self._rows[topic] = self._rows.get(topic, 0) + covered.rows
        for path in entry.change.removed:
            del self.files[path]
            self.dropped[path] = entry.written_ms
        for one in entry.change.added:
            self.files[one.path] = one
        kept_since = entry.written_ms - DROPPED_KEPT_MS
        self.dropped = {path: at for path, at in self.dropped.items() if at >= kept_since}

    def has(self, change: Change) -> bool:
        """Whether a change has been made already: names of files are never used twice."""
        return all(one.path in self.files or one.path in self.dropped for one in change.added) and (
            all(
                not difference([(one.first, one.end)], self.spans(one.topic).get(one.partition, ()))
                for one in change.covered
            )
        )

    def _check_covered(self, change: Change) -> None:
        taken: dict[tuple[str, int], list[Span]] = {}
        for one in change.covered:
            known = self._ids.get(one.topic, one.topic_id)
            if known != one.topic_id:
                raise ForeignDirectory(
                    f"the lake at {self.root} has offsets of an earlier topic {one.topic}, which"
                    " was deleted; archive the new one under another root"
                )
            place = (one.topic, one.partition)
            there = [*self.spans(one.topic).get(one.partition, ()), *taken.get(place, ())]
            span = (one.first, one.end)
            if one.first >= one.end:
                raise DirectoryRefused(f"{one.topic}/{one.partition}: {span} are no offsets")
            if twice := overlap([span], there):
                raise DirectoryInUse(
                    f"offsets {written(twice)} of {one.topic}, partition {one.partition}, are in"
                    f" the lake at {self.root} already; another archive job writes there: stop one"
                )
            taken.setdefault(place, []).append(span)

    def _check_rows(self, change: Change) -> None:
        """Messages come into files only by being covered, and are lost to none."""
        rows: dict[str, int] = {}
        for covered in change.covered:
            rows[covered.topic] = rows.get(covered.topic, 0) + covered.rows
        for path in change.removed:
            old = self.files[path]
            rows[old.topic] = rows.get(old.topic, 0) + old.rows
        for new in change.added:
            rows[new.topic] = rows.get(new.topic, 0) - new.rows
        wrong = {topic: count for topic, count in rows.items() if count}
        if wrong:
            raise DirectoryRefused(
                f"a change of the lake at {self.root} does not add up: {wrong} messages of"
                " difference between files and offsets"
            )
