"""ListPartitionReassignments, key 46: moves of partitions that are under way.

Versions    0.
Behaviour   Shards move as a whole and by themselves, so no single partition is ever being moved:
            the answer is always empty.
KIPs        455.
Not served  Nothing is left out.
"""

from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context


async def handle(request: Message, context: Context) -> Answer:  # noqa: ARG001
    """No partition is being moved."""
    return {"error_message": None, "topics": []}
