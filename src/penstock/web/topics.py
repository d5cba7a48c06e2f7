"""Topics over HTTP: what there is, where it lies, who reads it, and how far behind they are.

    GET     /v1/topics                    a line each (?prefix= &contains= &after= &limit=)
    GET     /v1/topics/{name}             partitions, configs, and the consumer groups that read it
    GET     /v1/topics/{name}/messages    what is in it: see `topic_messages.py`
    POST    /v1/groups/{group}/reset      {"to", "topic"?, "partitions"?, "dry_run"?}: go on there
    DELETE  /v1/groups/{group}            forget a group without members

Any node can be asked. A place to go on at is written as everywhere (`core.log_place`): earliest,
latest, an offset, -10, +5, or @ and a time. A dry run reports what would change and changes
nothing; a group with members is refused, as with Kafka.
"""

from collections.abc import Sequence
from typing import Annotated

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.errors import InvalidRequest
from penstock.core.internal_topics import is_internal
from penstock.core.log_place import ALLOWED, Place, parse_place
from penstock.core.topic import Topic
from penstock.core.types import PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.topic_survey import LogPlace, TopicReader
from penstock.web.answer_types import GroupDeleted, GroupReset, TopicList
from penstock.web.answers import json_answer
from penstock.web.api_operation import (
    INDEX_MAX,
    ApiOperation,
    QueryParameter,
    limit_parameter,
)
from penstock.web.broker import Broker, node_of
from penstock.web.requests import bounded, read_body, whole_number
from penstock.web.setting_names import is_queue
from penstock.web.topic_lines import PartitionLine, ReaderLine, TopicDetail, TopicLine

LIST_MAX = 1_000
PARTITIONS_SHOWN_MAX = 1_000
PARTITIONS_ASKED_MAX = 20_000
"""Of all topics of one answer together; those beyond it are listed without their sizes."""
PLACE_CHARACTERS_MAX = 100


class ResetGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body that resets the offsets of a consumer group."""

    to: str | int
    topic: str | None = None
    """None: in all that it has read."""
    partitions: list[int] | None = None
    """The partitions; None for all."""
    dry_run: bool = False


def topic_routes(broker: Broker) -> Sequence[ApiOperation]:
    """The paths of this module; they go before `/v1/groups/{group}`, which takes all that is
    left."""
    topics = _Topics(broker)
    return [
        ApiOperation(
            "GET",
            "/v1/topics",
            topics.list,
            "List the topics",
            query=[
                QueryParameter("prefix", str, "Only names with this prefix"),
                QueryParameter("contains", str, "Only names that contain this"),
                QueryParameter("after", str, "Only names after this one: `next` of an answer"),
                QueryParameter("internal", str, "1, true or yes: internal topics, too"),
                limit_parameter(LIST_MAX, LIST_MAX),
            ],
            answers={200: TopicList},
        ),
        ApiOperation(
            "GET",
            "/v1/topics/{name}",
            topics.describe,
            "Describe a topic: partitions, configs, and the consumer groups that read it",
            query=[
                QueryParameter(
                    "after_partition",
                    Annotated[int, msgspec.Meta(ge=0, le=INDEX_MAX)],
                    "Only partitions after this one: `next_partition` of an answer",
                )
            ],
            answers={200: TopicDetail},
        ),
        ApiOperation(
            "POST",
            "/v1/groups/{group:path}/reset",
            topics.reset_group,
            "Reset the offsets of a consumer group without members",
            body=ResetGroup,
            answers={200: GroupReset},
        ),
        ApiOperation(
            "DELETE",
            "/v1/groups/{group:path}",
            topics.delete_group,
            "Delete a consumer group without members",
            answers={200: GroupDeleted},
        ),
    ]


class _Topics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        limit = whole_number(request, "limit", LIST_MAX, least=1, most=LIST_MAX)
        asked = request.query_params
        lines, after = await topic_lines(
            node_of(self._broker),
            prefix=asked.get("prefix", ""),
            contains=asked.get("contains", ""),
            after=asked.get("after", ""),
            internal=asked.get("internal", "") in ("1", "true", "yes"),
            limit=limit,
        )
        return json_answer(TopicList(lines, after))

    async def describe(self, request: Request) -> Response:
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        last = len(topic.partitions) - 1
        first = 0
        if "after_partition" in request.query_params:
            first = whole_number(request, "after_partition", 0, most=last) + 1
        return json_answer(await topic_detail(node, topic, first=first))

    async def reset_group(self, request: Request) -> Response:
        wanted = await read_body(request, ResetGroup)
        node = node_of(self._broker)
        group = request.path_params["group"]
        resets = node.log_queries.resets
        changes = await bounded(
            resets.plan(
                group,
                read_place(str(wanted.to), node.engine.topics.clock.wall_ms()),
                topics=() if wanted.topic is None else (wanted.topic,),
                partitions=wanted.partitions,
            )
        )
        if not wanted.dry_run:
            await bounded(resets.carry_out(group, changes))
        return json_answer(
            GroupReset(
                group=group,
                changes=changes,
                lag=sum(one.end - one.after for one in changes),
                dry_run=wanted.dry_run,
            )
        )

    async def delete_group(self, request: Request) -> Response:
        group = request.path_params["group"]
        await bounded(node_of(self._broker).log_queries.resets.forget(group))
        return json_answer(GroupDeleted(group))


def read_place(written: str, now_ms: int) -> Place:
    """A place as it is written, or `InvalidRequest`."""
    try:
        return parse_place(written[:PLACE_CHARACTERS_MAX], now_ms)
    except (ValueError, OverflowError) as error:
        shown = written[:PLACE_CHARACTERS_MAX]
        raise InvalidRequest(f'"{shown}" is not a place in a log; write {ALLOWED}') from error


async def topic_lines(
    node: Node,
    *,
    prefix: str = "",
    contains: str = "",
    after: str = "",
    internal: bool = False,
    limit: int = LIST_MAX,
) -> tuple[list[TopicLine], str | None]:
    """Topics by name, and the name after which there are more."""
    chosen = sorted(
        name
        for name in node.engine.topics.catalog.topics
        if name.startswith(prefix)
        and contains in name
        and name > after
        and (internal or not is_internal(name))
    )
    topics = [topic for name in chosen[:limit] if (topic := node.engine.topics.catalog.topic(name))]
    asked: list[PartitionId] = []
    for topic in topics:
        if len(asked) + len(topic.partitions) <= PARTITIONS_ASKED_MAX:
            asked += topic.partitions
    places = await node.log_queries.survey.places(asked)
    lines = [topic_line(topic, places) for topic in topics]
    return lines, chosen[limit - 1] if len(chosen) > limit else None


def topic_line(topic: Topic, places: dict[PartitionId, LogPlace]) -> TopicLine:
    """A topic, given where its partitions are."""
    found = [place for one in topic.partitions if (place := places.get(one)) is not None]
    whole = len(found) == len(topic.partitions)
    return TopicLine(
        name=topic.name,
        partitions=len(topic.partitions),
        is_queue=is_queue(topic.configs),
        is_internal=is_internal(topic.name),
        created_ms=topic.created_ms,
        messages=sum(one.end - one.log_start for one in found) if whole else None,
        size_bytes=sum(one.size_bytes for one in found) if whole else None,
    )


async def topic_detail(node: Node, topic: Topic, *, first: int = 0) -> TopicDetail:
    """All about a topic, with its partitions from one on."""
    engine = node.engine
    places = await node.log_queries.survey.places(topic.partitions[:PARTITIONS_ASKED_MAX])
    readers = await node.log_queries.survey.readers(topic)
    count = len(topic.partitions)
    stop = min(count, first + PARTITIONS_SHOWN_MAX)
    rows = []
    for index in range(first, stop):
        shard = engine.topics.shard_of(topic.partitions[index])
        place = places.get(topic.partitions[index])
        rows.append(
            PartitionLine(
                partition=index,
                shard=shard,
                leader=engine.topics.leader(shard).node,
                replicas=list(engine.topics.replicas(shard)),
                log_start=None if place is None else place.log_start,
                end=None if place is None else place.end,
                size_bytes=None if place is None else place.size_bytes,
            )
        )
    line = topic_line(topic, places)
    return TopicDetail(
        **msgspec.structs.asdict(line),
        id=topic.topic_id.hex(),
        configs=dict(topic.configs),
        rows=rows,
        next_partition=stop - 1 if stop < count else None,
        readers=[_reader_line(topic, one, places) for one in readers],
    )


def _reader_line(
    topic: Topic, reader: TopicReader, places: dict[PartitionId, LogPlace]
) -> ReaderLine:
    lag: int | None = 0
    for index, committed in reader.committed.items():
        place = places.get(topic.partitions[index]) if index < len(topic.partitions) else None
        lag = None if lag is None or place is None else lag + max(0, place.end - committed)
    return ReaderLine(
        group=reader.group,
        state=reader.state,
        members=reader.members,
        lag=lag,
        committed={str(index): offset for index, offset in reader.committed.items()},
    )
