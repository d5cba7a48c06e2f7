"""The settings of the broker: one list of fields, from which flags, variables and TOML are derived.

A section is a frozen class; each of its fields says once how it is written, what it is by default
and what it means. `FIELDS` is read off the classes, and everything else is read off `FIELDS`: the
flags of `penstock serve`, the environment variables, the keys of `penstock.toml`, the reference
page, `penstock config show`. A setting cannot exist in one of these places and not in the others.

    in the code        config.storage.segment_bytes        the unit is in the name
    as a flag          --storage.segment-size 64MiB        the unit is in the value
    as a variable      PENSTOCK_STORAGE_SEGMENT_SIZE
    in penstock.toml   [storage] segment_size = "64MiB"

The fields of the first section stand alone: `--data`, `PENSTOCK_DATA`, `data = "…"`. Where values
come from and which of them counts is `sources.py`; what they must not be together is `checks.py`.
"""

from collections.abc import Iterator, Mapping
from typing import Any, TypeVar, cast, overload

import msgspec

from penstock.core.alert_levels import Levels
from penstock.core.limits import (
    DELIVERY_HISTORY_BYTES_MAX,
    GIB,
    GROUP_INITIAL_DELAY_MS,
    GROUP_MEMBERS_MAX,
    GROUP_SESSION_MAX_MS,
    GROUP_SESSION_MIN_MS,
    KAFKA_CONNECTION_IDLE_MS,
    KAFKA_CONNECTIONS_MAX,
    KAFKA_FETCH_BYTES_MAX,
    KAFKA_REQUEST_BYTES_MAX,
    KIB,
    MEMORY_BYTES_MAX,
    MEMORY_CONNECTIONS_PER_ADDRESS_MAX,
    MIB,
    OFFSET_RETENTION_MS,
    PARTITIONS_ALLOWED,
    PARTITIONS_MAX,
    SEGMENT_BYTES,
    SHARD_STATE_BYTES_MAX,
    SHARDS_MAX,
    SQS_CONNECTIONS_MAX,
    TICK_MS,
    TOPIC_PARTITIONS_ALLOWED,
    TOPIC_PARTITIONS_MAX,
)
from penstock.core.types import NodeId
from penstock.server import level_notation, notation
from penstock.server.notation import Address, Member, Notation
from penstock.server.section import Section, Setting
from penstock.watch.rules import RULES
from penstock.watch.settings import CLEAR_MS, HOLD_MS

T = TypeVar("T")

ENVIRONMENT_PREFIX = "PENSTOCK_"

_SECOND_MS = 1_000
_DAY_MS = 86_400 * _SECOND_MS


@overload
def setting(key: str, default: T, notation: Notation[T], meaning: str) -> T: ...
@overload
def setting(key: str, default: None, notation: Notation[T], meaning: str) -> T | None: ...
def setting(key: str, default: T | None, notation: Notation[T], meaning: str) -> T | None:
    """A field of a section; `key` is what users call it."""
    return cast(T, Setting(key=key, default=default, notation=notation, meaning=meaning))


