"""DeleteRecords, key 21: forget the oldest messages of partitions.

Versions    0–2.
Behaviour   Asked of a partition's leader. Everything before the offset is gone when the answer
            comes, on all replicas; -1 is the high watermark, above it is OFFSET_OUT_OF_RANGE. The
            low watermark in the answer is where the partition starts now. A topic that is only
            compacted is refused (POLICY_VIOLATION), as in Kafka. Of a partition that is named more
            than once the last offset counts.
KIPs        107.
Not served  Nothing is left out.
"""

from penstock.core.errors import OffsetOutOfRange, PenstockError
from penstock.core.internal_topics import check_unprotected
from penstock.core.types import Offset
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import produce_code
from penstock.kafka.row_errors import Row, refused, refused_with, side_by_side

_POLICY_VIOLATION = 44
_HIGH_WATERMARK = -1


async def handle(request: Message, context: Context) -> Answer:
    """Trim each partition; those that cannot be are answered with the reason."""
    once = {
        (topic.name, one.partition_index): one.offset
        for topic in request.topics
        async for one in context.each(topic.partitions)
    }

    async def trim(asked: tuple[tuple[str, int], int]) -> Row:
        (name, index), offset = asked
        return await _trim(name, index, offset, context)

    topics: dict[str, list[Row]] = {}
    for (name, _), row in zip(once, await side_by_side(trim, once.items()), strict=True):
        topics.setdefault(name, []).append(row)
    return {"topics": [{"name": name, "partitions": rows} for name, rows in topics.items()]}


async def _trim(name: str, index: int, offset: int, context: Context) -> Row:
    row: Row = {"partition_index": index, "low_watermark": -1}
    try:
        check_unprotected(name)
        topic = context.engine.topics.topic(name)
        if topic.settings.compacts and not topic.settings.deletes:
            text = f"topic {name} is compacted; add delete to its cleanup.policy first"
            return row | refused_with(context, _POLICY_VIOLATION, text)
        if offset < _HIGH_WATERMARK:
            raise OffsetOutOfRange(f"{offset} is no offset; ask for 0 or more, or for -1: all")
        row["low_watermark"] = await context.engine.topics.trim(topic, index, Offset(offset))
    except PenstockError as error:
        row |= refused(context, error, produce_code)
    return row
