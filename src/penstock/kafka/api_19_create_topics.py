"""CreateTopics, key 19: make topics.

Versions    2–7.
Behaviour   Topics of one request are made side by side; each is answered when its partitions can be
            written. -1 partitions are the broker's default. A replication factor from -1 up to the
            number of nodes is accepted: how many nodes hold a message is the cluster's business,
            and the answer has the real number. Replica assignments must be sound (partitions from
            0 on, known brokers, each once) and count for the number of partitions only. From
            version 5 on the answer lists all configs with their source. The timeout is not looked
            at: the answer comes within some 20 seconds.
KIPs        4, 464, 525 (configs in the answer), 516 (topic ids).
Not served  Placing replicas on chosen brokers.
"""

from collections import Counter

from penstock.core.errors import (
    InvalidAssignment,
    InvalidConfig,
    InvalidPartitions,
    InvalidReplicationFactor,
    InvalidRequest,
    PenstockError,
)
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, NodeId
from penstock.kafka.assignments import check_assignment
from penstock.kafka.codec import Answer, Message
from penstock.kafka.config_changes import check_given_once
from penstock.kafka.configs import topic_entries
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, side_by_side

DEFAULT = -1
"""What a client says to leave a number to the broker."""


async def handle(request: Message, context: Context) -> Answer:
    """Make each topic; one that cannot be made is answered with the reason and the others go on."""
    named = Counter([topic.name async for topic in context.each(request.topics)])

    async def create(wanted: Message) -> Row:
        row: Row = {
            "name": wanted.name,
            "topic_id": NO_TOPIC_ID,
            "error_message": None,
            "configs": [],
        }
        try:
            if named[wanted.name] > 1:
                raise InvalidRequest("the topic is named more than once in the request")
            count = _partitions(wanted, context)
            configs = _configs(wanted)
            topic = await context.engine.topics.create_topic(
                wanted.name, count, configs, validate_only=request.validate_only
            )
        except PenstockError as error:
            return row | refused(context, error)
        row |= _described(topic, context)
        if request.validate_only:
            row["topic_id"] = NO_TOPIC_ID  # There is no such topic yet.
        return row

    # Clients look topics up by name: one row for each name.
    once = {topic.name: topic for topic in request.topics}
    return {"topics": await side_by_side(create, once.values())}


def _partitions(wanted: Message, context: Context) -> int | None:
    """How many partitions are asked for, None for the default; refuse what cannot be had."""
    count, replicas = wanted.num_partitions, wanted.replication_factor
    nodes = _usable_nodes(context)
    if wanted.assignments:
        if (count, replicas) != (DEFAULT, DEFAULT):
            raise InvalidRequest(
                "give a number of partitions and a replication factor, or replica assignments, not"
                " both"
            )
        if {one.partition_index for one in wanted.assignments} != set(
            range(len(wanted.assignments))
        ):
            raise InvalidAssignment(
                "replica assignments name the partitions from 0 on, each of them once"
            )
        check_assignment([one.broker_ids for one in wanted.assignments], nodes)
        return len(wanted.assignments)
    if replicas != DEFAULT and not 1 <= replicas <= len(nodes):
        raise InvalidReplicationFactor(
            f"a replication factor of {replicas} in a cluster of {len(nodes)}; ask for 1 to"
            f" {len(nodes)}, or for -1 to leave it to the cluster"
        )
    if count == DEFAULT:
        return None
    if count < 1:
        raise InvalidPartitions(f"{count} partitions; ask for 1 or more, or for -1: the default")
    return int(count)


def _usable_nodes(context: Context) -> set[NodeId]:
    nodes = context.engine.topics.catalog.nodes
    return {node for node, record in nodes.items() if not record.leaving}


def _configs(wanted: Message) -> dict[str, str]:
    check_given_once(wanted)
    for one in wanted.configs:
        if one.value is None:
            raise InvalidConfig(f"config {one.name} has no value; leave it out for its default")
    return {one.name: one.value for one in wanted.configs}


def _described(topic: Topic, context: Context) -> Row:
    engine = context.engine
    entries = topic_entries(topic.configs) if context.version >= 5 else ()
    return {
        "topic_id": topic.topic_id,
        "num_partitions": len(topic.partitions),
        "replication_factor": len(
            engine.topics.replicas(engine.topics.shard_of(topic.partitions[0]))
        ),
        "configs": [
            {
                "name": entry.name,
                "value": entry.value,
                "read_only": entry.read_only,
                "config_source": int(entry.source),
                "is_sensitive": False,
            }
            for entry in entries
        ],
    }
