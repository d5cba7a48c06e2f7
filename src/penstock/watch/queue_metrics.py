"""Metrics of messages: what came and went, what is in queues, how far groups are behind.

The number of queues with series of their own is bounded. Of more than that, those that come first
by name are exported, and all others as one, under the name `other`.
"""

from collections.abc import Awaitable, Callable, Iterable, Mapping

import msgspec

from penstock.core.histogram import WORK_BOUNDS, Histogram
from penstock.core.limits import COUNTED_TOPICS_MAX, SCRAPED_GROUPS_MAX, SCRAPED_HISTOGRAMS_MAX
from penstock.core.message_states import DEAD, STATES, lying
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.request_times import OTHER
from penstock.core.types import TopicId
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.samples import GroupSample, NodeSample, QueueSample
from penstock.engine.topics.traffic import FlowReading
from penstock.machines.activity import ERROR_TYPES, Activity
from penstock.watch.consumer_errors import ConsumerErrors
from penstock.watch.families import Families
from penstock.watch.last_minute import LastMinute, QueueCounters, QueueRates

Pause = Callable[[], Awaitable[None]]
"""Lets others have the loop, if it was kept for long."""
ALL_ERRORS = "all"
"""The error type of the whole rate: the greatest, so that the maximum over types is right."""
DEPRECATED_LEASED = "in_flight"
"""What release 0.1 called the state `leased`: a second series with the same value."""


class QueueLine(msgspec.Struct):
    """A queue as it is exported: one of them, or several as `other`."""

    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    oldest_age_ms: int = -1
    silent_ms: int | None = None
    consumers: int = 0

    def add(self, one: QueueSample, up_ms: int) -> None:
        """Take in a sample. A queue that was never asked for is silent since the node started."""
        counts = one.counts
        self.ready += counts.ready
        self.leased += counts.leased
        self.delayed += counts.delayed
        self.dead += counts.dead
        self.oldest_age_ms = max(self.oldest_age_ms, one.oldest_age_ms)
        self.consumers += len(one.workers)
        silent_ms = up_ms if one.silent_ms < 0 else one.silent_ms
        if counts.leased:
            silent_ms = 0
        self.silent_ms = silent_ms if self.silent_ms is None else min(self.silent_ms, silent_ms)


