"""Who and what is where, in the words of the protocol: addresses, leaders, topics by name or id."""

from typing import TYPE_CHECKING

from penstock.core.errors import UnknownTopic, UnknownTopicId
from penstock.core.types import NO_NODE, NodeId, PartitionId, ShardId, TopicId
from penstock.engine.peers.leaders import Leader
from penstock.kafka.fast_codec import Endpoint, LeaderHint, TopicKey

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.engine import Engine
    from penstock.machines.catalog import NodeRecord

NO_BROKER = -1
"""Kafka's word for a node that is not known."""


def find_topic(engine: "Engine", key: TopicKey) -> "Topic":
    """The topic of a name or an id; raises `UnknownTopic` or `UnknownTopicId`."""
    catalog = engine.topics.catalog
    if isinstance(key, bytes):
        found = catalog.topic_by_id(TopicId(key))
        if found is None:
            raise UnknownTopicId(f"there is no topic with the id {key.hex()}")
        return found
    found = catalog.topic(key)
    if found is None:
        raise UnknownTopic(f"there is no topic {key}")
    return found


def endpoint(record: "NodeRecord") -> Endpoint | None:
    """Where a node's Kafka port is; None if it has not said so yet."""
    host, _, port = record.kafka.rpartition(":")
    if not port.isdecimal():
        return None
    return Endpoint(record.node, host.strip("[]"), int(port), record.rack or None)


def brokers(engine: "Engine") -> dict[NodeId, Endpoint]:
    """The nodes that clients may talk to: those that are up and have said where."""
    alive = engine.topics.alive()
    found = {
        node: endpoint(record)
        for node, record in sorted(engine.topics.catalog.nodes.items())
        if node in alive
    }
    return {node: place for node, place in found.items() if place is not None}


def reachable_leader(engine: "Engine", shard: ShardId) -> tuple[Leader, Endpoint] | None:
    """The leader of a shard and its address, if both are known."""
    leader = engine.topics.leader(shard)
    record = engine.topics.node(leader.node) if leader.node != NO_NODE else None
    place = endpoint(record) if record is not None else None
    return None if place is None else (leader, place)


def hint(engine: "Engine", partition: PartitionId) -> tuple[LeaderHint, Endpoint] | None:
    """KIP-951: where a client that came here for this partition should go."""
    found = reachable_leader(engine, engine.topics.shard_of(partition))
    if found is None or found[0].node == engine.topics.node_id:
        return None
    leader, place = found
    return LeaderHint(leader.node, leader.term), place


def member_host(host: str) -> str:
    """The host of a group's member as Kafka writes it, with a slash before the address."""
    return f"/{host}" if host else ""
