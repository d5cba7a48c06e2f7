"""Topics, nodes and producers, for native clients: answered by any node."""

import contextlib

from penstock.core.errors import PenstockError, TopicExists
from penstock.core.queue_defaults import FIRST_USE_DEFAULTS, failure_configs
from penstock.core.queue_rules import Deduplication
from penstock.core.topic import Topic
from penstock.core.types import ShardId
from penstock.core.version import __version__
from penstock.engine.engine import Engine
from penstock.engine.moves.dead_letters import make_dead_letter_queue
from penstock.native.context import Context, Handlers, Reply
from penstock.wire.requests import (
    AddPartitions,
    AskCluster,
    AskProducer,
    AskTopic,
    AskTopics,
    ClusterInfo,
    ConfigureTopic,
    CreateTopic,
    DeleteTopic,
    Done,
    NodeInfo,
    ProducerInfo,
    TopicInfo,
    TopicRow,
    TopicRows,
)

NEW_QUEUE_PARTITIONS = 1


async def answer_cluster(context: Context, _request: AskCluster, _payload: memoryview) -> Reply:
    """All nodes, and where clients reach them."""
    engine = context.engine
    alive = engine.topics.alive()
    stuck = tuple(one for one in engine.topics.shards() if engine.topics.is_read_only(ShardId(one)))
    holders = {node for shard in stuck for node in engine.topics.replicas(ShardId(shard))}
    nodes = tuple(
        NodeInfo(node, record.kafka, node in alive, record.http, node in holders)
        for node, record in sorted(engine.topics.catalog.nodes.items())
    )
    controller = engine.topics.controller()
    info = ClusterInfo(
        engine.topics.cluster_id, engine.topics.node_id, controller, __version__, nodes, stuck
    )
    return info, b""


async def answer_producer(context: Context, _request: AskProducer, _payload: memoryview) -> Reply:
    """A new producer's id."""
    return ProducerInfo(await context.engine.topics.new_producer_id()), b""


async def answer_topic(context: Context, request: AskTopic, _payload: memoryview) -> Reply:
    """A topic by name; it is made if the client wants it and the broker lets it."""
    engine = context.engine
    topic = engine.topics.catalog.topic(request.name)
    if topic is None:
        if not request.create or not engine.topics.settings.auto_create_topics:
            topic = engine.topics.topic(request.name)  # Says that there is none.
        else:
            topic = await _make(engine, request)
    return describe(engine, topic), b""


async def _make(engine: Engine, request: AskTopic) -> Topic:
    name = request.name
    try:
        if request.create != "queue":
            return await engine.topics.create_topic(name, None, {})
        configs = {**FIRST_USE_DEFAULTS, **failure_configs(name, {})}
        topic = await engine.topics.create_topic(name, NEW_QUEUE_PARTITIONS, configs)
    except TopicExists:  # Another request was quicker.
        return engine.topics.topic(name)
    await _make_dead_letters(engine, topic)
    return topic


async def _make_dead_letters(engine: Engine, topic: Topic) -> None:
    """Make the dead-letter queue of a new queue. It is made with the first dead message as well,
    and a queue without one is of use: what keeps it from being made now is no reason to fail."""
    name = topic.settings.queue.dead_letter_topic
    if name:
        with contextlib.suppress(PenstockError):
            await make_dead_letter_queue(engine.topics, topic, name)


async def answer_topics(context: Context, _request: AskTopics, _payload: memoryview) -> Reply:
    """All topics in a line each."""
    rows = (
        TopicRow(topic.name, topic.topic_id, len(topic.partitions), topic.settings.queue.is_queue)
        for _, topic in sorted(context.engine.topics.catalog.topics.items())
    )
    return TopicRows(tuple(rows)), b""


async def answer_create(context: Context, request: CreateTopic, _payload: memoryview) -> Reply:
    """Make a topic."""
    topic = await context.engine.topics.create_topic(
        request.name, request.partitions, request.configs
    )
    if request.dead_letters:
        await _make_dead_letters(context.engine, topic)
    return describe(context.engine, topic), b""


async def answer_configure(
    context: Context, request: ConfigureTopic, _payload: memoryview
) -> Reply:
    """Change configs."""
    topic = await context.engine.topics.configure_topic(request.name, request.changes)
    return describe(context.engine, topic), b""


async def answer_add_partitions(
    context: Context, request: AddPartitions, _payload: memoryview
) -> Reply:
    """More partitions."""
    topic = await context.engine.topics.add_partitions(request.name, request.total)
    return describe(context.engine, topic), b""


async def answer_delete(context: Context, request: DeleteTopic, _payload: memoryview) -> Reply:
    """Remove a topic."""
    await context.engine.topics.delete_topic(request.name)
    return Done(), b""


def describe(engine: Engine, topic: Topic) -> TopicInfo:
    """What a client has to know of a topic."""
    rules = topic.settings.queue.queue_rules
    leaders = tuple(
        engine.topics.leader(engine.topics.shard_of(one)).node for one in topic.partitions
    )
    return TopicInfo(
        name=topic.name,
        topic_id=topic.topic_id,
        leaders=leaders,
        is_queue=topic.settings.queue.is_queue,
        fifo=rules.fifo,
        remembers_ids=rules.deduplication is not Deduplication.OFF,
        reads_headers=rules.delivery_headers,
        batch_bytes_max=topic.settings.message_bytes_max,
        configs=dict(topic.configs),
        created_ms=topic.created_ms,
    )


TOPIC_HANDLERS: Handlers = {
    AddPartitions: answer_add_partitions,
    AskCluster: answer_cluster,
    AskProducer: answer_producer,
    AskTopic: answer_topic,
    AskTopics: answer_topics,
    ConfigureTopic: answer_configure,
    CreateTopic: answer_create,
    DeleteTopic: answer_delete,
}