class QueueMetrics:
    """Of one node; remembers a minute of counters."""

    def __init__(self, node: Node, pause: Pause) -> None:
        self._node = node
        self._pause = pause
        self._last_minute: LastMinute | None = None
        self._consumer_errors = ConsumerErrors(node)

    async def add(self, page: Families, sample: NodeSample, now: float) -> None:
        if self._last_minute is None:  # Everything was 0 when the node started.
            self._last_minute = LastMinute(now - sample.machine.up_ms / 1_000)
        catalog = self._node.engine.topics.catalog
        names = {one.topic_id: one.name for one in catalog.topics.values()}
        flows = self._node.engine.topics.traffic.statistics(
            lambda name: catalog.topic(name) is not None
        )
        activity = self._node.delivery_counters.activity()
        await self._pause()
        await self._add_traffic(page, flows)
        await self._add_activity(page, activity)
        shown = _shown(names.get(one.topic_id, "") for one in sample.queues)
        await self._add_queues(page, sample, names, shown)
        rates = self._last_minute.rates(now, _counters(flows, activity, shown))
        await self._add_rates(page, rates)
        failed = sum(one.failed for one in activity.values())
        for queue, group, consumer, rate in await self._consumer_errors.rates(now, failed):
            page.add("penstock_consumer_error_ratio", rate, queue, group, consumer)
        _add_groups(page, sample.groups, names)

    async def _add_traffic(
        self, page: Families, flows: Mapping[str, Mapping[str, FlowReading]]
    ) -> None:
        for protocol, by_topic in flows.items():
            for topic, flow in by_topic.items():
                if flow.produced:
                    page.add("penstock_messages_produced_total", flow.produced, topic, protocol)
                    page.add("penstock_bytes_produced_total", flow.produced_bytes, topic, protocol)
                    page.add("penstock_batches_produced_total", flow.batches, topic, protocol)
                if flow.delivered:
                    page.add("penstock_messages_delivered_total", flow.delivered, topic, protocol)
                await self._pause()

    async def _add_activity(self, page: Families, activity: Mapping[str, Activity]) -> None:
        together = Histogram(WORK_BOUNDS)
        alone = set(sorted(activity)[:SCRAPED_HISTOGRAMS_MAX]) - {OTHER}
        for topic, one in activity.items():
            page.add("penstock_messages_acked_total", one.acked, topic)
            page.add("penstock_messages_redelivered_total", one.redelivered, topic)
            for kind, count in zip(ERROR_TYPES, one.failures(), strict=True):
                page.add("penstock_messages_failed_total", count, topic, kind)
            page.add("penstock_messages_expired_total", one.expired, topic)
            page.add("penstock_messages_discarded_total", one.discarded, topic)
            for reason, count in sorted(one.dead.items()):
                page.add("penstock_messages_dead_lettered_total", count, topic, reason)
            await self._pause()
            times = one.times.statistics()
            if topic not in alone:
                together.add(times)
            elif times.count:
                page.add_times("penstock_message_processing_duration_seconds", times, topic)
        if any(together.counts):
            times = together.statistics()
            page.add_times("penstock_message_processing_duration_seconds", times, OTHER)

    async def _add_queues(
        self, page: Families, sample: NodeSample, names: Mapping[TopicId, str], shown: set[str]
    ) -> None:
        lines: dict[tuple[str, str], QueueLine] = {}
        letters: dict[str, int] = {}
        held: dict[str, dict[str, int]] = {}
        sources = self._sources()
        for one in sample.queues:
            await self._pause()
            name = names.get(one.topic_id)
            if name is None:
                continue  # Deleted since.
            queue = name if name in shown else OTHER
            group = one.group if name in shown else OTHER
            lines.setdefault((queue, group), QueueLine()).add(one, sample.machine.up_ms)
            counts = one.counts
            letters[queue] = letters.get(queue, 0) + counts.dead
            if name in sources:
                groups = held.setdefault(name, {})
                groups[one.group] = groups.get(one.group, 0) + lying(counts)
        more: dict[str, int] = {}
        for name, groups in held.items():
            for source in sources[name]:
                place = source if source in shown or len(shown) < COUNTED_TOPICS_MAX else OTHER
                more[place] = more.get(place, 0) + max(groups.values())
        for queue, count in more.items():
            letters[queue] = letters.get(queue, 0) + count
            group = OTHER if queue == OTHER else DEFAULT_WORK_GROUP
            owner = lines.get((queue, group))
            if owner is not None:
                owner.dead += count
            else:  # Another node leads the queue; what it holds itself is for that node to say.
                page.add("penstock_queue_messages", count, queue, group, DEAD)
        for (queue, group), line in lines.items():
            await self._pause()
            for state in STATES:
                count = getattr(line, state)
                page.add("penstock_queue_messages", count, queue, group, state)
            page.add("penstock_queue_messages", line.leased, queue, group, DEPRECATED_LEASED)
            if line.oldest_age_ms >= 0:
                age = line.oldest_age_ms / 1_000
                page.add("penstock_queue_oldest_message_age_seconds", age, queue, group)
            page.add("penstock_queue_consumers", line.consumers, queue, group)
            page.add("penstock_queue_silent_seconds", (line.silent_ms or 0) / 1_000, queue, group)
        for queue, count in letters.items():
            page.add("penstock_queue_dead_letters", count, queue)
        depths: dict[str, int] = {}
        for (queue, _), line in lines.items():
            depths[queue] = depths.get(queue, 0) + line.ready
        for queue, depth in depths.items():
            page.add("queue_depth", depth, queue)

    async def _add_rates(self, page: Families, found: Mapping[str, QueueRates]) -> None:
        for queue, rates in found.items():
            page.add("queue_enqueue_rate", rates.enqueued, queue)
            page.add("queue_dequeue_rate", rates.dequeued, queue)
            page.add("queue_error_rate", rates.error_rate, queue, ALL_ERRORS)
            for kind, rate in rates.error_rates.items():
                page.add("queue_error_rate", rate, queue, kind)
            if rates.batch_size is not None:
                page.add("batch_size_avg", rates.batch_size, queue)
            await self._pause()
            if rates.latency_p95 is not None:
                page.add("queue_processing_latency_p95", rates.latency_p95, queue)

    def _sources(self) -> dict[str, list[str]]:
        """By dead-letter queue: the queues whose dead letters go there."""
        found: dict[str, list[str]] = {}
        for topic in self._node.engine.topics.catalog.topics.values():
            queue = topic.settings.queue
            if queue.dead_letter_topic and queue.is_queue:
                found.setdefault(queue.dead_letter_topic, []).append(topic.name)
        return found


def _counters(
    flows: Mapping[str, Mapping[str, FlowReading]],
    activity: Mapping[str, Activity],
    shown: set[str],
) -> dict[str, QueueCounters]:
    produced: dict[str, int] = {}
    batches: dict[str, int] = {}
    for by_topic in flows.values():
        for topic, flow in by_topic.items():
            produced[topic] = produced.get(topic, 0) + flow.produced
            batches[topic] = batches.get(topic, 0) + flow.batches
    found = {}
    for queue in sorted(shown):
        one = activity.get(queue) or Activity()
        found[queue] = QueueCounters(
            produced=produced.get(queue, 0),
            delivered=one.delivered,
            acked=one.acked,
            failures=one.failures(),
            times=one.times.statistics() if queue in activity else None,
            batches=batches.get(queue, 0),
        )
    return found


def _shown(names: Iterable[str]) -> set[str]:
    """The queues that have series of their own."""
    return set(sorted({name for name in names if name})[:COUNTED_TOPICS_MAX])


def _add_groups(
    page: Families, groups: Iterable[GroupSample], names: Mapping[TopicId, str]
) -> None:
    for one in sorted(groups, key=lambda one: one.group)[:SCRAPED_GROUPS_MAX]:
        page.add("penstock_consumer_group_members", one.members, one.group)
        page.add("kafka_consumergroup_members", one.members, one.group)
        for topic_id, lag, _, _, _ in one.topics:
            topic = names.get(topic_id)
            if topic is not None:
                page.add("penstock_consumer_group_lag_messages", lag, one.group, topic)
                page.add("kafka_consumergroup_lag_sum", lag, one.group, topic)
                page.add("queue_consumer_lag", lag, topic, one.group)
