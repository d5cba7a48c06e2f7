"""The partitions to read, and the start and end offsets of each.

Everything here asks the broker, on the loop of `connections`, before a task is made: an unknown
topic, a partition that is not named, an offset that is not there are reported before any work
starts.

**Data loss.** What was to be read and is not there any more, because retention was faster than the
reader or the topic was deleted, is an error that names what is missing; with `failOnDataLoss=false`
it is a warning, and reading goes on with what is left.
"""

import logging
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches

from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RawLog
from penstock.client.reader.topic_watch import TopicSight, TopicWatch
from penstock.core.errors import InvalidRequest, OffsetOutOfRange, UnknownPartition, UnknownTopic
from penstock.core.types import EARLIEST, LATEST
from penstock.spark.reading.ranges import Stretch
from penstock.spark.reading.read_options import Bound, Offsets, ReadOptions

log = logging.getLogger("penstock.spark")

Places = dict[TopicPartition, int]
Sights = Mapping[str, TopicSight]


@dataclass(frozen=True, slots=True)
class Extent:
    """The current start and end of each partition's log."""

    starts: Places
    ends: Places


def watch_of(raw: RawLog, options: ReadOptions, *, patience: float = 0.0) -> TopicWatch:
    """Looks at the topics that the options name."""
    if options.pattern:
        return raw.watch(re.compile(options.pattern), patience=patience)
    return raw.watch(options.topics or tuple(options.assigned or ()), patience=patience)


async def look(raw: RawLog, watch: TopicWatch) -> dict[str, TopicSight]:
    """Return the topics that exist."""
    return await watch.look(raw.deadline())


async def find_parts(raw: RawLog, options: ReadOptions, sights: Sights) -> list[TopicPartition]:
    """All partitions to read, in order; raises if one that was named is not there."""
    for name in options.topics or tuple(options.assigned or ()):
        if name not in sights:
            raise await unknown_topic(raw, name)
    if options.assigned is None:
        return parts_of(sights)
    for name, indexes in options.assigned.items():
        if indexes[-1] >= sights[name].partitions:
            raise UnknownPartition(
                f"assign names partition {indexes[-1]} of {name}, which has partitions 0 to"
                f" {sights[name].partitions - 1}"
            )
    return sorted(
        TopicPartition(name, index)
        for name, indexes in options.assigned.items()
        for index in indexes
    )


def parts_of(sights: Sights) -> list[TopicPartition]:
    """All partitions of these topics, in order."""
    return [
        TopicPartition(name, index)
        for name in sorted(sights)
        for index in range(sights[name].partitions)
    ]


async def unknown_topic(raw: RawLog, name: str) -> UnknownTopic:
    """Return the error for an unknown topic, with a suggestion if a similar name exists."""
    others = sorted(await look(raw, raw.watch(re.compile(".*", re.DOTALL))))
    near = get_close_matches(name, others, n=1)
    if near:
        meant = f": perhaps {near[0]} was meant"
    else:
        meant = ": create it, or correct the option" if others else ": there is no topic at all"
    return UnknownTopic(f"the broker has no topic {name}{meant}")


async def extent_of(raw: RawLog, parts: Iterable[TopicPartition]) -> Extent:
    """Return the bounds of these partitions; the end is that of the committed messages."""
    asked = list(parts)
    ends = await raw.find_offsets(dict.fromkeys(asked, LATEST))
    return Extent(await raw.find_offsets(dict.fromkeys(asked, EARLIEST)), ends)


# What the options say.


async def resolve(
    raw: RawLog, bound: Bound, parts: list[TopicPartition], extent: Extent, *, or_latest: bool
) -> Places:
    """The offset that a bound means for each partition. A time that nothing is as late as means
    the end, or is an error."""
    if bound.offsets is not None:
        given = _complete(bound, bound.offsets, parts)
        words: dict[int, Mapping[TopicPartition, int]] = {
            EARLIEST: extent.starts,
            LATEST: extent.ends,
        }
        return {
            part: words[offset][part] if offset in words else offset
            for part, offset in given.items()
        }
    if bound.word is not None:
        return dict(extent.starts if bound.word == EARLIEST else extent.ends)
    if bound.times is not None:
        times = _complete(bound, bound.times, parts)
    else:
        assert bound.time_ms is not None
        times = dict.fromkeys(parts, bound.time_ms)
    found = await raw.find_offsets(times)
    for part, offset in found.items():
        if offset >= extent.ends[part] and not or_latest:
            raise OffsetOutOfRange(
                f"{bound.option}: partition {part.partition} of {part.topic} has no message from"
                f" {times[part]} on; set startingOffsetsByTimestampStrategy to latest to begin"
                " with what comes next"
            )
    return found


def _complete(bound: Bound, given: Offsets, parts: list[TopicPartition]) -> Places:
    """Check that offsets name every partition and no other, and return them by partition."""
    named = {
        TopicPartition(topic, index): offset
        for topic, offsets in given.items()
        for index, offset in offsets.items()
    }
    known = set(parts)
    if strangers := sorted(set(named) - known):
        raise UnknownPartition(
            f"{bound.option} names partition {strangers[0].partition} of {strangers[0].topic},"
            " which is not among those that are read"
        )
    if missing := sorted(known - set(named)):
        raise InvalidRequest(
            f"{bound.option} does not name partition {missing[0].partition} of {missing[0].topic}:"
            " name all of them; -2 is earliest and -1 latest"
        )
    return named


async def plan(raw: RawLog, options: ReadOptions) -> list[Stretch]:
    """Return the stretches of a batch read."""
    sights = await look(raw, watch_of(raw, options))
    parts = await find_parts(raw, options, sights)
    extent = await extent_of(raw, parts)
    starts = await resolve(raw, options.starting, parts, extent, or_latest=options.time_or_latest)
    ends = await resolve(raw, options.ending, parts, extent, or_latest=True)
    stretches = []
    for part in parts:
        start, end = starts[part], ends[part]
        for bound, offset in ((options.starting, start), (options.ending, end)):
            if offset > extent.ends[part]:
                raise OffsetOutOfRange(
                    f"{bound.option} is {offset} for partition {part.partition} of {part.topic},"
                    f" which ends at {extent.ends[part]}"
                )
        if start < extent.starts[part]:
            deleted(options, part, start, min(end, extent.starts[part]))
            start = extent.starts[part]
        if start < end:
            sight = sights[part.topic]
            stretches.append(Stretch(part.topic, part.partition, start, end, sight.topic_id))
    return stretches


# Data loss.


def deleted(options: ReadOptions, part: TopicPartition, start: int, end: int) -> None:
    """Messages have been deleted that were to be read: an error, or a warning."""
    lost(
        options,
        f"the messages {start} to {end - 1} of partition {part.partition} of {part.topic} have been"
        " deleted before they were read",
    )


def lost(options: ReadOptions, what: str) -> None:
    """Raise, or warn and let it go on."""
    if options.fail_on_data_loss:
        raise OffsetOutOfRange(
            f"{what}. To go on with what is left, set the option failOnDataLoss to false"
        )
    log.warning("%s; going on with what is left, as failOnDataLoss is false", what)
