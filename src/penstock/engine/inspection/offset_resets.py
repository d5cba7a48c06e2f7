"""Resets the offsets of a consumer group, at any node; a dry run reports the effect first.

The places of the partitions come from their leaders, what the group has committed from its
coordinator, and the new offsets are a commit like any other, decided in the group's shard: while
the group has members it is refused there, however the look beforehand came out.
"""

from collections.abc import Collection, Sequence

import msgspec

from penstock.core.errors import (
    GroupNotEmpty,
    InvalidRequest,
    RebalanceInProgress,
    Unavailable,
    UnknownMember,
)
from penstock.core.limits import OFFSETS_PER_COMMIT_MAX
from penstock.core.log_place import Anchor, Place
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.groups.lag import Lag
from penstock.engine.inspection.partition_places import NO_TIME
from penstock.engine.inspection.topic_survey import LogPlace, TopicSurvey
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.topics.topics import Topics, partition_of
from penstock.machines.group_commands import DeleteGroup, StoreOffsets


class OffsetChange(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a reset on one partition."""

    topic: str
    partition: int
    before: Offset | None
    """None: the group has committed nothing here."""
    after: Offset
    log_start: Offset
    end: Offset


class GroupResets:
    def __init__(self, topics: Topics, lag: Lag, survey: TopicSurvey, forwarder: Forwarder) -> None:
        self._topics = topics
        self._lag = lag
        self._survey = survey
        self._forwarder = forwarder

    async def plan(
        self,
        group: str,
        place: Place,
        *,
        topics: Collection[str] = (),
        partitions: Sequence[int] | None = None,
    ) -> list[OffsetChange]:
        """Plan a reset. Without topics it covers all that the group has read; `partitions` are
        those of a single topic."""
        described = await self._lag.group(group)
        if described.members:
            raise GroupNotEmpty(
                f"group {group} has {len(described.members)} members: stop them before you reset it"
            )
        before = {(one.topic, one.partition): one.committed for one in described.partitions}
        names = sorted(set(topics) or {topic for topic, _ in before})
        if not names:
            raise InvalidRequest(f"group {group} has read nothing yet: name the topic")
        if partitions is not None and len(names) != 1:
            raise InvalidRequest("partitions need a topic: name it")
        parts = [part for name in names for part in self._parts(name, partitions)]
        if len(parts) > OFFSETS_PER_COMMIT_MAX:
            raise InvalidRequest(
                f"{len(parts)} partitions at once, {OFFSETS_PER_COMMIT_MAX} at most: name topics"
            )
        time_ms = place.number if place.anchor is Anchor.TIME else NO_TIME
        places = await self._survey.places(
            [topic.partitions[index] for topic, index in parts], time_ms=time_ms
        )
        changes = []
        for topic, index in parts:
            found = places.get(topic.partitions[index])
            if found is None:
                raise Unavailable(f"partition {index} of {topic.name} cannot be reached now")
            changes.append(
                OffsetChange(
                    topic=topic.name,
                    partition=index,
                    before=before.get((topic.name, index)),
                    after=offset_at(place, found),
                    log_start=found.log_start,
                    end=found.end,
                )
            )
        return changes

    async def carry_out(self, group: str, changes: Sequence[OffsetChange]) -> None:
        """Let the group go on as planned; `GroupNotEmpty` if a member has joined it."""
        command = StoreOffsets(
            group=group,
            member="",
            instance=None,
            generation=-1,
            offsets=tuple(
                (self._topics.topic(one.topic).topic_id, one.partition, one.after, -1, "")
                for one in changes
            ),
        )
        try:
            await self._forwarder.change(self._topics.group_shard(group), command)
        except (UnknownMember, RebalanceInProgress) as error:
            raise GroupNotEmpty(
                f"a member has joined group {group} meanwhile: stop it first"
            ) from error

    async def forget(self, group: str) -> None:
        """Delete a group that has no members, with its offsets."""
        await self._forwarder.change(self._topics.group_shard(group), DeleteGroup(group=group))

    def _parts(self, name: str, partitions: Sequence[int] | None) -> list[tuple[Topic, int]]:
        topic = self._topics.topic(name)
        indexes = range(len(topic.partitions)) if partitions is None else partitions
        for index in indexes:
            partition_of(topic, index)
        return [(topic, index) for index in sorted(set(indexes))]


def offset_at(place: Place, found: LogPlace) -> Offset:
    """The offset in a partition that a place means; never outside of it."""
    if place.anchor is Anchor.TIME:
        return found.at_time
    return Offset(place.offset_in(start=found.log_start, end=found.end))
