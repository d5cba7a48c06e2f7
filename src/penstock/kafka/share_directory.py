"""Which share groups there are, in which state, and on which topics they work.

A share group is there if it has members, which its coordinator knows, or if it has begun with a
topic, which the leaders of the partitions know. Its name is that of a work group. The work group
that SQS and others share by default is no share group, unless a member joins it as one.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from penstock.core.errors import GroupNotEmpty, PenstockError, UnknownGroup, UnknownWork
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
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
    for group in begun - found.keys():
        try:
            if not is_consumer_group(engine, group):
                found[group] = EMPTY
        except PenstockError:
            continue  # Another node coordinates it now.
    return dict(sorted(found.items()))


async def places_of(engine: "Engine", group: str) -> Places:
    """The partitions that a share group has begun with; raises `UnknownGroup` if it is none."""
    places: dict[str, list[int]] = {}
    if is_consumer_group(engine, group):
        raise UnknownGroup(f"{group} is a consumer group and no share group")
    for partition, groups in sorted((await engine.survey.groups()).items()):
        owner = engine.topics.catalog.owner(partition)
        if group in groups and owner is not None:
            places.setdefault(owner[0].name, []).append(owner[1])
    known = engine.groups.share.get(group) is not None
    if not known and (not places or group == DEFAULT_WORK_GROUP):
        raise UnknownGroup(f"there is no share group {group}")
    return places


async def forget_topic(engine: "Engine", group: str, topic: "Topic", indexes: list[int]) -> None:
    """Let a share group begin anew with these partitions of a topic, if it ever does."""

    async def close(index: int) -> None:
        try:
            await engine.delivery.close(topic, group, index=index)
        except UnknownWork:
            return  # It is forgotten.

    await asyncio.gather(*map(close, indexes))


async def delete_share_group(engine: "Engine", group: str) -> None:
    """Forget all topics of a share group that has no members, and with them the group."""
    places = await places_of(engine, group)
    if engine.groups.share.get(group) is not None:
        raise GroupNotEmpty(f"share group {group} has members; stop them first")
    for name, indexes in places.items():
        topic = engine.topics.catalog.topic(name)
        if topic is not None:
            await forget_topic(engine, group, topic, indexes)
