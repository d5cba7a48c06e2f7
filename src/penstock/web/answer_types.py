"""The answers of the HTTP API that no other component reads: one type for each.

They are what the endpoints build, and what the reference of the API is made from.
"""

from collections.abc import Collection, Sequence

import msgspec
from msgspec import UNSET, UnsetType

from penstock.core.alert_levels import Levels
from penstock.core.configs import ConfigValue
from penstock.core.pipeline_report import PipelineReport
from penstock.engine.groups.lag import GroupLine
from penstock.engine.inspection.audit import AuditLine
from penstock.engine.inspection.events import Event
from penstock.engine.inspection.offset_resets import OffsetChange
from penstock.watch.alert import Alert
from penstock.watch.silences import AlertSilence
from penstock.watch.webhook import WebhookStatistics
from penstock.web.broker import SettingRow
from penstock.web.queue_lines import GroupSettingLine, MoveLine, QueueLine, ResetPlace
from penstock.web.queue_messages import StoredMessage
from penstock.web.topic_lines import TopicLine


class QueueList(msgspec.Struct, frozen=True):
    """The queues, sorted by name."""

    queues: Sequence[QueueLine]
    next: str | None
    """The `after` of the next page; None if this is the last."""


class QueueMade(msgspec.Struct, frozen=True):
    """A queue that was made, with the settings it has, defaults included."""

    name: str
    partitions: int
    settings: dict[str, ConfigValue]
    created: list[str]
    """The names of the queue and, if it was created too, of its dead-letter queue."""


class QueueKept(QueueMade, frozen=True):
    """A queue that was there already, and is left as it is."""

    differs: dict[str, ConfigValue]
    """Settings that were wanted otherwise, as they were wanted."""


class SettingsInForce(msgspec.Struct, frozen=True, kw_only=True):
    """A queue or a work group with its settings as they are now."""

    name: str
    group: str | UnsetType = UNSET
    """The work group, if it is the group's settings that changed."""
    settings: dict[str, ConfigValue | GroupSettingLine]


class QueueDeleted(msgspec.Struct, frozen=True):
    name: str
    deleted: bool = True


class QueuePurged(msgspec.Struct, frozen=True):
    """The number of messages that a purge dropped."""

    name: str
    group: str
    purged: int


class QueueReset(msgspec.Struct, frozen=True, kw_only=True):
    """The new position of a work group."""

    group: str
    partitions: Sequence[ResetPlace]
    messages: int
    """The number of messages from there to the end."""
    dry_run: bool


class MessagePage(msgspec.Struct, frozen=True):
    messages: Sequence[StoredMessage]
    next: str | None
    """The `from` of the next page; None if this is the last."""


class ReceivedMessages(msgspec.Struct, frozen=True):
    """Messages that are leased now."""

    messages: Sequence[StoredMessage]


class SentMessage(msgspec.Struct, frozen=True, kw_only=True):
    """The place where a message is stored; for a duplicate, the place of the first."""

    partition: int
    offset: int
    duplicate: bool


class SentMessages(msgspec.Struct, frozen=True):
    """A line for each message, in order."""

    messages: Sequence[SentMessage]


class MessagesCancelled(msgspec.Struct, frozen=True):
    """The number of messages that were cancelled."""

    cancelled: int


class SettleOutcomes(msgspec.Struct, frozen=True):
    """The outcome of each verdict, in order: done, stale or gone."""

    outcomes: list[str]


class MoveList(msgspec.Struct, frozen=True):
    """Moves out of a queue, the latest first."""

    moves: Sequence[MoveLine]


class Matching(msgspec.Struct, frozen=True):
    """The number of messages that match, found by a dry run."""

    matching: int


class DeadDecided(msgspec.Struct, frozen=True):
    """The number of dead messages that were changed."""

    messages: int


class TopicList(msgspec.Struct, frozen=True):
    """The topics, sorted by name."""

    topics: Sequence[TopicLine]
    next: str | None
    """The `after` of the next page; None if this is the last."""


class GroupList(msgspec.Struct, frozen=True):
    """Consumer groups of the whole cluster."""

    groups: Sequence[GroupLine]


class GroupReset(msgspec.Struct, frozen=True, kw_only=True):
    """The new position of a consumer group."""

    group: str
    changes: Sequence[OffsetChange]
    lag: int
    """Of all partitions, once it is reset."""
    dry_run: bool


class GroupDeleted(msgspec.Struct, frozen=True):
    """A consumer group that is forgotten."""

    group: str
    deleted: bool = True


class PipelineList(msgspec.Struct, frozen=True):
    """The last report of every pipeline."""

    pipelines: Sequence[PipelineReport]


class SettingList(msgspec.Struct, frozen=True):
    """The settings of the node that answers."""

    settings: Sequence[SettingRow]


class AuditTrail(msgspec.Struct, frozen=True):
    """The actions of operators, newest first."""

    orders: Sequence[AuditLine]


class EventList(msgspec.Struct, frozen=True):
    """The events of all nodes, newest last."""

    events: Sequence[Event]


class StopVerdict(msgspec.Struct, frozen=True):
    """Whether the node that answers may be stopped."""

    safe_to_stop: bool
    problems: list[str]
    """A sentence for each shard that needs it."""


class ReplicaVerdict(msgspec.Struct, frozen=True):
    """Whether every shard has all its replicas."""

    replicated: bool
    problems: list[str]


class MemberAdded(msgspec.Struct, frozen=True):
    """A node that is joining the cluster."""

    node: int
    peer: str


class MemberRemoved(msgspec.Struct, frozen=True):
    """A node that is leaving the cluster."""

    node: int
    gone: bool
    """False while its shards are still moving; ask again."""


class LeadershipMoved(msgspec.Struct, frozen=True):
    """A shard and its new leader."""

    shard: int
    target: int


class RuleLine(msgspec.Struct, frozen=True, kw_only=True):
    """An alert rule with its current settings."""

    rule: str
    title: str
    about: str
    unit: str
    below: bool
    """True if it alerts below its thresholds instead of above."""
    target: float | None
    levels: Levels
    meaning: str
    advice: str
    runbook: str


class AlertBoard(msgspec.Struct, frozen=True, kw_only=True):
    """The current alerts, the resolved ones and the rules."""

    enabled: bool
    webhook: str
    webhook_statistics: WebhookStatistics
    alerts: Collection[Alert]
    """The alerts that are pending or firing."""
    resolved: Collection[Alert]
    silences: Collection[AlertSilence]
    """Acknowledgements and silences in force."""
    rules: Sequence[RuleLine]


class SilenceList(msgspec.Struct, frozen=True):
    """The acknowledgements and silences in force."""

    silences: Collection[AlertSilence]


class AlertTested(msgspec.Struct, frozen=True):
    """The result of a test of the webhook."""

    sent: bool
    webhook: str
