"""A survey: what all nodes say, put together into readings.

Every node is asked for a sample of what it leads (see `engine.inspection.sampler`); shards without
a leader are missing, and counted as missing. Counters become rates here, leader by leader (see
`meter`). What no single sample tells is remembered from one survey to the next: since when a queue
has not been asked for messages, and a group has had no members.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec

from penstock.core.internal_topics import is_internal
from penstock.core.message_states import lying
from penstock.core.topic import Topic
from penstock.core.types import NO_NODE, NodeId, PartitionId, ShardId, TopicId
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.samples import (
    GroupSample,
    NodeSample,
    QueueSample,
    ShardSample,
    WorkCounts,
)
from penstock.engine.replica.time_slices import TimeSlices
from penstock.watch.meter import MINUTE_MS, Meter
from penstock.watch.readings import (
    FollowerReading,
    GroupReading,
    NodeReading,
    QueueReading,
    Readings,
    ShardReading,
    TopicLag,
    TopicReading,
    Totals,
)

LATE_MS = 10_000
"""The largest age of the last sample of a node that is connected and does not answer."""

Expected = Callable[[str, str], float | None]
"""Returns the expected ack rate of a work group, if it is known."""
_QueueKey = tuple[TopicId, str]
_NO_RATES = [0.0] * 6
_Key = TypeVar("_Key")
_Value = TypeVar("_Value")


class Survey:
    """Takes the readings for one node's watch."""

    def __init__(self, node: Node, expected: Expected, slices: TimeSlices) -> None:
        self._node = node
        self._engine = node.engine
        self._expected = expected
        self._queue_meters: dict[tuple[NodeId, TopicId, str], Meter] = {}
        self._group_meters: dict[tuple[str, TopicId], Meter] = {}
        self._topic_meters: dict[TopicId, Meter] = {}
        self._heard_ms: dict[_QueueKey, int] = {}
        self._acked: dict[_QueueKey, int] = {}
        self._guessed: set[_QueueKey] = set()
        """Of these no worker was heard of since this watch began."""
        self._peopled_ms: dict[str, int] = {}
        self._last: dict[NodeId, tuple[int, NodeSample]] = {}
        self._letters_known: tuple[int, dict[str, tuple[str, ...]]] = (-1, {})
        self._slices = slices

    async def take(self) -> Readings:
        """Ask every node, and put the answers together."""
        heard, silent = await self._node.sampler.everywhere()
        self._slices.begin()
        now_ms = self._engine.topics.clock.monotonic_ms()
        samples = self._with_late(heard, silent, now_ms)
        silent = [node for node in silent if all(one.node != node for one in samples)]
        queues = await self._queues(samples, now_ms)
        groups = await self._groups(samples, now_ms)
        topics = await self._topics(samples, now_ms)
        shards = self._shards(samples)
        nodes = self._nodes(samples, shards)
        health, healthy = _health(nodes, shards)
        totals = _totals(queues, groups, topics)
        self._slices.end()
        return Readings(
            at_ms=self._engine.topics.clock.wall_ms(),
            node=self._engine.topics.node_id,
            health=health,
            healthy=healthy,
            totals=totals,
            queues=queues,
            groups=groups,
            topics=topics,
            nodes=nodes,
            shards=shards,
            silent_nodes=tuple(silent),
        )

    def _with_late(
        self, heard: Sequence[NodeSample], silent: Sequence[NodeId], now_ms: int
    ) -> list[NodeSample]:
        """The samples that came, and the last one of a node that is alive and was too busy to
        answer, unless another node leads its shards by now. If two nodes claim a shard, the later
        term counts."""
        self._last |= {one.node: (now_ms, one) for one in heard}
        samples = list(heard)
        led = {shard.shard for one in heard for shard in one.shards}
        for node in silent:
            at_ms, last = self._last.get(node, (now_ms - LATE_MS - 1, None))
            if last is None or now_ms - at_ms > LATE_MS or node not in self._engine.topics.alive():
                continue
            if not led & {shard.shard for shard in last.shards}:
                samples.append(last)
        return (
            samples
            if len(led) == sum(len(one.shards) for one in heard)
            else _settled(samples, self._engine.topics.shard_of)
        )

    def _is_complete(self, samples: Iterable[NodeSample]) -> bool:
        """Every shard was heard of: what is missing is gone."""
        return len({one.shard for sample in samples for one in sample.shards}) == len(
            self._engine.topics.shards()
        )

    # Queues.

    async def _queues(self, samples: Iterable[NodeSample], now_ms: int) -> tuple[QueueReading, ...]:
        parts: dict[_QueueKey, list[tuple[NodeSample, QueueSample]]] = {}
        for sample in samples:
            for one in sample.queues:
                parts.setdefault((one.topic_id, one.group), []).append((sample, one))
        letters = self._letters()
        found: list[QueueReading] = []
        met: set[tuple[NodeId, TopicId, str]] = set()
        for key, some in parts.items():
            topic = self._engine.topics.catalog.topic_by_id(key[0])
            if topic is not None:
                met |= {(sample.node, *key) for sample, _ in some}
                found.append(self._queue(topic, key, some, letters.get(topic.name, ()), now_ms))
            await self._slices.let_others()
        _keep(self._queue_meters, met)
        if self._is_complete(samples):
            _keep(self._heard_ms, parts.keys())
            _keep(self._acked, parts.keys())
            self._guessed &= parts.keys()
        found.sort(key=lambda one: (one.queue, one.group))
        moved = {key: sum(one.counts.moved_ever for _, one in some) for key, some in parts.items()}
        return tuple(_with_dead_letters(found, self._by_name(moved)))

    def _by_name(self, counts: Mapping[_QueueKey, int]) -> dict[tuple[str, str], int]:
        topic_by_id = self._engine.topics.catalog.topic_by_id
        named = ((topic_by_id(topic_id), group, one) for (topic_id, group), one in counts.items())
        return {(topic.name, group): one for topic, group, one in named if topic is not None}

    def _letters(self) -> dict[str, tuple[str, ...]]:
        """Return the dead-letter queues, and the queues that use them."""
        catalog = self._engine.topics.catalog
        if self._letters_known[0] != catalog.revision:
            found: dict[str, tuple[str, ...]] = {}
            for name, topic in catalog.topics.items():
                letters = topic.settings.queue.dead_letter_topic
                if letters:
                    found[letters] = (*found.get(letters, ()), name)
            self._letters_known = (catalog.revision, found)
        return self._letters_known[1]

    def _queue(
        self,
        topic: Topic,
        key: _QueueKey,
        parts: Sequence[tuple[NodeSample, QueueSample]],
        sources: tuple[str, ...],
        now_ms: int,
    ) -> QueueReading:
        catalog = self._engine.topics.catalog
        rates, minute = self._queue_rates(key, parts, now_ms)
        samples = [one for _, one in parts]
        total = samples[0] if len(samples) == 1 else _summed(samples)
        counts = total.counts
        workers = {worker for one in samples for worker in one.workers}
        in_rate, out_rate, redelivery_rate, _, dead_rate, ack_rate = rates
        letters = catalog.work_settings(topic, key[1]).dead_letter_topic
        failed, acked, took_ms = minute
        ended = failed + acked
        return QueueReading(
            queue=topic.name,
            group=key[1],
            kind=topic.settings.queue.kind,
            partitions=len(topic.partitions),
            complete=len(total.partitions) == len(topic.partitions),
            paused=topic.settings.queue.queue_rules.paused,
            dead_letter_topic="" if letters == topic.name else letters,
            dead_letters_of=sources,
            ready=counts.ready,
            leased=counts.leased,
            delayed=counts.delayed,
            dead=counts.dead,
            dead_letters=counts.dead,
            oldest_age_ms=total.oldest_age_ms if total.oldest_age_ms >= 0 else None,
            sent=counts.sent,
            delivered=counts.delivered,
            redelivered=counts.redelivered,
            failed=counts.failed,
            died=counts.died,
            acked=counts.acked,
            moved=counts.moved,
            expired=counts.expired,
            in_rate=in_rate,
            out_rate=out_rate,
            ack_rate=ack_rate,
            redelivery_rate=redelivery_rate,
            dead_rate=dead_rate,
            error_rate=failed / ended if ended else 0.0,
            minute_ended=round(ended),
            minute_ack_rate=1_000 * acked / took_ms if took_ms else 0.0,
            expected_rate=self._expected(topic.name, key[1]),
            consumers=len(workers) or int(counts.leased > 0),
            workers=tuple(sorted(workers)),
            silent_ms=self._silent_ms(key, samples, total, now_ms),
            silent_known=key not in self._guessed,
        )

    def _queue_rates(
        self, key: _QueueKey, parts: Sequence[tuple[NodeSample, QueueSample]], now_ms: int
    ) -> tuple[list[float], tuple[float, float, int]]:
        """Per second; and what failed and was done in the last minute, and how long that was."""
        rates = _NO_RATES
        failed = acked = 0.0
        known_ms = 0
        for sample, one in parts:
            meter = self._queue_meters.setdefault((sample.node, *key), Meter(6))
            now = one.counts
            totals = (now.sent, now.delivered, now.redelivered, now.failed, now.died, now.acked)
            meter.note(now_ms, totals, (sample.life, one.partitions))
            if meter.is_flat:
                continue
            rates = [before + more for before, more in zip(rates, meter.rates(), strict=True)]
            grown, took_ms = meter.growth(MINUTE_MS)
            failed += grown[3]
            acked += grown[5]
            known_ms = max(known_ms, took_ms)
        if not known_ms:
            return _NO_RATES, (0.0, 0.0, 0)
        return [round(rate, 3) for rate in rates], (failed, acked, known_ms)

    def _silent_ms(
        self, key: _QueueKey, parts: Sequence[QueueSample], total: QueueSample, now_ms: int
    ) -> int:
        """For how long no worker was active. Leased messages and settlements count as activity, not
        only receives. Before the first survey nothing is known: the silence begins with it."""
        counts = total.counts
        said = [now_ms - one.silent_ms for one in parts if one.silent_ms >= 0]
        if key in self._heard_ms:
            said.append(self._heard_ms[key])
        heard_ms = max(said, default=now_ms)
        if counts.leased or counts.acked > self._acked.get(key, counts.acked):
            heard_ms = now_ms
            self._guessed.discard(key)
        elif any(one.silent_ms >= 0 for one in parts):
            self._guessed.discard(key)
        elif key not in self._heard_ms:
            self._guessed.add(key)
        self._heard_ms[key] = heard_ms
        self._acked[key] = counts.acked
        return now_ms - heard_ms

    # Groups.

    async def _groups(self, samples: Iterable[NodeSample], now_ms: int) -> tuple[GroupReading, ...]:
        found: dict[str, GroupReading] = {}
        met: set[tuple[str, TopicId]] = set()
        for sample in samples:
            for one in sample.groups:
                found[one.group] = self._group(sample.node, one, now_ms)
                met |= {(one.group, topic[0]) for topic in one.topics}
                await self._slices.let_others()
        if self._is_complete(samples):
            _keep(self._group_meters, met)
            _keep(self._peopled_ms, found.keys())
        return tuple(found[name] for name in sorted(found))

    def _group(self, node: NodeId, one: GroupSample, now_ms: int) -> GroupReading:
        """A consumer that commits without being a member, as a job of Spark does, counts as
        present."""
        topics: list[TopicLag] = []
        heard = one.members > 0 or one.group not in self._peopled_ms
        for topic_id, lag, committed, partitions, complete in one.topics:
            topic = self._engine.topics.catalog.topic_by_id(topic_id)
            if topic is None:
                continue
            meter = self._group_meters.setdefault((one.group, topic_id), Meter(1))
            meter.note(now_ms, (committed,), partitions)
            heard = heard or meter.has_just_grown
            topics.append(
                TopicLag(
                    topic=topic.name,
                    lag=lag,
                    committed=committed,
                    partitions=partitions,
                    complete=complete,
                    commit_rate=round(meter.rates()[0], 3),
                )
            )
        if heard:
            self._peopled_ms[one.group] = now_ms
        return GroupReading(
            group=one.group,
            state=one.state,
            coordinator=node,
            members=one.members,
            topics=tuple(sorted(topics, key=lambda row: row.topic)),
            lag=sum(row.lag for row in topics),
            commit_rate=round(sum(row.commit_rate for row in topics), 3),
            silent_ms=now_ms - self._peopled_ms[one.group],
        )

    # Topics.

    async def _topics(self, samples: Iterable[NodeSample], now_ms: int) -> tuple[TopicReading, ...]:
        sums: dict[TopicId, list[int]] = {}
        for sample in samples:
            for one in sample.topics:
                known = sums.setdefault(one.topic_id, [0, 0, 0])
                known[0] += one.partitions
                known[1] += one.starts
                known[2] += one.ends
        if self._is_complete(samples):
            _keep(self._topic_meters, sums.keys())
        found: list[TopicReading] = []
        for topic_id, (partitions, starts, ends) in sums.items():
            topic = self._engine.topics.catalog.topic_by_id(topic_id)
            if topic is not None:
                meter = self._topic_meters.setdefault(topic_id, Meter(1))
                meter.note(now_ms, (ends,), partitions)
                found.append(
                    TopicReading(
                        topic=topic.name,
                        partitions=len(topic.partitions),
                        complete=partitions == len(topic.partitions),
                        messages=ends - starts,
                        written=ends,
                        in_rate=0.0 if meter.is_flat else round(meter.rates()[0], 3),
                    )
                )
            await self._slices.let_others()
        return tuple(sorted(found, key=lambda one: one.topic))

    # Nodes and shards.

    def _shards(self, samples: Iterable[NodeSample]) -> tuple[ShardReading, ...]:
        led: dict[ShardId, tuple[NodeId, ShardSample]] = {}
        for sample in samples:
            for one in sample.shards:
                known = led.get(one.shard)
                if known is None or one.term > known[1].term:
                    led[one.shard] = sample.node, one
        return tuple(self._shard(ShardId(shard), led) for shard in self._engine.topics.shards())

    def _shard(
        self, shard: ShardId, led: Mapping[ShardId, tuple[NodeId, ShardSample]]
    ) -> ShardReading:
        known = led.get(shard)
        read_only = self._engine.topics.is_read_only(shard)
        if known is None:
            term = self._engine.topics.leader(shard).term
            return ShardReading(shard=shard, leader=NO_NODE, term=term, read_only=read_only)
        node, one = known
        return ShardReading(
            shard=shard,
            leader=node,
            term=one.term,
            commit=one.commit,
            voters=one.voters,
            read_only=read_only,
            full=one.full,
            size_bytes=one.size_bytes,
            followers=tuple(
                FollowerReading(
                    node=view.node,
                    lag_entries=view.lag_entries,
                    silent_ms=view.silent_ms,
                    state=view.state,
                )
                for view in one.followers
            ),
        )

    def _nodes(
        self, samples: Iterable[NodeSample], shards: Iterable[ShardReading]
    ) -> tuple[NodeReading, ...]:
        machines = {sample.node: sample.machine for sample in samples}
        leads: dict[int, int] = {}
        for shard in shards:
            leads[shard.leader] = leads.get(shard.leader, 0) + 1
        found = []
        for node, record in sorted(self._engine.topics.catalog.nodes.items()):
            machine = machines.get(node)
            base = NodeReading(
                node=node,
                alive=machine is not None,
                leaving=record.leaving,
                leads=leads.get(node, 0),
                http=record.http,
                kafka=record.kafka,
            )
            found.append(base if machine is None else base.on(machine))
        return tuple(found)


