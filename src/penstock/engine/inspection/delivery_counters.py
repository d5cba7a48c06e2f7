"""The delivery counters of this node, by topic, for the time it led their shards.

Every replica counts what it applies (`machines.activity`), so that the counts of all nodes would
add up to three times what happened. A leader's own part is the difference between two readings:
when it began to lead and now, or when it ceased to. It is computed on request, and when
leadership changes; applying costs nothing for it. So sums over all nodes are right, and no node's
own number ever falls while it runs.

What happened to a topic that is gone is kept under `OTHER`, as with `traffic`.
"""

from collections.abc import Callable, Mapping

from penstock.core.limits import COUNTED_TOPICS_MAX
from penstock.core.request_times import OTHER
from penstock.core.types import PartitionId, ShardId
from penstock.machines.activity import Activity
from penstock.machines.queues import Queues

_Places = dict[tuple[PartitionId, str], Activity]
_PAST = ""
"""Stands for the groups of a partition that were closed; no group has this name."""
_GONE = PartitionId(0)
"""Stands for all partitions that are gone; none has this number."""


class DeliveryCounters:
    """For one node. `topic_of` names the topic of a partition, nothing for one that is gone."""

    def __init__(
        self, topic_of: Callable[[PartitionId], str], is_there: Callable[[str], bool]
    ) -> None:
        self._topic_of = topic_of
        self._is_there = is_there
        self._done: dict[str, Activity] = {}
        self._led: dict[ShardId, tuple[Queues, _Places]] = {}

    def leadership(self, shard: ShardId, queues: Queues, leads: bool) -> None:
        """Record that this node has begun or ceased to lead a shard."""
        before = self._led.pop(shard, None)
        if before is not None:
            self._book(self._done, *before)
        if leads:
            begun = {place: one.copy() for place, one in _places(queues).items()}
            self._led[shard] = queues, begun

    def activity(self) -> Mapping[str, Activity]:
        """Return the activity that this node led since it started, by topic."""
        for topic in [one for one in self._done if one != OTHER and not self._is_there(one)]:
            self._of(self._done, OTHER).add(self._done.pop(topic))
        found = {topic: one.copy() for topic, one in self._done.items()}
        for queues, begun in self._led.values():
            self._book(found, queues, begun)
        return found

    def _book(self, account: dict[str, Activity], queues: Queues, begun: _Places) -> None:
        """All there is now, less what there was. A group that was closed meanwhile is part of its
        partition's past by now, and one that is gone part of all totals: what they had before is
        taken off where they are now."""
        for (partition, _), now in _places(queues).items():
            self._of(account, self._place(queues, partition)).add(now)
        for (partition, _), before in begun.items():
            self._of(account, self._place(queues, partition)).remove(before)

    def _place(self, queues: Queues, partition: PartitionId) -> str:
        here = partition in queues.partitions
        return self._topic_of(partition) or OTHER if here else OTHER

    def _of(self, account: dict[str, Activity], topic: str) -> Activity:
        known = account.get(topic)
        if known is None:
            if len(account) >= COUNTED_TOPICS_MAX:
                topic = OTHER
            known = account.setdefault(topic, Activity())
        return known


def _places(queues: Queues) -> _Places:
    """Return the activity of all topics that had any."""
    places: _Places = {}
    if not queues.gone.is_empty:
        places[_GONE, _PAST] = queues.gone
    for partition, queue in queues.partitions.items():
        if not queue.past.is_empty:
            places[partition, _PAST] = queue.past
        for group, work in queue.groups.items():
            if not work.activity.is_empty:
                places[partition, group] = work.activity
    return places
