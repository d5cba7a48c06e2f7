"""DescribeLogDirs, key 35: what partitions take on this broker's disk.

Versions    1–5.
Behaviour   A broker has one directory. Listed are the partitions that are placed here, all or those
            asked for, with the bytes of their messages; logs are shared between partitions, so the
            files are larger than the sum. Total and usable bytes are those of the file system.
KIPs        113, 827 (total and usable bytes), 1066 (cordoned: never).
Not served  Offset lag and moves between directories: there are none.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator, Iterable, Iterator

from penstock.core.errors import DiskFailed, UnknownPartition
from penstock.core.topic import Topic
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused


async def handle(request: Message, context: Context) -> Answer:
    """The one directory of this broker."""
    directory = context.engine.topics.directory
    row: Row = {"log_dir": directory, "topics": []}
    try:
        usage = await asyncio.to_thread(shutil.disk_usage, directory)
    except OSError as error:
        failed = DiskFailed(f"{directory} cannot be looked at: {error}")
        return {"results": [row | refused(context, failed)]}
    topics = _topics(_wanted(request, context), context)
    row |= {
        "topics": await context.rows("results topics", topics),
        "total_bytes": usage.total,
        "usable_bytes": usage.free,
    }
    return {"results": [row]}


def _wanted(request: Message, context: Context) -> Iterator[tuple[Topic, Iterable[int]]]:
    topics = context.engine.topics.catalog.topics
    if request.topics is None:
        for _, topic in sorted(topics.items()):
            yield topic, range(len(topic.partitions))
        return
    indexes: dict[str, set[int]] = {}
    for asked in request.topics:
        indexes.setdefault(asked.topic, set()).update(asked.partitions)
    for name, wanted in sorted(indexes.items()):
        found = topics.get(name)
        if found is not None:
            yield found, sorted(one for one in wanted if 0 <= one < len(found.partitions))


async def _topics(
    wanted: Iterable[tuple[Topic, Iterable[int]]], context: Context
) -> AsyncIterator[Row]:
    for topic, indexes in list(wanted):
        partitions = await context.rows(
            "results topics partitions",
            (
                {
                    "partition_index": index,
                    "partition_size": size,
                    "offset_lag": 0,
                    "is_future_key": False,
                }
                async for index in context.each(indexes)
                if (size := _size(topic, index, context)) is not None
            ),
        )
        if partitions.number:
            yield {"name": topic.name, "partitions": partitions}


def _size(topic: Topic, index: int, context: Context) -> int | None:
    """The bytes of a partition here; None if it is placed elsewhere or not made yet."""
    engine = context.engine
    if engine.topics.node_id not in engine.topics.replicas(
        engine.topics.shard_of(topic.partitions[index])
    ):
        return None
    try:
        return engine.topics.partition_bytes(topic, index)
    except UnknownPartition:
        return None