def _settled(
    samples: Sequence[NodeSample], shard_of: Callable[[PartitionId], ShardId]
) -> list[NodeSample]:
    """Leadership is just moving, and two nodes speak for a shard: the former one's queues there
    are left out."""
    leaders: dict[ShardId, tuple[int, NodeId]] = {}
    for sample in samples:
        for shard in sample.shards:
            leaders[shard.shard] = max(
                leaders.get(shard.shard, (-1, NO_NODE)), (shard.term, sample.node)
            )
    found = []
    for sample in samples:
        lost = {one.shard for one in sample.shards if leaders[one.shard][1] != sample.node}
        queues = [
            one
            for one in sample.queues
            if not lost or lost.isdisjoint(map(shard_of, one.partitions))
        ]
        found.append(msgspec.structs.replace(sample, queues=queues))
    return found


def _keep(table: dict[_Key, _Value], keys: Collection[_Key]) -> None:
    """Remove the entries of keys that no longer exist."""
    for key in [one for one in table if one not in keys]:
        del table[key]


def _summed(samples: Sequence[QueueSample]) -> QueueSample:
    """Several partitions' worth, led by several nodes."""
    first = samples[0]
    counts = [
        sum(getattr(one.counts, name) for one in samples) for name in WorkCounts.__struct_fields__
    ]
    partitions = tuple(sorted(number for one in samples for number in one.partitions))
    oldest_ms = max(one.oldest_age_ms for one in samples)
    return QueueSample(first.topic_id, first.group, partitions, WorkCounts(*counts), oldest_ms)


