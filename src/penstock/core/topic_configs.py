"""The table of topic configs, and their meaning as typed settings.

Names, defaults and ranges are Kafka's, because its users type them and its tools list them all. Not
every one has a meaning here: there are no index files to size, and nothing to flush that a commit
has not made durable. Those are accepted, checked and shown, and `acts` says which have no effect: a
topic that was made for Kafka can be made here, and its users can see what each config does.

A topic holds the configs that were set on it, as text (`Mapping[str, str]`); whatever is not set
has its default. `parse_topic_configs` turns them into `TopicSettings`, once per change of a topic,
and refuses what is unknown or out of range.

The catalog decides with this table while it applies an entry, on every replica. So a name that is
added, or a range that is changed, is new behaviour: it comes with a new version of the catalog.
"""

from collections.abc import Iterable, Mapping
from enum import Enum

import msgspec

from penstock.core.alert_configs import ALERT_CONFIGS, AlertConfigs, alert_configs
from penstock.core.configs import (
    DAY_MS,
    INT_MAX,
    LONG_MAX,
    ConfigKind,
    ConfigValues,
    check_config_names,
)
from penstock.core.errors import InvalidConfig
from penstock.core.limits import BATCH_BYTES_MAX
from penstock.core.queue_settings import (
    QUEUE_CONFIGS,
    QueueSettings,
    TopicConfig,
    queue_settings,
)


class Durability(Enum):
    """The point at which a message is stored safely enough for its producer to be answered."""

    REPLICATED = "replicated"
    """Durable on a majority of the shard's nodes: survives the loss of any minority of them."""
    DISK = "disk"
    """Durable on the leader: survives a power cut, not the loss of that node."""
    MEMORY = "memory"
    """In the leader's memory: a crash may lose it."""


_THROTTLED = r"[0-9]{1,9}:[0-9]{1,9}"

