"""Queues over HTTP: what there is, how it is set, and what an operator does to it.

    GET     /v1/queues                   all queues, a line each (?prefix= &after= &limit=)
    POST    /v1/queues                   {"name", "partitions"?, "settings"?, "exist_ok"?}: make one
    GET     /v1/queues/{name}            settings, counts by work group, moves
    PATCH   /v1/queues/{name}            {"settings", "group"?}: change some; null is back to the
                                         default, and for a work group back to the queue's
    DELETE  /v1/queues/{name}            the topic and all that is in it
    POST    /v1/queues/{name}/purge      {"group"?}: drop all that waits, is leased or is dead
    POST    /v1/queues/{name}/pause      deliver nothing for now
    POST    /v1/queues/{name}/resume
    POST    /v1/queues/{name}/reset      {"start" | "time_ms", "group"?, "partition"?, "dry_run"?}

Messages are in `queue_work.py`, dead letters in `queue_moves.py`. Any node can be asked.

A queue is a topic seen through a work group. Every topic can be one; the list has those with a
config of a queue (`queue.*`) or an open work group.
"""

import asyncio
import contextlib
from collections.abc import Collection, Mapping, Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.core.errors import (
    InvalidRequest,
    PenstockError,
    TopicExists,
    Unavailable,
    UnknownWork,
)
from penstock.core.queue_defaults import DEAD_LETTER_TOPIC, QUEUE_DEFAULTS, failure_configs
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import EARLIEST, LATEST, Offset, PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import QueuePlace
from penstock.engine.engine import Engine
from penstock.engine.inspection.partition_places import NO_TIME
from penstock.engine.moves.dead_letters import dead_letter_configs
from penstock.engine.moves.letter_counts import count_letters, dead_letter_queue
from penstock.web.answer_types import (
    QueueDeleted,
    QueueKept,
    QueueList,
    QueueMade,
    QueuePurged,
    QueueReset,
    SettingsInForce,
)
from penstock.web.answers import json_answer
from penstock.web.api_operation import ApiOperation, QueryParameter, limit_parameter
from penstock.web.broker import Broker, node_of
from penstock.web.queue_lines import GroupCounts, QueueDetail, QueueLine, ResetPlace
from penstock.web.queue_moves import move_lines
from penstock.web.requests import bounded, read_body, whole_number
from penstock.web.setting_names import (
    SettingValue,
    group_settings,
    is_queue,
    queue_kind,
    queue_settings,
    topic_configs,
)

LIST_MAX = 1_000
COUNTED_AT_ONCE = 16
_ENDS: Mapping[object, Offset] = {"earliest": EARLIEST, "latest": LATEST}
_STATES = ("ready", "leased", "delayed", "dead", "acked", "moved", "expired", "purged",
           "dropped", "duplicates")  # fmt: skip


class CreateQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body of a request that creates a queue. Settings for failed messages that it leaves out
    are safe: 5 deliveries, growing waits and a dead-letter queue."""

    name: str
    partitions: int = 1
    settings: dict[str, SettingValue] = {}
    exist_ok: bool = False
    """A queue that is there is left as it is; the answer tells what differs."""


class ConfigureQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that changes settings."""

    settings: dict[str, SettingValue]
    group: str = DEFAULT_WORK_GROUP
    """The settings of the default group are the queue's."""


