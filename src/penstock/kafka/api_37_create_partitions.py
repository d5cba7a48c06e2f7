"""CreatePartitions, key 37: give topics more partitions.

Versions    0–3.
Behaviour   The count is the number of partitions afterwards, above what there is: partitions are
            never taken away. Assignments must be sound and have one row for each new partition;
            where partitions live is decided by the cluster. The timeout is not looked at.
KIPs        195.
Not served  Placing replicas on chosen brokers.
"""

from collections import Counter

from penstock.core.errors import InvalidAssignment, InvalidRequest, PenstockError
from penstock.kafka.assignments import check_assignment
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, side_by_side


async def handle(request: Message, context: Context) -> Answer:
    """Grow each topic; one that cannot grow is answered with the reason and the others go on."""
    named = Counter(topic.name for topic in request.topics)

    async def grow(wanted: Message) -> Row:
        row: Row = {"name": wanted.name, "error_message": None}
        try:
            if named[wanted.name] > 1:
                raise InvalidRequest("the topic is named more than once in the request")
            # Validating first says what is wrong with the count before what is with assignments.
            topic = await context.engine.topics.add_partitions(
                wanted.name, wanted.count, validate_only=True
            )
            if wanted.assignments is not None:
                _check(wanted, wanted.count - len(topic.partitions), context)
            if not request.validate_only:
                await context.engine.topics.add_partitions(wanted.name, wanted.count)
        except PenstockError as error:
            row |= refused(context, error)
        return row

    once = {topic.name: topic for topic in request.topics}
    return {"results": await side_by_side(grow, once.values())}


def _check(wanted: Message, new: int, context: Context) -> None:
    if len(wanted.assignments) != new:
        raise InvalidAssignment(
            f"{new} partitions would be new and {len(wanted.assignments)} are assigned; leave the"
            " assignments out, or give one for each"
        )
    check_assignment(
        [one.broker_ids for one in wanted.assignments], context.engine.topics.catalog.nodes
    )
