"""Rows about partitions in the answers to share consumers: leaders, and where they are.

A consumer at the wrong broker gets the leader and its address (KIP-951): share
answers have a place for both in every version.
"""

from penstock.core.types import NO_NODE, TopicId
from penstock.engine.engine import Engine
from penstock.kafka.codec import Answer
from penstock.kafka.context import Context
from penstock.kafka.error_codes import NOT_LEADER_OR_FOLLOWER
from penstock.kafka.fast_codec import Endpoint
from penstock.kafka.metadata import NO_BROKER, hint
from penstock.kafka.row_errors import Row
from penstock.kafka.share_sessions import PartitionKey, ShareSession


def lock_ms(engine: Engine, session: ShareSession) -> int:
    """How long a member may keep what it is given: an answer has one duration for all topics, so
    the shortest of those in the session."""
    catalog, group = engine.topics.catalog, session.group
    found = map(catalog.topic_by_id, {topic_id for topic_id, _ in session.partitions})
    leases = [
        catalog.work_settings(topic, group).rules.lease_ms for topic in found if topic is not None
    ]
    return min(leases, default=catalog.group_settings(group).work_rules.lease_ms)


class ShareRows:
    """Rows by topic, and the addresses that they lead to."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._topics: dict[TopicId, list[Row]] = {}
        self._endpoints: dict[int, Endpoint] = {}

    def add(self, key: PartitionKey, row: Row, *codes: int) -> None:
        """A row about a partition; `codes` are the errors in it."""
        topic_id, index = key
        leader = self._leader(key, moved=NOT_LEADER_OR_FOLLOWER in codes)
        self._topics.setdefault(topic_id, []).append(
            {"partition_index": index, "current_leader": leader, **row}
        )

    def _leader(self, key: PartitionKey, *, moved: bool) -> Answer:
        topic_id, index = key
        engine = self._context.engine
        topic = engine.topics.catalog.topic_by_id(topic_id)
        if topic is None or not 0 <= index < len(topic.partitions):
            return {"leader_id": NO_BROKER, "leader_epoch": -1}
        partition = topic.partitions[index]
        if moved:
            found = hint(engine, partition)
            if found is not None:
                self._endpoints[found[1].node] = found[1]
        leader = engine.topics.leader(engine.topics.shard_of(partition))
        if leader.node == NO_NODE:
            return {"leader_id": NO_BROKER, "leader_epoch": -1}
        return {"leader_id": leader.node, "leader_epoch": leader.term}

    def answer(self) -> dict[str, object]:
        """The fields of the answer."""
        return {
            "responses": [
                {"topic_id": topic_id, "partitions": rows}
                for topic_id, rows in self._topics.items()
            ],
            "node_endpoints": [
                {"node_id": one.node, "host": one.host, "port": one.port, "rack": one.rack}
                for one in self._endpoints.values()
            ],
        }
