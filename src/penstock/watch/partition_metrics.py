"""Metrics by partition: a few of them always, as long as there are not many; all when asked.

What a partition takes up is looked up in indexes, which takes a while; it is remembered for as long
as the partition does not change.
"""

from penstock.core.errors import UnknownPartition
from penstock.core.limits import SCRAPED_GROUPS_MAX, SCRAPED_PARTITIONS_MAX
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId
from penstock.engine.cluster.node import Node
from penstock.engine.groups.lag import GroupOffsets
from penstock.engine.replica.shard import Shard
from penstock.watch.families import Families
from penstock.watch.queue_metrics import DEPRECATED_LEASED, Pause


class PartitionMetrics:
    """The partition metrics of one node."""

    def __init__(self, node: Node, pause: Pause) -> None:
        self._node = node
        self._pause = pause
        self._sizes: dict[PartitionId, tuple[Offset, Offset, int]] = {}

    async def add(self, page: Families, *, detail: bool) -> None:
        """Add the sizes of the topics on this node and the offsets of the partitions that it
        leads."""
        node = self._node
        catalog = node.engine.topics.catalog
        if node.engine.topics.controller() == node.engine.topics.node_id:
            for name in sorted(catalog.topics)[:SCRAPED_PARTITIONS_MAX]:
                page.add("kafka_topic_partitions", len(catalog.topics[name].partitions), name)
        if not detail and catalog.partition_count > SCRAPED_PARTITIONS_MAX:
            return
        before, self._sizes = self._sizes, {}
        totals: dict[str, int] = {}
        for shard in node.shards:
            running = node.shards.get(shard)
            if running is None:
                continue
            for partition in list(running.machine.log_starts()):
                owner = catalog.owner(partition)
                if owner is None:
                    continue
                try:
                    size = self._add(page, running, partition, *owner, before, detail)
                except UnknownPartition:
                    continue  # Deleted since.
                name = owner[0].name
                totals[name] = totals.get(name, 0) + size
                await self._pause()
        for name, total in totals.items():
            page.add("penstock_storage_bytes", total, name)

    def _add(
        self,
        page: Families,
        running: Shard,
        partition: PartitionId,
        topic: Topic,
        index: int,
        before: dict[PartitionId, tuple[Offset, Offset, int]],
        detail: bool,
    ) -> int:
        start, end = running.machine.bounds(partition)
        known = before.get(partition)
        if known is None or known[:2] != (start, end):
            known = start, end, running.replica.log.partition_bytes(partition, start)
        self._sizes[partition] = known
        size = known[2]
        if running.replica.leads:
            place = topic.name, str(index)
            page.add("kafka_topic_partition_current_offset", end, *place)
            page.add("kafka_topic_partition_oldest_offset", start, *place)
            if detail:
                page.add("penstock_partition_log_start_offset", start, *place)
                page.add("penstock_partition_high_watermark", end, *place)
                page.add("penstock_partition_bytes", size, *place)
                _add_work(page, running, partition, *place)
        return size

    async def add_groups(self, page: Families, *, detail: bool) -> None:
        """Add the lag of each partition of the groups that this node coordinates."""
        node = self._node
        groups: list[GroupOffsets] = []
        for coordinator in node.engine.groups.led_coordinators():
            groups += node.lag.offsets_of(coordinator)
            await self._pause()
        groups = sorted(groups, key=lambda one: one.group)[:SCRAPED_GROUPS_MAX]
        if not detail and sum(len(one.offsets) for one in groups) > SCRAPED_PARTITIONS_MAX:
            return
        wanted = {topic.partitions[index] for one in groups for topic, index, _ in one.offsets}
        ends = await node.lag.ends(list(wanted)) if wanted else {}
        for one in groups:
            for topic, index, committed in one.offsets:
                place = one.group, topic.name, str(index)
                page.add("kafka_consumergroup_current_offset", committed, *place)
                end = ends.get(topic.partitions[index])
                if end is not None:
                    lag = max(0, end - committed)
                    page.add("kafka_consumergroup_lag", lag, *place)
                    if detail:
                        page.add("penstock_consumer_group_partition_lag_messages", lag, *place)
            await self._pause()


def _add_work(
    page: Families, running: Shard, partition: PartitionId, topic: str, index: str
) -> None:
    for group, work in running.machine.queues.groups(partition).items():
        for state, count in (
            ("ready", work.ready),
            ("leased", work.leased),
            (DEPRECATED_LEASED, work.leased),
            ("delayed", work.delayed),
            ("dead", work.dead),
        ):
            page.add("penstock_partition_queue_messages", count, topic, index, group, state)