class Broker(Section):
    """The settings of this node: its data directory and its addresses."""

    data: str | None = setting(
        "data", None, notation.PATH, "The directory of this node's data; made if it is not there."
    )
    kafka: Address = setting(
        "kafka",
        Address("127.0.0.1", 9092),
        notation.ADDRESS,
        "Where Kafka clients connect.",
    )
    http: Address = setting(
        "http",
        Address("127.0.0.1", 8080),
        notation.ADDRESS,
        "Where health checks, operators and browsers connect.",
    )
    peer: Address = setting(
        "peer",
        Address("127.0.0.1", 9192),
        notation.ADDRESS,
        "Where the other nodes connect. In a cluster, this node's address in `cluster`"
        " unless it is given.",
    )
    node_id: int = setting(
        "node_id",
        1,
        notation.integer(1, notation.NODE_ID_MAX),
        "The number of this node in its cluster. Never used again for another node or disk.",
    )
    cluster: tuple[Member, ...] = setting(
        "cluster",
        (),
        notation.MEMBERS,
        "The nodes that found the cluster and where their peers reach them; the same on each."
        " Absent: a cluster of one.",
    )
    cluster_key_file: str | None = setting(
        "cluster_key_file",
        None,
        notation.PATH,
        "The file with the key by which the nodes of a cluster know each other. Needed where"
        " several nodes found a cluster, and on a node that joins one. Absent: `cluster-key` in"
        " `data`.",
    )
    peer_networks: tuple[str, ...] = setting(
        "peer_networks",
        (),
        notation.NETWORKS,
        "Networks in which nodes that are added by a request may be, such as 203.0.113.0/24,"
        " besides this machine, private networks and the addresses in `cluster`.",
    )
    shards: int = setting(
        "shards",
        4,
        notation.integer(1, SHARDS_MAX),
        "The number of replicated logs of the cluster. Used when a cluster is founded; it"
        " cannot be changed later.",
    )
    advertise_kafka: Address | None = setting(
        "advertise_kafka",
        None,
        notation.ADDRESS,
        "The address that Kafka clients are given to connect to. Absent: where it listens.",
    )
    advertise_http: Address | None = setting(
        "advertise_http",
        None,
        notation.ADDRESS,
        "The HTTP address that other nodes and users are given. Absent: where it listens.",
    )
    advertise_peer: Address | None = setting(
        "advertise_peer",
        None,
        notation.ADDRESS,
        "The address that other nodes connect to. Absent: this node's address in"
        " `cluster`, or where it listens.",
    )
    rack: str = setting(
        "rack", "", notation.TEXT, "The rack or zone of this node, reported to Kafka clients."
    )
    insecure: bool = setting(
        "insecure",
        False,
        notation.BOOLEAN,
        "Listen beyond this machine, although every client that reaches a port may read and"
        " change everything.",
    )
    ready_file: str | None = setting(
        "ready_file",
        None,
        notation.PATH,
        "Write the addresses to this file, as JSON, once requests are served.",
    )


class Topics(Section):
    """The defaults of new topics."""

    auto_create: bool = setting(
        "auto_create",
        True,
        notation.BOOLEAN,
        "Create a topic that a Kafka client asks for, unless the client forbids it.",
    )
    partitions_default: int = setting(
        "partitions_default",
        4,
        notation.integer(1, TOPIC_PARTITIONS_MAX),
        "The number of partitions of a new topic, unless the request sets it.",
    )
    partitions_max: int = setting(
        "partitions_max",
        TOPIC_PARTITIONS_ALLOWED,
        notation.integer(1, TOPIC_PARTITIONS_MAX),
        "How many partitions a topic may be given; topics that have more keep them. Each costs"
        " memory on every node, and a request for all of them grows with it.",
    )
    partitions_total_max: int = setting(
        "partitions_total_max",
        PARTITIONS_ALLOWED,
        notation.integer(1, PARTITIONS_MAX),
        "The largest number of partitions of all topics together.",
    )


class Groups(Section):
    """The settings of consumer groups."""

    session_min_ms: int = setting(
        "session_min",
        GROUP_SESSION_MIN_MS,
        notation.duration(1, _DAY_MS),
        "The shortest session timeout a member may ask for.",
    )
    session_max_ms: int = setting(
        "session_max",
        GROUP_SESSION_MAX_MS,
        notation.duration(1, _DAY_MS),
        "The longest session timeout a member may ask for.",
    )
    initial_delay_ms: int = setting(
        "initial_delay",
        GROUP_INITIAL_DELAY_MS,
        notation.duration(0, 600 * _SECOND_MS),
        "How long an empty group waits for more members before its first assignment.",
    )
    members_max: int = setting(
        "members_max",
        GROUP_MEMBERS_MAX,
        notation.integer(1, GROUP_MEMBERS_MAX),
        "The largest number of members of a group.",
    )
    offset_retention_ms: int = setting(
        "offset_retention",
        OFFSET_RETENTION_MS,
        notation.duration(60 * _SECOND_MS, 3_650 * _DAY_MS),
        "How long the offsets of a group without members are kept.",
    )


