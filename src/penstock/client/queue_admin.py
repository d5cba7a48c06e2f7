"""Making, describing and looking after topics and queues: requests to any node."""

import asyncio
from collections.abc import Iterable, Mapping
from typing import Any, TypedDict, TypeVar, get_args

from penstock.client.codecs import Codec
from penstock.client.connection.request_router import RequestRouter
from penstock.client.descriptions import (
    GroupSetting,
    MoveDescription,
    PartitionDescription,
    QueueDescription,
    QueueStats,
    SettingSource,
    TopicDescription,
    TopicSummary,
    from_milliseconds,
)
from penstock.client.peeked_message import PeekedMessage
from penstock.client.queue_options import (
    DeduplicationName,
    PrioritiesName,
    RetryName,
    differences,
    given_configs,
    group_configs,
    queue_configs,
)
from penstock.client.reader.offsets import find_offsets
from penstock.client.reader.positions import TopicPartition
from penstock.client.seconds import Seconds
from penstock.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    SettingsDiffer,
    TopicExists,
    UnknownTopic,
)
from penstock.core.message_states import current_state, old_state
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.requests import (
    AddPartitions,
    AskMove,
    AskTopic,
    AskTopics,
    AskWorkGroups,
    AskWorkSettings,
    Browse,
    Browsed,
    ConfigureTopic,
    ConfigureWork,
    Count,
    Counted,
    CreateTopic,
    DeleteTopic,
    Done,
    MoveInfo,
    Purge,
    Redrive,
    Redriven,
    TopicInfo,
    TopicRows,
    WorkGroups,
    WorkSettingRows,
)

T = TypeVar("T")

BROWSED_AT_ONCE = 1_000


class QueueOptions(TypedDict, total=False):
    """The options of a new queue: see `Client.create_queue`."""

    partitions: int | None
    exist_ok: bool
    lease: Seconds | None
    deliveries_max: int | None
    dead_letter: str | None
    retry: RetryName | None
    retry_delay: Seconds | None
    fifo: bool
    delay: Seconds | None
    ttl: Seconds | None
    priorities: PrioritiesName | None
    deduplication: DeduplicationName | None
    length_max: int | None
    settings: Mapping[str, str]


class GroupOptions(TypedDict, total=False):
    """The settings that a work group can have of its own: see `Queue.configure_group`."""

    lease: Seconds | None
    deliveries_max: int | None
    dead_letter: str | None
    retry: RetryName | None
    retry_delay: Seconds | None
    settings: Mapping[str, str | None]


async def create_queue(router: RequestRouter, name: str, options: QueueOptions) -> QueueDescription:
    chosen: dict[str, Any] = dict(options)
    partitions, exist_ok = chosen.pop("partitions", None), chosen.pop("exist_ok", False)
    given = given_configs(**chosen)
    request = CreateTopic(
        name, 1 if partitions is None else partitions, queue_configs(name, given), dead_letters=True
    )
    info, is_new = await _create(router, request, exist_ok=exist_ok)
    if not is_new:
        _check_settings(info, partitions, given)
    return await describe_queue(router, name)


def _check_settings(info: TopicInfo, partitions: int | None, given: Mapping[str, str]) -> None:
    """Raise `SettingsDiffer` if an existing queue has other settings than those asked for."""
    there = differences(given, info.configs)
    found = [f"{config} is {text or repr('')}" for config, text in sorted(there.items())]
    asked = [f"{given[config] or repr('')}" for config in sorted(there)]
    differing = [f"{one}, not {other}" for one, other in zip(found, asked, strict=True)]
    if differing:
        changes = {config: given[config] for config in sorted(there)}
        raise SettingsDiffer(
            f"there is a queue {info.name} with other settings: {'; '.join(differing)}. It stays as"
            f" it is: change it by configure({changes!r}), or ask for what it has"
        )
    if partitions is not None and len(info.leaders) < partitions:
        raise SettingsDiffer(
            f"there is a queue {info.name} with {len(info.leaders)} partitions, not {partitions}:"
            f" add_partitions({info.name!r}, {partitions}) gives it more"
        )


