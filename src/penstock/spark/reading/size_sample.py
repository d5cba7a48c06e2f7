"""The approximate size of a message: from the next batches of a partition, without opening them."""

from collections.abc import Mapping, Sequence
from typing import Final

from penstock.client.reader.positions import TopicPartition
from penstock.client.reader.raw_log import RawLog
from penstock.core.errors import OffsetOutOfRange, UnknownPartition
from penstock.core.limits import KIB
from penstock.spark.reading.decoder import heads_of

SAMPLE_BYTES: Final = 64 * KIB
FOREVER: Final = 1 << 62


async def bytes_per_message(
    raw: RawLog, places: Mapping[TopicPartition, int], parts: Sequence[TopicPartition]
) -> dict[TopicPartition, float]:
    """Stored bytes of a message after each of these places; nothing of one that is not there."""
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