class Raft(Section):
    """The settings of the agreement between nodes."""

    tick_ms: int = setting(
        "tick",
        TICK_MS,
        notation.duration(10, 10 * _SECOND_MS),
        "The pace of heartbeats. A leader that is silent for ten to twenty of them is replaced.",
    )


class Storage(Section):
    """Files and memory of each shard on this node."""

    segment_bytes: int = setting(
        "segment_size",
        SEGMENT_BYTES,
        notation.size(64 * KIB, 1 * GIB),
        "The size of a segment file; space is taken for a whole one at once.",
    )
    ballast_bytes: int = setting(
        "ballast_size",
        32 * MIB,
        notation.size(0, 64 * GIB),
        "Space held back in each shard so that votes and deletes still work when the disk is full.",
    )
    index_cache_bytes: int = setting(
        "index_cache",
        16 * MIB,
        notation.size(64 * KIB, 64 * GIB),
        "The memory for a shard's indexes.",
    )
    history_bytes: int = setting(
        "diary",
        DELIVERY_HISTORY_BYTES_MAX,
        notation.size(128 * KIB, 64 * GIB),
        "The size of a shard's delivery history in memory, for `penstock trace`.",
    )
    state_bytes_max: int = setting(
        "state_size_max",
        SHARD_STATE_BYTES_MAX,
        notation.size(1 * MIB, 64 * GIB),
        "How large a shard's state (groups, offsets, producers, leases) may become before new state"
        " is refused; in memory it takes several times as much.",
    )


class Limits(Section):
    """The limits on one client, or on all of them."""

    connections_max: int = setting(
        "connections_max",
        KAFKA_CONNECTIONS_MAX,
        notation.integer(1, 1_000_000),
        "The largest number of open connections of Kafka and native clients.",
    )
    connections_per_address_max: int = setting(
        "connections_per_address_max",
        MEMORY_CONNECTIONS_PER_ADDRESS_MAX,
        notation.integer(1, 1_000_000),
        "The largest number of open connections from one address, at all ports together.",
    )
    connection_idle_ms: int = setting(
        "connection_idle",
        KAFKA_CONNECTION_IDLE_MS,
        notation.duration(1 * _SECOND_MS, _DAY_MS),
        "A connection of a Kafka or native client that is silent for this long is closed.",
    )
    request_bytes_max: int = setting(
        "request_size_max",
        KAFKA_REQUEST_BYTES_MAX,
        notation.size(1 * MIB, 1 * GIB),
        "The largest Kafka request; a longer one ends its connection.",
    )
    memory_bytes_max: int = setting(
        "memory_max",
        MEMORY_BYTES_MAX,
        notation.size(16 * MIB, 1_024 * GIB),
        "How much memory requests and answers of all clients may take together, at all ports; above"
        " it reading waits, fetches get less, and the slowest clients are disconnected.",
    )
    requests_held_bytes_max: int = setting(
        "requests_held_max",
        128 * MIB,
        notation.size(1 * MIB, 1_024 * GIB),
        "Deprecated since 0.2, and dropped in 0.3: it counts only where it is above"
        " `limits.memory_max`, and then in place of it.",
    )
    fetch_bytes_max: int = setting(
        "fetch_size_max",
        KAFKA_FETCH_BYTES_MAX,
        notation.size(1 * MIB, 1 * GIB),
        "The largest answer to a Kafka fetch, but for a single batch that is larger.",
    )
    http_connections_max: int = setting(
        "http_connections_max",
        256,
        notation.integer(4, 100_000),
        "How many HTTP connections are served at once; further ones are answered 503.",
    )
    stop_grace_ms: int = setting(
        "stop_grace",
        10 * _SECOND_MS,
        notation.duration(0, 600 * _SECOND_MS),
        "How long requests under way may take to finish when the broker stops.",
    )