async def create_topic(
    router: RequestRouter,
    name: str,
    partitions: int | None,
    configs: Mapping[str, str],
    *,
    exist_ok: bool,
) -> TopicInfo:
    info, _ = await _create(router, CreateTopic(name, partitions, dict(configs)), exist_ok=exist_ok)
    return info


async def _create(
    router: RequestRouter, request: CreateTopic, *, exist_ok: bool
) -> tuple[TopicInfo, bool]:
    """Make a topic, and whether it is a new one. A lost answer is no reason to say that it was
    there before."""
    unknown = False
    is_new = True
    while True:
        try:
            info = await router.ask(request, TopicInfo, harmless=False)
        except OutcomeUnknown:
            if unknown:
                raise
            unknown = True
            continue
        except TopicExists:
            if not exist_ok and not unknown:
                raise
            info = await router.ask(AskTopic(request.name), TopicInfo)
            is_new = unknown
        router.metadata.note(info)
        return info, is_new


async def configure_topic(
    router: RequestRouter, name: str, changes: Mapping[str, str | None]
) -> TopicDescription:
    """Change the configs of a topic."""
    info = await router.ask(ConfigureTopic(name, dict(changes)), TopicInfo)
    router.metadata.note(info)
    return await _described(router, info)


async def add_partitions(router: RequestRouter, name: str, total: int) -> TopicDescription:
    """Increase the number of partitions to `total`."""
    info = await router.ask(AddPartitions(name, total), TopicInfo)
    router.metadata.note(info)
    return await _described(router, info)


async def delete_topic(router: RequestRouter, name: str) -> None:
    """Remove a topic or queue. Gone after a lost answer is gone."""
    unknown = False
    while True:
        try:
            await router.ask(DeleteTopic(name), Done, harmless=False)
        except OutcomeUnknown:
            if unknown:
                raise
            unknown = True
            continue
        except UnknownTopic:
            if not unknown:
                raise
        router.metadata.forget(name)
        return


async def list_topics(router: RequestRouter) -> list[TopicSummary]:
    """Return all topics and queues, sorted by name."""
    answer = await router.ask(AskTopics(), TopicRows)
    return [
        TopicSummary(name=row.name, partitions=row.partitions, is_queue=row.is_queue)
        for row in answer.rows
    ]


async def describe_topic(router: RequestRouter, name: str) -> TopicDescription:
    """Partitions and configs of a topic or queue."""
    return await _described(router, await router.ask(AskTopic(name), TopicInfo))


async def describe_queue(router: RequestRouter, name: str) -> QueueDescription:
    """Describe a queue, with its work groups."""
    topic = await describe_topic(router, name)
    answer = await router.ask(AskWorkGroups(name), WorkGroups)
    groups = sorted({*answer.names, DEFAULT_WORK_GROUP})
    stats = await asyncio.gather(*(count(router, name, group) for group in groups))
    return QueueDescription(
        name=topic.name,
        id=topic.id,
        is_queue=topic.is_queue,
        partitions=topic.partitions,
        configs=topic.configs,
        created_at=topic.created_at,
        groups=dict(zip(groups, stats, strict=True)),
    )


async def _described(router: RequestRouter, info: TopicInfo) -> TopicDescription:
    router.metadata.note(info)
    parts = [TopicPartition(info.name, index) for index in range(len(info.leaders))]
    deadline = router.deadline(None)
    starts, ends = await asyncio.gather(
        find_offsets(router, dict.fromkeys(parts, EARLIEST), deadline=deadline),
        find_offsets(router, dict.fromkeys(parts, LATEST), deadline=deadline),
    )
    return TopicDescription(
        name=info.name,
        id=info.topic_id.hex(),
        is_queue=info.is_queue,
        partitions=tuple(
            PartitionDescription(
                index=part.partition,
                leader=info.leaders[part.partition],
                start=starts[part],
                end=ends[part],
            )
            for part in parts
        ),
        configs=dict(info.configs),
        created_at=from_milliseconds(info.created_ms),
    )


