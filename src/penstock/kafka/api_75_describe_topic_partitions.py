"""DescribeTopicPartitions, key 75: topics and who leads their partitions, page by page.

Versions    0.
Behaviour   Topics come sorted by name; no topic named is all of them. An answer holds as many
            partitions as the client asks for, 2000 at most; where there are more it ends with the
            cursor to go on from. A cursor at a topic that was deleted meanwhile goes on with the
            next one. Replicas that are up are in sync.
KIPs        966.
Not served  Eligible leader replicas: none but the members of a majority is ever elected, so the
            list is empty.
"""

from collections.abc import AsyncIterator, Iterable
from typing import Final

from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.internal_topics import is_internal
from penstock.core.topic import Topic
from penstock.core.types import NO_TOPIC_ID, NodeId, ShardId
from penstock.kafka.api_03_metadata import TOPIC_OPERATIONS
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import LEADER_NOT_AVAILABLE
from penstock.kafka.fast_codec import Endpoint
from penstock.kafka.metadata import NO_BROKER, brokers
from penstock.kafka.row_errors import Row, refused
from penstock.machines.topics import check_topic_name

PARTITIONS_MAX: Final = 2_000
"""Of one answer; Kafka's max.request.partition.size.limit."""


async def handle(request: Message, context: Context) -> Answer:
    """A page of topics."""
    cursor = request.cursor
    names = {topic.name for topic in request.topics}
    if cursor is not None and cursor.partition_index < 0:
        error = InvalidRequest(f"a cursor cannot be at partition {cursor.partition_index}")
        missing = (
            _missing(name, error, context)
            async for name in context.each(sorted(names or {cursor.topic_name}))
        )
        return {"topics": await context.rows("topics", missing), "next_cursor": None}
    wanted: Iterable[str] = names or context.engine.topics.catalog.topics
    if cursor is not None:
        wanted = [name for name in wanted if name >= cursor.topic_name]
    page = _Page(
        (cursor.topic_name, cursor.partition_index) if cursor is not None else ("", 0),
        max(1, min(request.response_partition_limit, PARTITIONS_MAX)),
        context,
    )
    topics = await context.rows("topics", page.rows(sorted(wanted)))
    return {"topics": topics, "next_cursor": page.next_cursor}


class _Page:
    def __init__(self, start: tuple[str, int], room: int, context: Context) -> None:
        self.next_cursor: Row | None = None
        self._start = start
        self._room = room
        self._context = context
        self._places = brokers(context.engine)
        self._by_shard: dict[ShardId, Row] = {}

    async def rows(self, names: list[str]) -> AsyncIterator[Row]:
        """The topics of the page; `next_cursor` is where the next one begins."""
        async for name in self._context.each(names):
            try:
                check_topic_name(name)
                topic = self._context.engine.topics.topic(name)
            except PenstockError as error:
                yield _missing(name, error, self._context)
                continue
            first = self._start[1] if name == self._start[0] else 0
            if self._room == 0:
                self.next_cursor = _cursor(name, first)
                return
            partitions = self._partitions(topic, first)
            yield {
                "name": name,
                "topic_id": topic.topic_id,
                "is_internal": is_internal(name),
                "partitions": partitions,
                "topic_authorized_operations": TOPIC_OPERATIONS,
            }
            self._room -= len(partitions)
            following = first + len(partitions)
            if following < len(topic.partitions):
                self.next_cursor = _cursor(name, following)
                return

    def _partitions(self, topic: Topic, first: int) -> list[Row]:
        by_shard = self._by_shard
        rows = []
        for index, partition in enumerate(topic.partitions[first : first + self._room], first):
            shard = self._context.engine.topics.shard_of(partition)
            if shard not in by_shard:
                by_shard[shard] = _shard_row(self._context, shard, self._places)
            rows.append(by_shard[shard] | {"partition_index": index})
        return rows


def _cursor(name: str, index: int) -> Row:
    return {"topic_name": name, "partition_index": index}


def _missing(name: str, error: PenstockError, context: Context) -> Row:
    row: Row = {"name": name, "topic_id": NO_TOPIC_ID, "partitions": []}
    return row | refused(context, error)


def _shard_row(context: Context, shard: ShardId, places: dict[NodeId, Endpoint]) -> Row:
    """What all partitions of a shard have in common."""
    engine = context.engine
    leader, replicas, alive = (
        engine.topics.leader(shard),
        engine.topics.replicas(shard),
        engine.topics.alive(),
    )
    is_known = leader.node in places
    return {
        "error_code": 0 if is_known else LEADER_NOT_AVAILABLE,
        "leader_id": leader.node if is_known else NO_BROKER,
        "leader_epoch": leader.term,
        "replica_nodes": replicas,
        "isr_nodes": [node for node in replicas if node in alive],
        "eligible_leader_replicas": [],
        "last_known_elr": [],
        "offline_replicas": [node for node in replicas if node not in alive],
    }
