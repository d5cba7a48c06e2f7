"""The start and end offsets of partitions, requested from their leaders.

`topic_survey` and `queue_survey` look at a partition in two ways, as a log and as a queue, and
share the plumbing: partitions are grouped by leader, every leader is asked once and at the same
time, and a partition whose leader does not reply is left out. A caller that needs all of them can
see which are missing.
"""

from collections.abc import Iterable
from typing import TypeVar

import msgspec

from penstock.core.errors import InvalidBatch
from penstock.core.message_batches import read_messages
from penstock.core.types import NodeId, Offset, PartitionId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics

NO_TIME = -1

P = TypeVar("P")


class PlacesRequest(msgspec.Struct, frozen=True, array_like=True):
    """The partitions, and the time to look up; `NO_TIME` for their end."""

    partitions: list[PartitionId]
    time_ms: int


async def find_places(
    topics: Topics,
    calls: RemoteCalls,
    call: RemoteCall[PlacesRequest, dict[PartitionId, P]],
    partitions: Iterable[PartitionId],
    time_ms: int,
) -> dict[PartitionId, P]:
    """Request the places of partitions from their leaders."""
    by_leader: dict[NodeId, list[PartitionId]] = {}
    for partition in partitions:
        leader = topics.leader(topics.shard_of(partition)).node
        by_leader.setdefault(leader, []).append(partition)
    asked = {node: PlacesRequest(some, time_ms) for node, some in by_leader.items()}
    answers = await calls.ask_each(call, asked)
    return {number: place for one in answers.replies.values() for number, place in one.items()}


def first_from(running: Shard, partition: PartitionId, time_ms: int) -> Offset:
    """The first message that is as late as this; the end of the partition if there is none.

    The log has the highest time of each batch, and only the batch itself the time of each message.
    A batch that cannot be opened is taken from its beginning: early, never late."""
    bounds = running.machine.bounds(partition)
    if time_ms < 0:
        return bounds.high_watermark
    found = running.replica.log.offset_for_time(partition, time_ms)
    if found is None or found[0] >= bounds.high_watermark:
        return bounds.high_watermark
    first = max(found[0], bounds.log_start)
    try:
        messages = read_messages(running.fetch(partition, first, 1))
    except InvalidBatch:
        return first
    late = (one.offset for one in messages if one.timestamp_ms >= time_ms)
    return max(bounds.log_start, next(late, first))
