"""Metadata, key 3: brokers, topics, and who leads what.

Versions    0–13.
Behaviour   Brokers are the nodes that are up. A partition's replicas are those of its shard, those
            in sync are the ones that are up; while its leader is not known it has the error
            LEADER_NOT_AVAILABLE, which clients wait out. A topic that does not exist is made if
            both the client and this broker's settings allow it. Topics by id from version 12 on;
            an id that is not zero counts more than a name beside it.
            The cluster's own topics are internal, and patterns pass them over.
            Encoded answers are kept as long as catalog, leaders and live nodes stay as they are.
KIPs        4, 112 (offline replicas), 430, 482, 516, 700 (no cluster operations from 11 on), 1102
            (error REBOOTSTRAP_REQUIRED is never sent).
Not served  Access rights: everything is allowed, and said to be when asked.
"""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Final

from penstock.core.errors import (
    OutcomeUnknown,
    PenstockError,
    TopicExists,
    Unavailable,
)
from penstock.core.internal_topics import is_internal
from penstock.core.types import NO_TOPIC_ID, NodeId, ShardId, TopicId
from penstock.kafka.codec import Answer, EncodedRows, Message, row_writer
from penstock.kafka.context import Context
from penstock.kafka.error_codes import LEADER_NOT_AVAILABLE, code_of
from penstock.kafka.fast_codec import Endpoint, TopicKey
from penstock.kafka.metadata import NO_BROKER, brokers, find_topic
from penstock.kafka.row_errors import Row
from penstock.machines.topics import check_topic_name

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.engine import Engine

NO_OPERATIONS: Final = -(1 << 31)
"""Kafka's word for operations that were not asked for."""
# KIP-430, a bit for each: read, write, create, delete, alter, describe, describe and alter configs.
TOPIC_OPERATIONS: Final = sum(1 << bit for bit in (3, 4, 5, 6, 7, 8, 10, 11))
# Create, alter, describe, cluster action, describe and alter configs, idempotent write.
CLUSTER_OPERATIONS: Final = sum(1 << bit for bit in (5, 7, 8, 9, 10, 11, 12))


async def handle(request: Message, context: Context) -> Answer | bytes:
    """What the client asked for, or everything."""
    engine = context.engine
    wanted = _wanted(request, context.version)
    refused = await _create_missing(wanted or [], request, engine)
    question = (
        context.version,
        None if wanted is None else tuple(wanted),
        request.include_topic_authorized_operations,
        request.include_cluster_authorized_operations,
    )
    known = context.port_state.metadata_cache.find(engine, question)
    if known is not None:
        return known
    places = brokers(engine)
    failed = 0

    async def rows() -> AsyncIterator[Row]:
        nonlocal failed
        if wanted is None:
            topics = [topic for _, topic in sorted(engine.topics.catalog.topics.items())]
            async for topic in context.each(topics):
                yield _topic_row(context, topic, request, places)
            return
        async for key in context.each(wanted):
            row = _row(key, request, context, places, refused)
            failed += bool(row["error_code"])
            yield row

    answer: Answer = {
        "brokers": [
            {"node_id": place.node, "host": place.host, "port": place.port, "rack": place.rack}
            for place in places.values()
        ],
        "cluster_id": engine.topics.cluster_id,
        "controller_id": engine.topics.controller()
        if engine.topics.controller() in places
        else NO_BROKER,
        "topics": await context.rows("topics", rows()),
        "cluster_authorized_operations": CLUSTER_OPERATIONS
        if request.include_cluster_authorized_operations
        else NO_OPERATIONS,
    }
    if failed:
        return answer
    chosen = context.codec
    whole = await context.run_in_slices(chosen.encode_in_portions(0, answer))
    body = bytes(whole[chosen.head_bytes :])
    context.port_state.metadata_cache.keep(question, body)
    return body


def _wanted(request: Message, version: int) -> list[TopicKey] | None:
    """The topics asked for, each once; None for all, which version 0 says with an empty list."""
    if request.topics is None or (version == 0 and not request.topics):
        return None
    return list(dict.fromkeys(map(_key, request.topics)))