_TABLE = (
    *ALERT_CONFIGS,
    TopicConfig(
        name="cleanup.policy",
        kind=ConfigKind.LIST,
        default="delete",
        choices=("compact", "delete"),
        empty_version=2,
        documentation="What becomes of old messages: delete forgets them by age and by size,"
        " compact keeps at least the last one of every key; with neither, all stay.",
    ),
    TopicConfig(
        name="compression.gzip.level",
        kind=ConfigKind.INT,
        default="-1",
        least=-1,
        most=9,
        acts=False,
        documentation="Batches stay as their producers compressed them.",
    ),
    TopicConfig(
        name="compression.lz4.level",
        kind=ConfigKind.INT,
        default="9",
        least=1,
        most=17,
        acts=False,
        documentation="Batches stay as their producers compressed them.",
    ),
    TopicConfig(
        name="compression.type",
        kind=ConfigKind.STRING,
        default="producer",
        choices=("uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"),
        acts=False,
        documentation="Batches stay as their producers compressed them, which is what producer"
        " means.",
    ),
    TopicConfig(
        name="compression.zstd.level",
        kind=ConfigKind.INT,
        default="3",
        least=-131_072,
        most=22,
        acts=False,
        documentation="Batches stay as their producers compressed them.",
    ),
    TopicConfig(
        name="delete.retention.ms",
        kind=ConfigKind.LONG,
        default=str(DAY_MS),
        documentation="How long a compacted topic keeps the mark that a key was deleted.",
    ),
    TopicConfig(
        name="file.delete.delay.ms",
        kind=ConfigKind.LONG,
        default="60000",
        acts=False,
        documentation="Files are deleted when no reader has them open.",
    ),
    TopicConfig(
        name="flush.messages",
        kind=ConfigKind.LONG,
        default=str(LONG_MAX),
        least=1,
        acts=False,
        documentation="Writing to disk is part of committing: see penstock.durability.",
    ),
    TopicConfig(
        name="flush.ms",
        kind=ConfigKind.LONG,
        default=str(LONG_MAX),
        acts=False,
        documentation="Writing to disk is part of committing: see penstock.durability.",
    ),
    TopicConfig(
        name="follower.replication.throttled.replicas",
        kind=ConfigKind.LIST,
        default="",
        choices=("*",),
        pattern=_THROTTLED,
        example="0:1",
        empty_version=2,
        catalog_version=2,
        acts=False,
        documentation="Copies between nodes are not throttled by topic.",
    ),
    TopicConfig(
        name="index.interval.bytes",
        kind=ConfigKind.INT,
        default="4096",
        most=INT_MAX,
        acts=False,
        documentation="Every batch is in the index.",
    ),
    TopicConfig(
        name="leader.replication.throttled.replicas",
        kind=ConfigKind.LIST,
        default="",
        choices=("*",),
        pattern=_THROTTLED,
        example="0:1",
        empty_version=2,
        catalog_version=2,
        acts=False,
        documentation="Copies between nodes are not throttled by topic.",
    ),
    TopicConfig(
        name="local.retention.bytes",
        kind=ConfigKind.LONG,
        default="-2",
        least=-2,
        catalog_version=2,
        acts=False,
        documentation="There is no tiered storage: all that is retained is local.",
    ),
    TopicConfig(
        name="local.retention.ms",
        kind=ConfigKind.LONG,
        default="-2",
        least=-2,
        catalog_version=2,
        acts=False,
        documentation="There is no tiered storage: all that is retained is local.",
    ),
    TopicConfig(
        name="max.compaction.lag.ms",
        kind=ConfigKind.LONG,
        default=str(LONG_MAX),
        least=1,
        documentation="How long a message of a compacted topic may stay after a later one of its"
        " key.",
    ),
    TopicConfig(
        name="max.message.bytes",
        kind=ConfigKind.INT,
        default="1048588",
        most=BATCH_BYTES_MAX,
        documentation="The largest record batch, as the producer compressed it.",
    ),
    TopicConfig(
        name="message.timestamp.after.max.ms",
        kind=ConfigKind.LONG,
        default="3600000",
        documentation="How far a message's own time may be ahead of the broker's. Only for"
        " CreateTime.",
    ),
    TopicConfig(
        name="message.timestamp.before.max.ms",
        kind=ConfigKind.LONG,
        default=str(LONG_MAX),
        documentation="How far a message's own time may be behind the broker's. Only for"
        " CreateTime.",
    ),
    TopicConfig(
        name="message.timestamp.type",
        kind=ConfigKind.STRING,
        default="CreateTime",
        choices=("CreateTime", "LogAppendTime"),
        documentation="Whose time a message carries: its producer's or the broker's.",
    ),
    TopicConfig(
        name="min.cleanable.dirty.ratio",
        kind=ConfigKind.DOUBLE,
        default="0.5",
        most=1,
        documentation="Which share of a compacted partition must be new before it is compacted.",
    ),
    TopicConfig(
        name="min.compaction.lag.ms",
        kind=ConfigKind.LONG,
        default="0",
        documentation="How long every message of a compacted topic stays at least.",
    ),
    TopicConfig(
        name="min.insync.replicas",
        kind=ConfigKind.INT,
        default="1",
        least=1,
        most=INT_MAX,
        documentation="How many replicas must be up for a write with acks=all. A majority must be"
        " in any case.",
    ),
    TopicConfig(
        name="penstock.durability",
        kind=ConfigKind.STRING,
        default=Durability.REPLICATED.value,
        choices=tuple(one.value for one in Durability),
        documentation="Where a message must be before its producer gets an answer: on a majority"
        " of disks, on the leader's disk, or in the leader's memory.",
    ),
    TopicConfig(
        name="penstock.validate.records",
        kind=ConfigKind.BOOLEAN,
        default="true",
        catalog_version=2,
        documentation="Whether the records of a batch are checked before it is stored: they can be"
        " decompressed, are as many as the batch says, and have the lengths they say. Those of"
        " compacted topics, and of queues that read delivery headers, message groups or ids, are"
        " always checked.",
    ),
    TopicConfig(
        name="preallocate",
        kind=ConfigKind.BOOLEAN,
        default="false",
        acts=False,
        documentation="Files belong to shards, not to topics.",
    ),
    *QUEUE_CONFIGS,
    TopicConfig(
        name="remote.log.copy.disable",
        kind=ConfigKind.BOOLEAN,
        default="false",
        choices=("false",),
        catalog_version=2,
        acts=False,
        documentation="There is no tiered storage.",
    ),
    TopicConfig(
        name="remote.log.delete.on.disable",
        kind=ConfigKind.BOOLEAN,
        default="false",
        choices=("false",),
        catalog_version=2,
        acts=False,
        documentation="There is no tiered storage.",
    ),
    TopicConfig(
        name="remote.storage.enable",
        kind=ConfigKind.BOOLEAN,
        default="false",
        choices=("false",),
        catalog_version=2,
        acts=False,
        documentation="There is no tiered storage to enable.",
    ),
    TopicConfig(
        name="retention.bytes",
        kind=ConfigKind.LONG,
        default="-1",
        least=-1,
        documentation="How many bytes a partition may have before its oldest messages go; -1: any"
        " number.",
    ),
    TopicConfig(
        name="retention.ms",
        kind=ConfigKind.LONG,
        default=str(7 * DAY_MS),
        least=-1,
        documentation="How old a message may get, by its own time or by when it was stored,"
        " whichever is earlier; -1: any age.",
    ),
    TopicConfig(
        name="segment.bytes",
        kind=ConfigKind.INT,
        default="1073741824",
        least=14,
        most=INT_MAX,
        acts=False,
        documentation="Files belong to shards, not to topics.",
    ),
    TopicConfig(
        name="segment.index.bytes",
        kind=ConfigKind.INT,
        default="10485760",
        least=4,
        most=INT_MAX,
        acts=False,
        documentation="Files belong to shards, not to topics.",
    ),
    TopicConfig(
        name="segment.jitter.ms",
        kind=ConfigKind.LONG,
        default="0",
        acts=False,
        documentation="Files belong to shards, not to topics.",
    ),
    TopicConfig(
        name="segment.ms",
        kind=ConfigKind.LONG,
        default=str(7 * DAY_MS),
        least=1,
        acts=False,
        documentation="Files belong to shards, not to topics.",
    ),
    TopicConfig(
        name="unclean.leader.election.enable",
        kind=ConfigKind.BOOLEAN,
        default="false",
        acts=False,
        documentation="A node that misses a committed message is never elected.",
    ),
)

