"""Which share groups there are, in which state, and on which topics they work.

A share group is there if it has members, which its coordinator knows, or if it has begun with a
topic, which the leaders of the partitions know. One that has neither any more is there until it is
deleted, or until another node coordinates it. Its name is that of a work group. The work group
that SQS and others share by default is no share group, unless a member joins it as one.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.errors import GroupNotEmpty, PenstockError, UnknownGroup, UnknownWork
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.types import PartitionId
from penstock.engine.replica.time_slices import TimeSlices
from penstock.machines.group import GroupState

if TYPE_CHECKING:
    from penstock.core.topic import Topic
    from penstock.engine.engine import Engine

SHARE: Final = "share"
"""The type of these groups, and their protocol."""
EMPTY: Final = "Empty"
STABLE: Final = "Stable"

Places = Mapping[str, list[int]]
"""Partitions by the name of their topic."""


def is_consumer_group(engine: "Engine", group: str) -> bool:
    """Whether a name is taken by a group of the classic kind; raises `NotCoordinator`."""
    return engine.groups.coordinator(group).describe(group).state != GroupState.DEAD.value


async def share_groups(engine: "Engine") -> dict[str, str]:
    """The state of every share group that this node coordinates, by name."""
    begun = {
        group
        for groups in (await engine.survey.groups()).values()
        for group in groups
        if group != DEFAULT_WORK_GROUP
        and engine.topics.leader(engine.topics.group_shard(group)).node == engine.topics.node_id
    }
    found = dict.fromkeys(engine.groups.share.names(), STABLE)
    begun |= engine.groups.share.empty_names()
    for group in begun - found.keys():
        try:
            if not is_consumer_group(engine, group):
                found[group] = EMPTY
        except PenstockError:
            continue  # Another node coordinates it now.
    return dict(sorted(found.items()))


class ShareSurvey:
    """The partitions that share groups have begun with, surveyed once for a whole request."""

    def __init__(self, engine: "Engine") -> None:
        self._engine = engine
        self._surveying = asyncio.Lock()
        self._by_group: dict[str, list[PartitionId]] | None = None

    async def places_of(self, group: str) -> Places:
        """The partitions that a share group has begun with; raises `UnknownGroup` if it is none."""
        engine = self._engine
        places: dict[str, list[int]] = {}
        if is_consumer_group(engine, group):
            raise UnknownGroup(f"{group} is a consumer group and no share group")
        for partition in (await self._groups()).get(group, ()):
            owner = engine.topics.catalog.owner(partition)
            if owner is not None:
                places.setdefault(owner[0].name, []).append(owner[1])
        share = engine.groups.share
        known = share.get(group) is not None or share.is_empty(group)
        if not known and (not places or group == DEFAULT_WORK_GROUP):
            raise UnknownGroup(f"there is no share group {group}")
        return places

    async def offsets_of(self, group: str) -> Places:
        """The same, to read offsets or to set them: a group that is not there has none. Raises
        `UnknownGroup` if it is not a share group and cannot become one."""
        try:
            return await self.places_of(group)
        except UnknownGroup:
            if group == DEFAULT_WORK_GROUP or is_consumer_group(self._engine, group):
                raise
            return {}

    async def _groups(self) -> Mapping[str, list[PartitionId]]:
        async with self._surveying:
            if self._by_group is None:
                found: dict[str, list[PartitionId]] = {}
                slices = TimeSlices()
                slices.begin()
                for partition, groups in sorted((await self._engine.survey.groups()).items()):
                    await slices.let_others()
                    for group in groups:
                        found.setdefault(group, []).append(partition)
                self._by_group = found
            return self._by_group


async def places_of(engine: "Engine", group: str) -> Places:
    """The partitions that one share group has begun with."""
    return await ShareSurvey(engine).places_of(group)


async def forget_topic(engine: "Engine", group: str, topic: "Topic", indexes: list[int]) -> None:
    """Let a share group begin anew with these partitions of a topic, if it ever does."""

    async def close(index: int) -> None:
        try:
            await engine.delivery.close(topic, group, index=index)
        except UnknownWork:
            return  # It is forgotten.

    await asyncio.gather(*map(close, indexes))


async def delete_share_group(engine: "Engine", group: str, survey: ShareSurvey) -> None:
    """Forget all topics of a share group that has no members, and with them the group."""
    places = await survey.places_of(group)
    if engine.groups.share.get(group) is not None:
        raise GroupNotEmpty(f"share group {group} has members; stop them first")
    for name, indexes in places.items():
        topic = engine.topics.catalog.topic(name)
        if topic is not None:
            await forget_topic(engine, group, topic, indexes)
    engine.groups.share.forget(group)