def _key(asked: Message) -> TopicKey:
    """An id counts more than a name: the Java client asks by id with an empty name."""
    if asked.topic_id != NO_TOPIC_ID or asked.name is None:
        return TopicId(asked.topic_id)
    return str(asked.name)


async def _create_missing(
    wanted: list[TopicKey], request: Message, engine: "Engine"
) -> dict[TopicKey, int]:
    """Make the topics that do not exist, if that is allowed; the codes of those that cannot be."""
    refused: dict[TopicKey, int] = {}
    allowed = request.allow_auto_topic_creation and engine.topics.settings.auto_create_topics
    for key in wanted if allowed else ():
        if isinstance(key, str) and engine.topics.catalog.topic(key) is None:
            try:
                await engine.topics.create_topic(key, None, {})
            except TopicExists:
                continue  # Another client was faster.
            except (Unavailable, OutcomeUnknown):
                # Known to every client as a reason to ask again.
                refused[key] = LEADER_NOT_AVAILABLE
            except PenstockError as error:
                refused[key] = code_of(error)
    return refused


def _row(
    key: TopicKey,
    request: Message,
    context: Context,
    places: dict[NodeId, Endpoint],
    refused: dict[TopicKey, int],
) -> Row:
    try:
        if isinstance(key, str):
            check_topic_name(key)
        return _topic_row(context, find_topic(context.engine, key), request, places)
    except PenstockError as error:
        code = refused.get(key) or code_of(error)
    context.count_error(code)
    if isinstance(key, bytes):
        # Nullable from version 12 on only, and asked for by id only from there on.
        name = None if context.version >= 12 else ""
        return {"error_code": code, "name": name, "topic_id": key, "partitions": []}
    return {"error_code": code, "name": key, "topic_id": NO_TOPIC_ID, "partitions": []}


def _topic_row(
    context: Context, topic: "Topic", request: Message, places: dict[NodeId, Endpoint]
) -> Row:
    operations = TOPIC_OPERATIONS if request.include_topic_authorized_operations else NO_OPERATIONS
    return {
        "error_code": 0,
        "name": topic.name,
        "topic_id": topic.topic_id,
        "is_internal": is_internal(topic.name),
        "partitions": _partition_rows(context, topic, places),
        "topic_authorized_operations": operations,
    }


def _partition_rows(
    context: Context, topic: "Topic", places: dict[NodeId, Endpoint]
) -> EncodedRows:
    """The rows of a topic's partitions, of which those of one shard differ in the index only.

    In every version a row starts with the error code, i16, and the index, i32."""
    engine = context.engine
    write = row_writer(3, context.version, ("topics", "partitions"))
    by_shard: dict[ShardId, tuple[bytes, bytes]] = {}
    pieces: list[bytes] = []
    for index, partition in enumerate(topic.partitions):
        shard = engine.topics.shard_of(partition)
        around = by_shard.get(shard)
        if around is None:
            row = bytearray()
            write(_shard_row(engine, shard, places), row)
            around = by_shard[shard] = bytes(row[:2]), bytes(row[6:])
        pieces += (around[0], index.to_bytes(4, "big"), around[1])
    return EncodedRows(len(topic.partitions), b"".join(pieces))


def _shard_row(engine: "Engine", shard: ShardId, places: dict[NodeId, Endpoint]) -> Row:
    """What all partitions of a shard have in common."""
    leader = engine.topics.leader(shard)
    replicas = engine.topics.replicas(shard)
    alive = engine.topics.alive()
    is_known = leader.node in places
    return {
        "error_code": 0 if is_known else LEADER_NOT_AVAILABLE,
        "partition_index": 0,
        "leader_id": leader.node if is_known else NO_BROKER,
        "leader_epoch": leader.term,
        "replica_nodes": replicas,
        "isr_nodes": [node for node in replicas if node in alive],
        "offline_replicas": [node for node in replicas if node not in alive],
    }