async def count(router: RequestRouter, name: str, group: str) -> QueueStats:
    """Messages of a work group by state."""
    answer = await router.ask(Count(name, group), Counted)
    counts = dict(answer.counts)
    counts.setdefault("ready", counts.get("visible", 0))  # A broker of release 0.1.
    counts.setdefault("leased", counts.get("in_flight", 0))
    counts["dead"] = counts.get("dead", 0) + counts.get("dead_lettered", 0)
    oldest_ms = counts.pop("oldest_ms", -1)
    age = None if oldest_ms < 0 else max(0, answer.now_ms - oldest_ms) / 1_000
    known = {name: counts[name] for name in QueueStats.__slots__ if name in counts}
    return QueueStats(**known, oldest_age=age)


async def group_settings(router: RequestRouter, name: str, group: str) -> dict[str, GroupSetting]:
    """Return the effective settings of a work group."""
    return _group_settings(await router.ask(AskWorkSettings(name, group), WorkSettingRows))


async def configure_group(
    router: RequestRouter, name: str, group: str, options: GroupOptions
) -> dict[str, GroupSetting]:
    """Change the settings of a work group."""
    changes = group_configs(**options)
    return _group_settings(await router.ask(ConfigureWork(name, group, changes), WorkSettingRows))


def _group_settings(answer: WorkSettingRows) -> dict[str, GroupSetting]:
    return {name: GroupSetting(value, _source(source)) for name, value, source in answer.rows}


def _source(text: str) -> SettingSource:
    return next((one for one in get_args(SettingSource) if one == text), "default")


async def purge(router: RequestRouter, name: str, group: str) -> int:
    """Drop the remaining work of a work group."""
    answer = await router.ask(Purge(name, group), Done)
    return answer.count


async def redrive(
    router: RequestRouter,
    name: str,
    to: str | None,
    rate: int | None,
    dry_run: bool,
    *,
    places: Iterable[tuple[int, int]] | None,
    group: str,
) -> tuple[int, str]:
    """Deliver dead messages anew; how many, and the id of the move if there is one."""
    if rate is not None and rate < 1:
        raise InvalidRequest(f"rate is {rate}; move one message a second or more.")
    chosen = () if places is None else tuple(places)
    if places is not None and not chosen:
        return 0, ""  # To the broker no place means every place.
    request = Redrive(name, to or "", rate or 0, dry_run, chosen, group)
    answer = await router.ask(request, Redriven, harmless=dry_run)
    return answer.count, answer.move_id


async def move_of(router: RequestRouter, name: str, move_id: str) -> MoveDescription:
    """Return the progress of a move."""
    answer = await router.ask(AskMove(name, move_id), MoveInfo)
    return MoveDescription(
        state=answer.state,
        moved=answer.moved,
        total=answer.total,
        failure=answer.failure,
        id=move_id,
    )


async def browse(
    router: RequestRouter,
    name: str,
    group: str,
    codec: Codec[T],
    *,
    max_messages: int,
    states: Iterable[str] | None,
    partition: int | None,
    start: int,
) -> list[PeekedMessage[T]]:
    """Look at messages of one partition, or of all, one after the other."""
    info = await router.ask(AskTopic(name), TopicInfo)
    wanted = () if states is None else tuple(old_state(current_state(one)) for one in states)
    indexes = range(len(info.leaders)) if partition is None else (partition,)
    found: list[PeekedMessage[T]] = []
    for index in indexes:
        left = max_messages - len(found)
        if left <= 0:
            break
        request = Browse(name, group, index, start, wanted, min(left, BROWSED_AT_ONCE))
        answer = await router.ask(request, Browsed)
        found += [PeekedMessage(name, info.topic_id, index, row, codec) for row in answer.rows]
    return found