def _with_dead_letters(
    queues: Sequence[QueueReading], moved: Mapping[tuple[str, str], int]
) -> Iterable[QueueReading]:
    """Dead letters in a dead-letter queue are counted for their source queues too, and there for
    the work groups that moved any. If none has, as when programs send to the dead-letter queue
    themselves, all of them count."""
    letters = {one.dead_letter_topic for one in queues}  # A work group may have one of its own.
    held: dict[str, int] = {}
    losers: dict[tuple[str, str], int] = {}
    for one in queues:
        if one.dead_letters_of or one.queue in letters:
            held[one.queue] = max(lying(one), held.get(one.queue, 0))
        if moved.get((one.queue, one.group)):
            place = one.queue, one.dead_letter_topic
            losers[place] = losers.get(place, 0) + 1
    for one in queues:
        more = held.get(one.dead_letter_topic, 0)
        others = losers.get((one.queue, one.dead_letter_topic), 0)
        own = moved.get((one.queue, one.group), 0)
        if others > 1 or (others and not own):
            more = min(more, own)
        if not more:
            yield one
            continue
        dead = one.dead + more
        yield msgspec.structs.replace(one, dead=dead, dead_letters=dead, dead_lettered=more)


def _totals(
    queues: Sequence[QueueReading],
    groups: Sequence[GroupReading],
    topics: Sequence[TopicReading],
) -> Totals:
    failing = sum(one.error_rate * one.out_rate for one in queues)
    out_rate = sum(one.out_rate for one in queues)
    # What lies in a dead-letter queue counts once, however many queues send theirs there.
    letters = {one.dead_letter_topic for one in queues}
    dead = sum(
        (lying(one) if one.dead_letters_of or one.queue in letters else one.dead)
        - one.dead_lettered
        for one in queues
    )
    ages = [one.oldest_age_ms for one in queues if one.oldest_age_ms is not None]
    return Totals(
        queues=len({one.queue for one in queues}),
        topics=sum(not is_internal(one.topic) for one in topics),
        groups=len(groups),
        ready=sum(one.ready for one in queues),
        leased=sum(one.leased for one in queues),
        delayed=sum(one.delayed for one in queues),
        dead=dead,
        dead_letters=dead,
        lag=sum(one.lag for one in groups),
        oldest_age_ms=max(ages, default=None),
        consumers=sum(one.consumers for one in queues) + sum(one.members for one in groups),
        in_rate=round(sum(one.in_rate for one in topics if not is_internal(one.topic)), 3),
        out_rate=round(out_rate, 3),
        ack_rate=round(sum(one.ack_rate for one in queues), 3),
        redelivery_rate=round(sum(one.redelivery_rate for one in queues), 3),
        dead_rate=round(sum(one.dead_rate for one in queues), 3),
        error_rate=round(failing / out_rate, 6) if out_rate else 0.0,
    )


def _health(nodes: Sequence[NodeReading], shards: Sequence[ShardReading]) -> tuple[str, bool]:
    """In a sentence, and in a word."""
    alive = sum(node.alive for node in nodes)
    text = f"{alive} of {len(nodes)} nodes"
    stuck = [str(shard.shard) for shard in shards if shard.read_only]
    lost = [str(shard.shard) for shard in shards if shard.leader == NO_NODE]
    full = [str(shard.shard) for shard in shards if shard.full]
    if stuck:
        return f"{text}, {_shards_of(stuck)} read-only: no majority", False
    if lost:
        return f"{text}, {_shards_of(lost)} without a leader", False
    if full:
        return f"{text}, {_shards_of(full)} full: appends are refused", False
    return f"{text}, all leaders settled", alive == len(nodes)


def _shards_of(numbers: Sequence[str]) -> str:
    return f"shard {numbers[0]} is" if len(numbers) == 1 else f"shards {' '.join(numbers)} are"