class WorkGroup(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The body that may name a work group."""

    group: str = DEFAULT_WORK_GROUP


class ResetQueue(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """The body that resets the offsets of a work group."""

    start: int | str | None = None
    """An offset, "earliest" or "latest"."""
    time_ms: int | None = None
    """The first message of this time or later."""
    group: str = DEFAULT_WORK_GROUP
    partition: int | None = None
    """The partition; None for all."""
    dry_run: bool = False


def queue_routes(broker: Broker) -> Sequence[ApiOperation]:
    queues = _Queues(broker)
    one = "/v1/queues/{name}"
    return [
        ApiOperation(
            "GET",
            "/v1/queues",
            queues.list,
            "List the queues, with the counts of each work group",
            query=[
                QueryParameter("prefix", str, "Only names with this prefix"),
                QueryParameter("after", str, "Only names after this one: `next` of an answer"),
                limit_parameter(LIST_MAX, LIST_MAX),
            ],
            answers={200: QueueList},
        ),
        ApiOperation(
            "POST",
            "/v1/queues",
            queues.create,
            "Create a queue, and its dead-letter queue unless that is there or is set to empty",
            body=CreateQueue,
            answers={201: QueueMade, 200: QueueKept},
        ),
        ApiOperation(
            "GET",
            one,
            queues.describe,
            "Describe a queue: settings, counts by work group, moves",
            answers={200: QueueDetail},
        ),
        ApiOperation(
            "PATCH",
            one,
            queues.configure,
            "Change settings of a queue or of one of its work groups; null resets to the default",
            body=ConfigureQueue,
            answers={200: SettingsInForce},
        ),
        ApiOperation(
            "DELETE",
            one,
            queues.delete,
            "Delete a queue: the topic and all its messages",
            answers={200: QueueDeleted},
        ),
        *_order_routes(queues, one),
    ]


def _order_routes(queues: "_Queues", one: str) -> Sequence[ApiOperation]:
    return [
        ApiOperation(
            "POST",
            f"{one}/purge",
            queues.purge,
            "Drop all messages that are ready, leased, delayed or dead",
            body=WorkGroup,
            answers={200: QueuePurged},
        ),
        ApiOperation(
            "POST",
            f"{one}/pause",
            queues.pause,
            "Pause delivery until the queue is resumed",
            answers={200: SettingsInForce},
        ),
        ApiOperation(
            "POST",
            f"{one}/resume",
            queues.resume,
            "Deliver again",
            answers={200: SettingsInForce},
        ),
        ApiOperation(
            "POST",
            f"{one}/reset",
            queues.reset,
            "Reset the offsets of a work group to an offset or a time",
            body=ResetQueue,
            answers={200: QueueReset},
        ),
    ]


class _Queues:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker

    async def list(self, request: Request) -> Response:
        node = node_of(self._broker)
        limit = whole_number(request, "limit", LIST_MAX, least=1, most=LIST_MAX)
        prefix, after = (request.query_params.get(name, "") for name in ("prefix", "after"))
        groups = await node.survey.groups()
        chosen = sorted(
            (name, _groups(topic, groups))
            for name, topic in node.engine.topics.catalog.topics.items()
            if name.startswith(prefix)
            and name > after
            and (is_queue(topic.configs) or _groups(topic, groups))
        )
        slots = asyncio.Semaphore(COUNTED_AT_ONCE)
        letters = await _letters(node.engine, chosen[:limit])

        async def line(name: str, names: Sequence[str]) -> QueueLine | None:
            async with slots:
                topic = node.engine.topics.catalog.topic(name)
                return None if topic is None else await _line(node.engine, topic, names, letters)

        lines = await asyncio.gather(*(line(*one) for one in chosen[:limit]))
        return json_answer(
            QueueList(
                queues=[one for one in lines if one is not None],
                next=chosen[limit - 1][0] if len(chosen) > limit else None,
            )
        )

    async def create(self, request: Request) -> Response:
        """Also makes the dead-letter queue, unless it is there: a queue that fails must not find
        out then that there is no place for its failures."""
        wanted = await read_body(request, CreateQueue)
        engine = node_of(self._broker).engine
        given = topic_configs(wanted.settings)
        chosen = {name: text for name, text in given.items() if text is not None}
        configs = {**QUEUE_DEFAULTS, **failure_configs(wanted.name, chosen), **chosen}
        try:
            topic = await bounded(_make(engine, wanted.name, wanted.partitions, configs))
        except TopicExists:
            known = engine.topics.catalog.topic(wanted.name)
            if not wanted.exist_ok or known is None:
                raise
            return json_answer(_as_it_is(known, given))
        created = [wanted.name]
        letters = topic.settings.queue.dead_letter_topic
        if letters and engine.topics.catalog.topic(letters) is None:
            named = DEAD_LETTER_TOPIC in chosen
            # One that is only a default is made with the first dead message, if not now.
            with contextlib.suppress(*(() if named else (PenstockError,))):
                partitions = wanted.partitions if named else 1
                await bounded(_make(engine, letters, partitions, dead_letter_configs(topic)))
                created.append(letters)
        answer = QueueMade(
            name=topic.name,
            partitions=len(topic.partitions),
            settings=queue_settings(topic.configs),
            created=created,
        )
        return json_answer(answer, status=201)

    async def describe(self, request: Request) -> Response:
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        places = await node.survey.places(topic.partitions)
        groups = sorted({group for place in places.values() for group in place.starts})
        letters = await _letters(node.engine, [(topic.name, groups)])
        line = await _line(node.engine, topic, groups, letters)
        return json_answer(
            QueueDetail(
                **msgspec.structs.asdict(line),
                created_ms=topic.created_ms,
                settings=queue_settings(topic.configs),
                moves=await move_lines(node, topic),
                group_settings={
                    group: group_settings(node.groups.work_settings(topic, group))
                    for group in groups
                },
            )
        )

    async def configure(self, request: Request) -> Response:
        wanted = await read_body(request, ConfigureQueue)
        changes = topic_configs(wanted.settings)
        if wanted.group == DEFAULT_WORK_GROUP:
            return await self._configure(request, changes)
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        await bounded(node.groups.configure_work_group(topic, wanted.group, changes))
        settings = group_settings(node.groups.work_settings(topic, wanted.group))
        return json_answer(
            SettingsInForce(name=topic.name, group=wanted.group, settings={**settings})
        )

    async def delete(self, request: Request) -> Response:
        engine = node_of(self._broker).engine
        topic = engine.topics.topic(request.path_params["name"])
        await bounded(engine.topics.delete_topic(topic.name, topic.topic_id))
        return json_answer(QueueDeleted(topic.name))

    async def purge(self, request: Request) -> Response:
        wanted = await read_body(request, WorkGroup)
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        await node.survey.require(topic, wanted.group)
        count = await bounded(node.delivery.purge(topic, wanted.group))
        return json_answer(QueuePurged(topic.name, wanted.group, count))

    async def pause(self, request: Request) -> Response:
        return await self._configure(request, {"queue.paused": "true"})

    async def resume(self, request: Request) -> Response:
        return await self._configure(request, {"queue.paused": None})

    async def reset(self, request: Request) -> Response:
        wanted = await read_body(request, ResetQueue)
        node = node_of(self._broker)
        topic = node.engine.topics.topic(request.path_params["name"])
        places = await _reset_places(node, topic, wanted)
        if not wanted.dry_run:
            for one in places:
                start = _ENDS.get(wanted.start, Offset(one.start))
                await bounded(
                    node.engine.delivery.reset(
                        topic, wanted.group, index=one.partition, start=start
                    )
                )
        return json_answer(
            QueueReset(
                group=wanted.group,
                partitions=places,
                messages=sum(one.end - one.start for one in places),
                dry_run=wanted.dry_run,
            )
        )

    async def _configure(self, request: Request, changes: Mapping[str, str | None]) -> Response:
        engine = node_of(self._broker).engine
        topic = await bounded(engine.topics.configure_topic(request.path_params["name"], changes))
        return json_answer(
            SettingsInForce(name=topic.name, settings={**queue_settings(topic.configs)})
        )


async def _make(engine: Engine, name: str, partitions: int, configs: Mapping[str, str]) -> Topic:
    topic = await engine.topics.create_topic(name, partitions, configs)
    await engine.delivery.open(topic, DEFAULT_WORK_GROUP)
    return topic


def _as_it_is(topic: Topic, given: Mapping[str, str | None]) -> QueueKept:
    """The answer about a queue that was there, with what was wanted otherwise."""
    settings = queue_settings(topic.configs)
    other = queue_settings(
        {**topic.configs, **{name: text for name, text in given.items() if text is not None}}
    )
    return QueueKept(
        name=topic.name,
        partitions=len(topic.partitions),
        settings=settings,
        created=[],
        differs={name: other[name] for name in settings if other[name] != settings[name]},
    )


def _groups(topic: Topic, groups: Mapping[PartitionId, Collection[str]]) -> list[str]:
    return sorted({name for partition in topic.partitions for name in groups.get(partition, ())})


async def _letters(engine: Engine, queues: Sequence[tuple[str, Sequence[str]]]) -> dict[str, int]:
    """Return the numbers of messages in the dead-letter queues of these queues and work groups;
    each is counted once."""
    names = set()
    for name, groups in queues:
        topic = engine.topics.catalog.topic(name)
        if topic is not None:
            names |= {dead_letter_queue(engine.topics, topic, group) for group in groups}
    return await count_letters(engine.topics, engine.delivery, names)


async def _line(
    engine: Engine, topic: Topic, groups: Sequence[str], letters: Mapping[str, int]
) -> QueueLine:
    settings = queue_settings(topic.configs)
    counts = await asyncio.gather(*(_counts(engine, topic, group, letters) for group in groups))
    return QueueLine(
        name=topic.name,
        kind=queue_kind(settings),
        partitions=len(topic.partitions),
        paused=bool(settings["paused"]),
        dead_letter_topic=topic.settings.queue.dead_letter_topic,
        groups=[one for one in counts if one is not None],
    )


async def _counts(
    engine: Engine, topic: Topic, group: str, letters: Mapping[str, int]
) -> GroupCounts | None:
    try:
        found = await engine.delivery.counts(topic, group)
    except UnknownWork:
        return None  # Closed since.
    age_ms = (
        None if found.oldest_ms < 0 else max(0, engine.topics.clock.wall_ms() - found.oldest_ms)
    )
    states = {state: getattr(found, state) for state in _STATES}
    accounted = sum(states.values())
    moved = letters.get(dead_letter_queue(engine.topics, topic, group), 0)
    states["dead"] += moved
    return GroupCounts(
        group=group,
        sent=found.sent,
        **states,
        dead_lettered=moved,
        accounted=accounted,
        oldest_age_ms=age_ms,
    )


async def _reset_places(node: Node, topic: Topic, wanted: ResetQueue) -> list[ResetPlace]:
    """Return the new position of the group in each partition. All must be known, because a partial
    reset is worse than none."""
    if (wanted.start is None) == (wanted.time_ms is None):
        raise InvalidRequest('a reset takes either "start" or "time_ms"')
    indexes = range(len(topic.partitions))
    if wanted.partition is not None:
        if wanted.partition not in indexes:
            raise InvalidRequest(
                f"{topic.name} has partitions 0 to {len(indexes) - 1}, not {wanted.partition}"
            )
        indexes = range(wanted.partition, wanted.partition + 1)
    time_ms = NO_TIME if wanted.time_ms is None else wanted.time_ms
    partitions = [topic.partitions[index] for index in indexes]
    found = await node.survey.places(partitions, time_ms=time_ms)
    if len(found) < len(partitions):
        raise Unavailable(f"not all partitions of {topic.name} can be reached now; try again")
    places = []
    for index, partition in zip(indexes, partitions, strict=True):
        place = found[partition]
        if wanted.group not in place.starts:
            raise UnknownWork(f"{topic.name} has no work group {wanted.group}")
        places.append(
            ResetPlace(
                partition=index,
                was=place.starts[wanted.group],
                start=_start(wanted, place),
                end=place.end,
            )
        )
    return places


def _start(wanted: ResetQueue, place: QueuePlace) -> int:
    match wanted.start:
        case None:
            return place.at_time
        case "earliest":
            return place.log_start
        case "latest":
            return place.end
        case int(offset) if offset >= 0:
            return min(max(offset, place.log_start), place.end)
    raise InvalidRequest(f'"start" must be "earliest", "latest" or an offset, not {wanted.start}')
