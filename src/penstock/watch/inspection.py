"""The rules, applied: readings go in, findings come out.

A topic's own thresholds (`alert.*`) take precedence over the broker's (`[alerts]`).

    rule              looks at
    lag               each consumer group, topic by topic
    depth             ready messages of each queue, but not of dead-letter queues
    dead_letters      dead letters where they lie: in the dead-letter queue, or aside in the queue
    error_rate        the last minute of each queue in which enough deliveries ended
    no_consumers      queues and groups that have something to do, and are not paused
    processing_rate   queues that have something to do, are not paused, and have a usual rate
    disk              each node
"""

from collections.abc import Callable, Iterator

from penstock.core.alert_configs import DEFAULT_ALERT_CONFIGS, AlertConfigs
from penstock.core.alert_levels import Level, Levels
from penstock.core.message_states import lying
from penstock.core.plurals import counted
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.machines.catalog import Catalog
from penstock.watch.alert import Subject
from penstock.watch.alerts import Finding
from penstock.watch.readings import GroupReading, NodeReading, QueueReading, Readings, TopicLag
from penstock.watch.rules import BACKLOG_SECONDS, RULES
from penstock.watch.settings import AlertSettings


def inspect(
    readings: Readings, catalog: Catalog, settings: AlertSettings
) -> Iterator[list[Finding]]:
    """Yield the findings on each queue, group and node that could be read."""
    for queue in readings.queues:
        if queue.complete:
            yield list(_of_queue(queue, _configs(catalog, queue.queue), settings))
    for group in readings.groups:
        for topic in group.topics:
            if topic.complete:
                configs = _configs(catalog, topic.topic)
                yield list(_of_group(group, topic, configs, settings))
    for node in readings.nodes:
        yield list(_of_node(node, settings))


def unknown_keys(readings: Readings) -> frozenset[str]:
    """The alert keys of everything that exists and could not be read."""
    subjects = [_queue_subject(one) for one in readings.queues if not one.complete]
    subjects += [
        _group_subject(group, topic)
        for group in readings.groups
        for topic in group.topics
        if not topic.complete
    ]
    subjects += [_node_subject(node) for node in readings.nodes if node.disk_used_share is None]
    return frozenset(f"{rule}:{subject.key}" for subject in subjects for rule in RULES)


def _configs(catalog: Catalog, topic: str) -> AlertConfigs:
    found = catalog.topic(topic)
    return DEFAULT_ALERT_CONFIGS if found is None else found.settings.alerts


def judge(levels: Levels, value: float, *, below: bool = False) -> tuple[Level, float] | None:
    """The worst level that a value has reached, and where that level begins."""
    for level, at in levels.items():
        if value < at if below else value > at:
            return level, at
    return None


# Queues.


def _of_queue(
    one: QueueReading, configs: AlertConfigs, settings: AlertSettings
) -> Iterator[Finding]:
    if not (one.ready or one.leased or one.delayed or one.dead or one.error_rate):
        return
    judged = _Judged(_queue_subject(one), configs, settings)
    if one.dead_letters_of:
        held = lying(one) - one.dead_lettered
        whose = ", ".join(one.dead_letters_of[:3])
        yield from judged.by(
            "dead_letters",
            held,
            lambda: f"{one.queue} holds {counted(held, 'dead letter')} of {whose}",
        )
        return
    kept = one.dead - one.dead_lettered
    if kept:
        yield from judged.by(
            "dead_letters",
            kept,
            lambda: f"{_named(one)} keeps {counted(kept, 'message')} that failed for good",
        )
    if one.error_rate and one.minute_ended >= RULES["error_rate"].counted_min:
        yield from judged.by(
            "error_rate",
            one.error_rate,
            lambda: f"{one.error_rate:.1%} of the deliveries of {_named(one)} fail",
        )
    if one.ready:
        yield from judged.by(
            "depth",
            one.ready,
            lambda: (
                f"{counted(one.ready, 'message')} of {_named(one)}"
                f" {'is' if one.ready == 1 else 'are'} ready and not leased"
            ),
        )
        if not one.paused:
            yield from _unattended(one, judged)
            yield from _slow(one, configs, judged)


