"""AlterPartitionReassignments, key 45: move partitions to other brokers.

Versions    0–1.
Behaviour   Where partitions live is decided by the cluster, shard by shard, so that a wish for
            other brokers is refused with INVALID_REPLICA_ASSIGNMENT. A wish for the brokers that
            hold the partition already is granted, in any order. Cancelling a move is answered with
            NO_REASSIGNMENT_IN_PROGRESS: there is none.
KIPs        455, 860 (the replication factor).
Not served  Moving single partitions.
"""

from typing import Final

from penstock.core.errors import InvalidAssignment, PenstockError, UnknownPartition
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, refused_with

_NO_REASSIGNMENT_IN_PROGRESS: Final = 85


async def handle(request: Message, context: Context) -> Answer:
    """Grant what is so already, and say about the rest why it cannot be."""
    return {
        "allow_replication_factor_change": request.allow_replication_factor_change,
        "error_message": None,
        "responses": [
            {
                "name": topic.name,
                "partitions": [
                    _row(topic.name, one, context) async for one in context.each(topic.partitions)
                ],
            }
            for topic in request.topics
        ],
    }


def _row(name: str, asked: Message, context: Context) -> Row:
    engine, index = context.engine, asked.partition_index
    row: Row = {"partition_index": index, "error_message": None}
    try:
        topic = engine.topics.topic(name)
        if not 0 <= index < len(topic.partitions):
            raise UnknownPartition(f"topic {name} has no partition {index}")
        if asked.replicas is None:
            text = "partitions are not moved one by one, so no move can be cancelled"
            return row | refused_with(context, _NO_REASSIGNMENT_IN_PROGRESS, text)
        held_by = engine.topics.replicas(engine.topics.shard_of(topic.partitions[index]))
        if sorted(asked.replicas) != sorted(held_by):
            places = " ".join(map(str, held_by))
            raise InvalidAssignment(
                f"the partition is on brokers {places}, where the cluster has placed its shard; add"
                " or remove brokers and shards move by themselves"
            )
    except PenstockError as error:
        return row | refused(context, error)
    return row