TOPIC_CONFIGS: Mapping[str, TopicConfig] = {config.name: config for config in _TABLE}
"""Every config there is, sorted by name."""


class TopicSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parsed configs of a topic."""

    retention_ms: int | None
    """None: messages of any age stay."""
    retention_bytes: int | None
    """None: a partition of any size stays."""
    message_bytes_max: int
    compacts: bool
    deletes: bool
    """True if retention by age or size is in force."""
    log_append_time: bool
    """True if the broker's time replaces the producer's."""
    timestamp_before_max_ms: int
    timestamp_after_max_ms: int
    insync_min: int
    """Replicas that must be in-sync, in touch with the leader, for a write with acks=all."""
    durability: Durability
    validates_records: bool
    """True if a batch is opened and checked before it is stored."""
    min_compaction_lag_ms: int
    max_compaction_lag_ms: int
    min_cleanable_dirty_ratio: float
    delete_retention_ms: int
    queue: QueueSettings
    """The settings of the topic as a queue."""
    alerts: AlertConfigs
    """The thresholds of its alerts."""


def parse_topic_configs(configs: Mapping[str, str]) -> TopicSettings:
    """The settings of a topic with these configs; `InvalidConfig` if one is unknown or wrong."""
    if not configs:
        return DEFAULT_TOPIC_SETTINGS
    check_topic_config_names(configs)
    settings = _settings(configs)
    if settings.max_compaction_lag_ms < settings.min_compaction_lag_ms:
        raise InvalidConfig(
            f"topic config max.compaction.lag.ms cannot be {settings.max_compaction_lag_ms}: it is"
            f" at least min.compaction.lag.ms, which is {settings.min_compaction_lag_ms}"
        )
    if settings.compacts:
        _check_compacted(settings.queue)
    return settings


def _check_compacted(queue: QueueSettings) -> None:
    """Refuse configs that do not work with compaction, which leaves gaps: the rest cannot be
    counted or deleted too."""
    for name, is_set in (
        ("queue.delete.acked", queue.delete_acked),
        ("queue.length.max", queue.length_max is not None),
        ("queue.bytes.max", queue.bytes_max is not None),
    ):
        if is_set:
            raise InvalidConfig(
                f"topic config {name} cannot be set with cleanup.policy=compact, which keeps the"
                " last message of every key"
            )


def check_topic_config_names(names: Iterable[str]) -> None:
    """Raise an error for a name that is not in the table."""
    check_config_names(TOPIC_CONFIGS, names, TopicConfig.subject)


def catalog_version_of(changes: Mapping[str, str | None]) -> int:
    """The catalog's version that it takes to set these configs; None takes one back."""
    known = ((TOPIC_CONFIGS.get(name), text) for name, text in changes.items())
    return max((config.version_of(text) for config, text in known if config), default=1)


def _settings(configs: Mapping[str, str]) -> TopicSettings:
    values = ConfigValues(TOPIC_CONFIGS, configs)
    policies = values.texts("cleanup.policy")
    return TopicSettings(
        retention_ms=values.bounded("retention.ms"),
        retention_bytes=values.bounded("retention.bytes"),
        message_bytes_max=values.integer("max.message.bytes"),
        compacts="compact" in policies,
        deletes="delete" in policies,
        log_append_time=values.text("message.timestamp.type") == "LogAppendTime",
        timestamp_before_max_ms=values.integer("message.timestamp.before.max.ms"),
        timestamp_after_max_ms=values.integer("message.timestamp.after.max.ms"),
        insync_min=values.integer("min.insync.replicas"),
        durability=Durability(values.text("penstock.durability")),
        validates_records=values.boolean("penstock.validate.records"),
        min_compaction_lag_ms=values.integer("min.compaction.lag.ms"),
        max_compaction_lag_ms=values.integer("max.compaction.lag.ms"),
        min_cleanable_dirty_ratio=values.decimal("min.cleanable.dirty.ratio"),
        delete_retention_ms=values.integer("delete.retention.ms"),
        queue=queue_settings(values),
        alerts=alert_configs(values),
    )


DEFAULT_TOPIC_SETTINGS = _settings({})
"""The settings of a topic on which none is set, which most topics share."""

__all__ = [
    "DEFAULT_TOPIC_SETTINGS",
    "TOPIC_CONFIGS",
    "ConfigKind",
    "Durability",
    "QueueSettings",
    "TopicConfig",
    "TopicSettings",
    "catalog_version_of",
    "check_topic_config_names",
    "parse_topic_configs",
]