def _unattended(one: QueueReading, judged: "_Judged") -> Iterator[Finding]:
    silent_ms = one.silent_ms or 0
    return judged.by(
        "no_consumers",
        silent_ms,
        lambda: (
            f"no consumer has asked for messages of {_named(one)} for {lasted(silent_ms)},"
            f" and {one.ready:,} wait"
        ),
    )


def _slow(one: QueueReading, configs: AlertConfigs, judged: "_Judged") -> Iterator[Finding]:
    expected = configs.expected_rate or one.expected_rate
    if not expected or one.ready <= BACKLOG_SECONDS * expected:
        return
    share = one.minute_ack_rate / expected
    yield from judged.by(
        "processing_rate",
        share,
        lambda: (
            f"workers of {_named(one)} process {one.minute_ack_rate:,.1f} messages a second,"
            f" {share:.0%} of the {expected:,.1f} that are expected"
        ),
    )


def _named(one: QueueReading) -> str:
    return one.queue if one.group == DEFAULT_WORK_GROUP else f"{one.queue} for {one.group}"


def _queue_subject(one: QueueReading) -> Subject:
    return Subject(kind="queue", queue=one.queue, group=one.group)


# Groups and nodes.


def _of_group(
    group: GroupReading, topic: TopicLag, configs: AlertConfigs, settings: AlertSettings
) -> Iterator[Finding]:
    if not topic.lag:
        return
    judged = _Judged(_group_subject(group, topic), configs, settings)
    yield from judged.by(
        "lag",
        topic.lag,
        lambda: f"group {group.group} is {counted(topic.lag, 'message')} behind in {topic.topic}",
    )
    silent_ms = group.silent_ms or 0
    yield from judged.by(
        "no_consumers",
        silent_ms,
        lambda: (
            f"group {group.group} has had no member for {lasted(silent_ms)},"
            f" and {counted(topic.lag, 'message')} of {topic.topic}"
            f" {'waits' if topic.lag == 1 else 'wait'}"
        ),
    )


def _group_subject(group: GroupReading, topic: TopicLag) -> Subject:
    return Subject(kind="group", group=group.group, topic=topic.topic)


def _of_node(node: NodeReading, settings: AlertSettings) -> Iterator[Finding]:
    share = node.disk_used_share
    if share is not None:
        judged = _Judged(_node_subject(node), None, settings)
        yield from judged.by(
            "disk", share, lambda: f"the disk of node {node.node} is {share:.1%} full"
        )
        used = node.state_used_share
        yield from judged.by(
            "state", used, lambda: f"state of a shard on node {node.node} is {used:.1%} full"
        )


def _node_subject(node: NodeReading) -> Subject:
    return Subject(kind="node", node=node.node)


class _Judged:
    """A subject, and the configs that apply to it."""

    __slots__ = ("_configs", "_settings", "_subject")

    def __init__(
        self, subject: Subject, configs: AlertConfigs | None, settings: AlertSettings
    ) -> None:
        self._subject = subject
        self._configs = configs
        self._settings = settings

    def by(self, rule: str, value: float, say: Callable[[], str]) -> Iterator[Finding]:
        """Yield the finding of a rule, if there is one."""
        levels = self._settings.levels_for(rule, self._configs)
        reached = judge(levels, value, below=RULES[rule].below)
        if reached is not None:
            level, threshold = reached
            yield Finding(
                rule=rule,
                subject=self._subject,
                level=level,
                value=value,
                threshold=threshold,
                message=say(),
            )


def lasted(duration_ms: int) -> str:
    """Format a duration in one or two words."""
    minutes = duration_ms // 60_000
    if minutes < 120:
        return f"{minutes} minutes" if minutes > 1 else counted(duration_ms // 1_000, "second")
    return f"{minutes // 60} hours" if minutes < 48 * 60 else f"{minutes // 1_440} days"
