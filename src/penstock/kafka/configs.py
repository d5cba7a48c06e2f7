"""Configurations as Kafka's tools see them: of topics and groups, which can be changed, and of this
broker.

An entry tells its value, where that comes from, and what would count if it were not set: the
synonyms, the one in force first. The last synonym of a topic's config is the broker's default,
under the name that Kafka's brokers have for it.

A broker's settings are read once, when it starts, from flags, variables and its file; here they are
shown under Kafka's names where Kafka has one, and the documentation says what to set instead.
"""

from collections.abc import Collection, Mapping
from enum import IntEnum

import msgspec

from penstock.core.configs import Config, ConfigKind
from penstock.core.group_configs import GROUP_CONFIGS
from penstock.core.limits import MEMORY_BYTES_MAX
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.core.types import ShardId
from penstock.engine.engine import Engine
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.topics.topics import EngineSettings
from penstock.kafka.port_state import KafkaSettings, PortState
from penstock.kafka.row_errors import Row

_MINUTE_MS = 60_000


class Resource(IntEnum):
    """What can have configurations."""

    TOPIC = 2
    BROKER = 4
    BROKER_LOGGER = 8
    CLIENT_METRICS = 16
    GROUP = 32


class Source(IntEnum):
    """Where a value comes from."""

    TOPIC = 1
    BROKER = 4
    """Set when the broker was started."""
    DEFAULT = 5
    GROUP = 8


class Synonym(msgspec.Struct, frozen=True):
    """A value that counts, or would count if those before it were not there."""

    name: str
    value: str | None
    """None: inherited from the queue that the group reads."""
    source: Source


class ConfigEntry(msgspec.Struct, frozen=True, kw_only=True):
    """One configuration of one thing."""

    name: str
    kind: ConfigKind
    synonyms: tuple[Synonym, ...]
    """The first is in force."""
    read_only: bool
    documentation: str

    @property
    def value(self) -> str | None:
        """What counts; None if that is inherited from the queue."""
        return self.synonyms[0].value

    @property
    def source(self) -> Source:
        """Why it counts."""
        return self.synonyms[0].source

    def row(self, *, synonyms: bool, documentation: bool) -> Row:
        """The entry in a DescribeConfigs answer."""
        told = self.synonyms if synonyms else ()
        return {
            "name": self.name,
            "value": self.value,
            "read_only": self.read_only,
            "config_source": int(self.source),
            "is_sensitive": False,
            "synonyms": [
                {"name": one.name, "value": one.value, "source": int(one.source)} for one in told
            ],
            "config_type": int(self.kind),
            "documentation": self.documentation if documentation else None,
        }


_BROKER_NAMES: Mapping[str, str] = {
    "cleanup.policy": "log.cleanup.policy",
    "compression.gzip.level": "compression.gzip.level",
    "compression.lz4.level": "compression.lz4.level",
    "compression.type": "compression.type",
    "compression.zstd.level": "compression.zstd.level",
    "delete.retention.ms": "log.cleaner.delete.retention.ms",
    "file.delete.delay.ms": "log.segment.delete.delay.ms",
    "flush.messages": "log.flush.interval.messages",
    "flush.ms": "log.flush.interval.ms",
    "index.interval.bytes": "log.index.interval.bytes",
    "max.compaction.lag.ms": "log.cleaner.max.compaction.lag.ms",
    "max.message.bytes": "message.max.bytes",
    "message.timestamp.after.max.ms": "log.message.timestamp.after.max.ms",
    "message.timestamp.before.max.ms": "log.message.timestamp.before.max.ms",
    "message.timestamp.type": "log.message.timestamp.type",
    "min.cleanable.dirty.ratio": "log.cleaner.min.cleanable.ratio",
    "min.compaction.lag.ms": "log.cleaner.min.compaction.lag.ms",
    "min.insync.replicas": "min.insync.replicas",
    "preallocate": "log.preallocate",
    "retention.bytes": "log.retention.bytes",
    "retention.ms": "log.retention.ms",
    "segment.bytes": "log.segment.bytes",
    "segment.index.bytes": "log.index.size.max.bytes",
    "segment.jitter.ms": "log.roll.jitter.ms",
    "segment.ms": "log.roll.ms",
    "unclean.leader.election.enable": "unclean.leader.election.enable",
}
"""What Kafka's brokers call the default of a topic's config."""

