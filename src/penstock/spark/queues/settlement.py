"""Settling what a stream has finished: after Spark has committed a micro-batch, and never before.

Every range of the batch is acked for the work group of the queue; what died in it is dead already
(`failures`) and stays so. Each range has a number of its own that counts upwards, so the broker
applies it once, however often it is sent: by the reader when the next batch is planned, by the
listener (`progress`) as soon as the batch is committed, and again by the reader after a restart.

When is a batch committed? Spark plans a batch with `latestOffset(start)` only after the one that
ends at `start` is in its commit log; a batch that was planned and not committed is run again first.
So `start` is always safe to settle, and after a restart it is the batch that may not be settled
yet: those before it were, or it would not have been planned.
"""

import asyncio
from typing import Final

from penstock.client.client import Client
from penstock.spark.queues.queue_batch import QueueBatch, Range

RANGES_MAX: Final = 1_000
"""Of one batch and partition: what is numbered together."""


async def settle(client: Client, group: str, batch: QueueBatch) -> int:
    """Acknowledge what a committed batch has read; returns how many were not done before."""
    if batch.number < 0:
        return 0
    queue = client.queue(batch.queue, group=group)
    shares: dict[int, list[Range]] = {}
    for partition, one in batch.ranges():
        shares.setdefault(partition, []).append(one)

    async def ack(partition: int, ranges: list[Range]) -> int:
        assert len(ranges) <= RANGES_MAX, f"a batch of {len(ranges)} ranges"
        count = 0
        for number, (first, end) in enumerate(ranges, batch.number * RANGES_MAX):
            count += await queue.ack_range(partition, first, end, stream=batch.stream, batch=number)
        return count

    return sum(await asyncio.gather(*(ack(*share) for share in shares.items())))