class Web(Section):
    """The settings of the HTTP port."""

    hosts: tuple[str, ...] = setting(
        "hosts",
        (),
        notation.NAMES,
        "Further names this node is reached under by HTTP; `*` for any. Addresses, localhost and"
        " the advertised name are always known.",
    )
    read_only: bool = setting(
        "read_only",
        False,
        notation.BOOLEAN,
        "Refuse every change by HTTP, in the dashboard and from commands that use HTTP."
        " SQS, Kafka and native clients are not affected.",
    )


class Sqs(Section):
    """The SQS API, at the HTTP port."""

    enabled: bool = setting(
        "enabled", True, notation.BOOLEAN, "Serve the SQS API. Topics can be used as queues anyhow."
    )
    partitions: int = setting(
        "partitions",
        1,
        notation.integer(1, TOPIC_PARTITIONS_MAX),
        "How many partitions a queue gets when it is made by SQS. More of them spread a queue over"
        " the cluster; order is then kept in each message group, and not across groups.",
    )
    cooldown_ms: int = setting(
        "cooldown",
        60 * _SECOND_MS,
        notation.duration(0, _DAY_MS),
        "The time before a deleted queue may be created again, or a purged one purged again. 60s"
        " is SQS's own rule; 0s is handier for tests.",
    )
    connections_max: int = setting(
        "connections_max",
        SQS_CONNECTIONS_MAX,
        notation.integer(1, 1_000_000),
        "How many connections SQS clients may have; further ones share"
        " limits.http_connections_max with other HTTP clients.",
    )


class Alerts(Section):
    """The thresholds of alerts: attention, warning and critical.

    A topic may have its own (`alert.…`)."""

    enabled: bool = setting(
        "enabled", True, notation.BOOLEAN, "Watch the cluster and raise alerts."
    )
    lag: Levels = setting(
        "lag",
        RULES["lag"].levels,
        level_notation.COUNTS,
        "The lag of a consumer group in a topic.",
    )
    depth: Levels = setting(
        "depth",
        RULES["depth"].levels,
        level_notation.COUNTS,
        "The number of ready messages of a queue.",
    )
    dead_letters: Levels = setting(
        "dead_letters",
        RULES["dead_letters"].levels,
        level_notation.COUNTS,
        "The number of dead messages in one queue.",
    )
    error_rate: Levels = setting(
        "error_rate",
        RULES["error_rate"].levels,
        level_notation.SHARES,
        "The share of the deliveries of a minute that failed.",
    )
    no_consumers: Levels = setting(
        "no_consumers",
        RULES["no_consumers"].levels,
        level_notation.DURATIONS,
        "The time for which messages may wait without a consumer.",
    )
    disk: Levels = setting(
        "disk",
        RULES["disk"].levels,
        level_notation.SHARES,
        "The used share of the file system that holds a node's data.",
    )
    state: Levels = setting(
        "state",
        RULES["state"].levels,
        level_notation.SHARES,
        "The used share of the size allowed for one kind of a shard's state.",
    )
    processing_rate: Levels = setting(
        "processing_rate",
        RULES["processing_rate"].levels,
        level_notation.SHARES,
        "Which share of the expected rate workers must reach while messages wait.",
    )
    hold_ms: int = setting(
        "hold",
        HOLD_MS,
        notation.duration(0, _DAY_MS),
        "How long a condition must hold before an alert fires.",
    )
    clear_ms: int = setting(
        "clear",
        CLEAR_MS,
        notation.duration(0, _DAY_MS),
        "How long the condition must be over before the alert ends.",
    )
    webhook: str | None = setting(
        "webhook",
        None,
        level_notation.SECRET_URL,
        "Where every change of an alert is sent, as JSON by POST. Absent: nowhere. If it holds a"
        " secret, write @FILE or use the variable: every user of a machine can read its flags.",
    )
    runbooks: str | None = setting(
        "runbooks",
        None,
        notation.TEXT,
        "A URL prefix for the names of runbooks, such as depth.md, in alerts. Absent: the names"
        " of Penstock's own documents.",
    )