_GROUP_NAMES: Mapping[str, str] = {
    "consumer.assignment.interval.ms": "group.consumer.assignment.interval.ms",
    "consumer.heartbeat.interval.ms": "group.consumer.heartbeat.interval.ms",
    "consumer.session.timeout.ms": "group.consumer.session.timeout.ms",
    "share.assignment.interval.ms": "group.share.assignment.interval.ms",
    "share.delivery.count.limit": "group.share.delivery.count.limit",
    "share.heartbeat.interval.ms": "group.share.heartbeat.interval.ms",
    "share.partition.max.record.locks": "group.share.partition.max.record.locks",
    "share.record.lock.duration.ms": "group.share.record.lock.duration.ms",
    "share.session.timeout.ms": "group.share.session.timeout.ms",
}
"""What Kafka's brokers call the default of a group's config."""


def topic_entries(
    configs: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a topic, or those that are asked for by name; `configs` are those set."""
    entries = []
    for name, config in TOPIC_CONFIGS.items():
        if names and name not in names:
            continue
        default = Synonym(_BROKER_NAMES.get(name, name), config.default, Source.DEFAULT)
        own = configs.get(name)
        entries.append(
            ConfigEntry(
                name=name,
                kind=config.kind,
                synonyms=(default,) if own is None else (Synonym(name, own, Source.TOPIC), default),
                read_only=False,
                documentation=_documentation(config),
            )
        )
    return entries


def group_entries(
    configs: Mapping[str, str], names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """All configs of a group, or those that are asked for by name; `configs` are those set."""
    entries = []
    for name, config in GROUP_CONFIGS.items():
        if names and name not in names:
            continue
        value = None if config.inherited else config.default
        default = Synonym(_GROUP_NAMES.get(name, name), value, Source.DEFAULT)
        own = configs.get(name)
        entries.append(
            ConfigEntry(
                name=name,
                kind=config.kind,
                synonyms=(default,) if own is None else (Synonym(name, own, Source.GROUP), default),
                read_only=False,
                documentation=_documentation(config),
            )
        )
    return entries


def _documentation(config: Config) -> str:
    if config.acts:
        return config.documentation
    return f"Accepted, but changes nothing here. {config.documentation}"


def broker_entries(
    engine: Engine, port: PortState, names: Collection[str] | None = None
) -> list[ConfigEntry]:
    """The settings of this broker, sorted by name; all of them, or those that are asked for."""
    entries = [
        *_identity(engine),
        *_topic_defaults(engine),
        *_groups(engine.groups.settings),
        *_port(port),
    ]
    return sorted(
        (entry for entry in entries if not names or entry.name in names),
        key=lambda entry: entry.name,
    )


def _entry(name: str, kind: ConfigKind, value: object, default: object, text: str) -> ConfigEntry:
    synonyms = [Synonym(name, _text(default), Source.DEFAULT)]
    if value != default:
        synonyms.insert(0, Synonym(name, _text(value), Source.BROKER))
    return ConfigEntry(
        name=name, kind=kind, synonyms=tuple(synonyms), read_only=True, documentation=text
    )


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _identity(engine: Engine) -> list[ConfigEntry]:
    record = engine.topics.node(engine.topics.node_id)
    listener = f"PLAINTEXT://{record.kafka}" if record is not None and record.kafka else ""
    rack = record.rack if record is not None else ""
    number, text = ConfigKind.INT, ConfigKind.STRING
    return [
        _entry("advertised.listeners", text, listener, "", "See advertise_kafka."),
        _entry("broker.id", number, engine.topics.node_id, -1, "See node_id."),
        _entry("broker.rack", text, rack, "", "See rack."),
        _entry("log.dirs", text, engine.topics.directory, "", "See data."),
        _entry("node.id", number, engine.topics.node_id, -1, "See node_id."),
    ]


def _topic_defaults(engine: Engine) -> list[ConfigEntry]:
    given, usual = engine.topics.settings, EngineSettings()
    replicas = len(engine.topics.replicas(ShardId(1)))
    number, boolean = ConfigKind.INT, ConfigKind.BOOLEAN
    entries = [
        _entry(
            "auto.create.topics.enable",
            boolean,
            given.auto_create_topics,
            usual.auto_create_topics,
            "Whether asking for a topic that is not there makes it. See topics.auto_create.",
        ),
        _entry(
            "num.partitions",
            number,
            given.default_partitions,
            usual.default_partitions,
            "The default number of partitions of a topic. See topics.partitions_default.",
        ),
        _entry(
            "default.replication.factor",
            number,
            replicas,
            replicas,
            "How many nodes hold a message. The cluster sees to it.",
        ),
        _entry("delete.topic.enable", boolean, True, True, "Topics can always be deleted."),
    ]
    for name, broker_name in _BROKER_NAMES.items():
        config = TOPIC_CONFIGS[name]
        text = f"The default of a topic's {name}. {config.documentation}"
        entries.append(_entry(broker_name, config.kind, config.default, config.default, text))
    return entries


def _groups(given: GroupSettings) -> list[ConfigEntry]:
    usual = GroupSettings()
    number = ConfigKind.INT
    return [
        _entry(
            "group.initial.rebalance.delay.ms",
            number,
            given.initial_delay_ms,
            usual.initial_delay_ms,
            "How long a new group waits for more members. See groups.initial_delay.",
        ),
        _entry(
            "group.max.session.timeout.ms",
            number,
            given.session_max_ms,
            usual.session_max_ms,
            "The longest session a member may ask for. See groups.session_max.",
        ),
        _entry(
            "group.max.size",
            number,
            given.members_max,
            usual.members_max,
            "How many members a group may have. See groups.members_max.",
        ),
        _entry(
            "group.min.session.timeout.ms",
            number,
            given.session_min_ms,
            usual.session_min_ms,
            "The shortest session a member may ask for. See groups.session_min.",
        ),
        _entry(
            "offset.metadata.max.bytes",
            number,
            given.offset_metadata_bytes_max,
            usual.offset_metadata_bytes_max,
            "How much text may be committed with an offset.",
        ),
        _entry(
            "offsets.retention.minutes",
            number,
            given.offset_retention_ms // _MINUTE_MS,
            usual.offset_retention_ms // _MINUTE_MS,
            "How long the offsets of an empty group are kept. See groups.offset_retention.",
        ),
    ]


def _port(port: PortState) -> list[ConfigEntry]:
    given, usual = port.settings, KafkaSettings()
    number, long = ConfigKind.INT, ConfigKind.LONG
    return [
        _entry(
            "connections.max.idle.ms",
            long,
            given.connection_idle_ms,
            usual.connection_idle_ms,
            "A connection that is silent for this long is closed. See limits.connection_idle.",
        ),
        _entry(
            "fetch.max.bytes",
            number,
            given.fetch_bytes_max,
            usual.fetch_bytes_max,
            "The largest answer to a fetch. See limits.fetch_size_max.",
        ),
        _entry(
            "max.connections",
            number,
            given.connections_max,
            usual.connections_max,
            "How many connections are open at once. See limits.connections_max.",
        ),
        _entry(
            "queued.max.request.bytes",
            long,
            port.memory.bytes_max,
            MEMORY_BYTES_MAX,
            "What requests and answers of all clients may hold. See limits.memory_max.",
        ),
        _entry(
            "socket.request.max.bytes",
            number,
            given.request_bytes_max,
            usual.request_bytes_max,
            "The largest request. See limits.request_size_max.",
        ),
    ]