class Log(Section):
    """The settings of the broker's log on stderr."""

    level: str = setting(
        "level",
        "info",
        notation.choice("debug", "info", "warning", "error"),
        "The least important lines to write.",
    )
    format: str = setting(
        "format",
        "text",
        notation.choice("text", "json"),
        "Lines for people, or one JSON document a line.",
    )
    slow_request_ms: int = setting(
        "slow_request",
        1_000,
        notation.duration(0, _DAY_MS),
        "A request that takes longer gets a line that says what it waited for; the time that a"
        " client asked to wait is left out. 0ms: none does.",
    )


class Config(msgspec.Struct, frozen=True, kw_only=True):
    """Everything, section by section."""

    broker: Broker = Broker()
    topics: Topics = Topics()
    groups: Groups = Groups()
    raft: Raft = Raft()
    storage: Storage = Storage()
    limits: Limits = Limits()
    web: Web = Web()
    sqs: Sqs = Sqs()
    alerts: Alerts = Alerts()
    log: Log = Log()

    def value(self, of: "Field") -> object:
        """Return the value of a field."""
        return getattr(getattr(self, of.section), of.attribute)

    @property
    def node(self) -> NodeId:
        return NodeId(self.broker.node_id)


BARE_SECTION = "broker"
"""The section whose keys have no prefix."""


class Field(msgspec.Struct, frozen=True, kw_only=True):
    """A setting and its names."""

    section: str
    attribute: str
    key: str
    default: object
    notation: Notation[Any]
    meaning: str

    @property
    def name(self) -> str:
        """The full name: `data`, `storage.segment_size`."""
        return self.key if self.section == BARE_SECTION else f"{self.section}.{self.key}"

    @property
    def flag(self) -> str:
        return "--" + self.name.replace("_", "-")

    @property
    def variable(self) -> str:
        return ENVIRONMENT_PREFIX + self.name.replace(".", "_").upper()

    @property
    def is_switch(self) -> bool:
        """True if the flag takes no value."""
        return isinstance(self.default, bool)

    def written(self, value: object) -> str:
        """A value the way it is written; nothing for one that is absent."""
        return "" if value is None else self.notation.format(value)


def sections() -> Iterator[tuple[str, type[Section]]]:
    """Name and class of each section, in order."""
    for name, default in zip(Config.__struct_fields__, Config.__struct_defaults__, strict=True):
        yield name, type(default)


def _read_off() -> Iterator[Field]:
    for section, cls in sections():
        for attribute, entry in cls.settings.items():
            yield Field(
                section=section,
                attribute=attribute,
                key=entry.key,
                default=entry.default,
                notation=entry.notation,
                meaning=entry.meaning,
            )


FIELDS: tuple[Field, ...] = tuple(_read_off())
BY_NAME: Mapping[str, Field] = {entry.name: entry for entry in FIELDS}
BY_VARIABLE: Mapping[str, Field] = {entry.variable: entry for entry in FIELDS}


def make_config(values: Mapping[str, object]) -> Config:
    """A configuration with these values, by name of field; the rest as it is by default."""
    given: dict[str, dict[str, object]] = {section: {} for section, _ in sections()}
    for name, value in values.items():
        given[BY_NAME[name].section][BY_NAME[name].attribute] = value
    made: dict[str, Any] = {section: cls(**given[section]) for section, cls in sections()}
    return Config(**made)
