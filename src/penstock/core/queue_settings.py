"""The `queue.*` configs of a topic: rows of the table of configs, and their meaning.

Every topic can be used as a queue; these configs say how. They become three things: the rules that
decide in the log (`QueueRules` for a partition, `WorkRules` for the default work group, which SQS
and requests without a group share), and the handling before and after it (bounds, dead letters,
deletion).

Configs that overlap are resolved here, once: priority and deduplication are given by headers, so
they imply that headers are read; "move" without a dead-letter topic leaves messages where they are.
"""

from enum import Enum

import msgspec

from penstock.core.configs import DAY_MS, Config, ConfigKind, ConfigValues
from penstock.core.errors import InvalidConfig
from penstock.core.limits import (
    LEASE_MS_MAX,
    QUEUE_IN_FLIGHT_MAX,
    QUEUE_SQS_CHARACTERS_MAX,
    QUEUE_WAIT_MS_MAX,
)
from penstock.core.queue_rules import (
    Dead,
    Deduplication,
    Priorities,
    QueueRules,
    Retry,
    WorkRules,
)

_YEAR_MS = 366 * DAY_MS


class Overflow(Enum):
    """The behaviour of a full queue."""

    REJECT = "reject"
    """The sender gets an error."""
    DROP_OLDEST = "drop-oldest"
    """The oldest message that is not leased is dropped."""


class TopicConfig(Config, frozen=True, kw_only=True):
    """One line of the table of topic configs."""

    subject = "topic config"


def _choices(kind: type[Priorities | Deduplication | Retry | Dead]) -> tuple[str, ...]:
    return tuple(one.name.lower() for one in kind)


QUEUE_CONFIGS = (
    TopicConfig(
        name="queue.bytes.max",
        kind=ConfigKind.LONG,
        default="-1",
        least=-1,
        documentation="How many bytes the living messages of a partition may take before sending is"
        " refused; -1: any number.",
    ),
    TopicConfig(
        name="queue.dead.letter.policy",
        kind=ConfigKind.STRING,
        default="move",
        choices=_choices(Dead),
        documentation="What becomes of a message that failed for good: move takes it to"
        " queue.dead.letter.topic (without one it acts as archive), archive keeps it aside, discard"
        " drops it.",
    ),
    TopicConfig(
        name="queue.dead.letter.topic",
        kind=ConfigKind.STRING,
        default="",
        documentation="Where messages go that failed for good; none if empty.",
    ),
    TopicConfig(
        name="queue.deduplication",
        kind=ConfigKind.STRING,
        default="off",
        choices=_choices(Deduplication),
        documentation="How a message is known to have been sent before: by the id its sender gave"
        " it in a header, or, with content and without an id, by its body. Such a message is stored"
        " and not delivered to workers.",
    ),
    TopicConfig(
        name="queue.deduplication.scope",
        kind=ConfigKind.STRING,
        default="queue",
        choices=("queue", "group"),
        documentation="Whether an id counts in the whole partition or within its message group.",
    ),
    TopicConfig(
        name="queue.deduplication.window.ms",
        kind=ConfigKind.LONG,
        default="300000",
        least=1,
        most=7 * DAY_MS,
        documentation="How long an id is remembered.",
    ),
    TopicConfig(
        name="queue.delay.ms",
        kind=ConfigKind.LONG,
        default="0",
        most=_YEAR_MS,
        documentation="How long a message waits before its first delivery, unless it says"
        " otherwise itself.",
    ),
    TopicConfig(
        name="queue.delete.acked",
        kind=ConfigKind.BOOLEAN,
        default="false",
        documentation="Whether messages are deleted once every work group is done with them.",
    ),
    TopicConfig(
        name="queue.deliveries.max",
        kind=ConfigKind.INT,
        default="0",
        most=1_000,
        documentation="After how many failed deliveries a message has failed for good; 0: never.",
    ),
    TopicConfig(
        name="queue.in.flight.max",
        kind=ConfigKind.INT,
        default="120000",
        least=1,
        most=QUEUE_IN_FLIGHT_MAX,
        documentation="How many messages of a partition may be leased at once.",
    ),
    TopicConfig(
        name="queue.lease.ms",
        kind=ConfigKind.LONG,
        default="30000",
        most=LEASE_MS_MAX,
        documentation="How long a worker has a message before it is delivered to another, unless it"
        " asks otherwise; SQS's visibility timeout.",
    ),
    TopicConfig(
        name="queue.length.max",
        kind=ConfigKind.LONG,
        default="-1",
        least=-1,
        documentation="How many messages of a partition may live before queue.overflow applies; -1:"
        " any number.",
    ),
    TopicConfig(
        name="queue.message.headers",
        kind=ConfigKind.BOOLEAN,
        default="false",
        documentation="Whether messages say by headers how they are to be handled: delay, time to"
        " live, priority, group. Implied by queue.priority and by queue.deduplication.",
    ),
    TopicConfig(
        name="queue.order",
        kind=ConfigKind.STRING,
        default="standard",
        choices=("standard", "fifo"),
        documentation="With fifo, messages of one group, by default those of one key, are delivered"
        " one after the other.",
    ),
    TopicConfig(
        name="queue.overflow",
        kind=ConfigKind.STRING,
        default=Overflow.REJECT.value,
        choices=tuple(one.value for one in Overflow),
        documentation="What happens to a queue that is full: reject refuses new messages,"
        " drop-oldest makes room for them.",
    ),
    TopicConfig(
        name="queue.paused",
        kind=ConfigKind.BOOLEAN,
        default="false",
        documentation="Whether workers get nothing for the time being. Sending goes on.",
    ),
    TopicConfig(
        name="queue.priority",
        kind=ConfigKind.STRING,
        default="off",
        choices=_choices(Priorities),
        documentation="How messages of different priority take turns: strict delivers the highest"
        " first, weighted delivers the higher more often.",
    ),
    TopicConfig(
        name="queue.retry.delay.max.ms",
        kind=ConfigKind.LONG,
        default="300000",
        most=_YEAR_MS,
        documentation="The longest a message that failed waits for its next delivery.",
    ),
    TopicConfig(
        name="queue.retry.delay.ms",
        kind=ConfigKind.LONG,
        default="5000",
        most=_YEAR_MS,
        documentation="How long a message that failed waits for its next delivery, at first; see"
        " queue.retry.policy.",
    ),
    TopicConfig(
        name="queue.retry.policy",
        kind=ConfigKind.STRING,
        default="none",
        choices=_choices(Retry),
        documentation="How the wait grows with every failed delivery: not there at all, the same,"
        " by adding, by doubling, or by doubling with chance in it.",
    ),
    TopicConfig(
        name="queue.sqs",
        kind=ConfigKind.STRING,
        default="",
        characters_max=QUEUE_SQS_CHARACTERS_MAX,
        documentation="Attributes and tags of an SQS queue that mean nothing else here, as JSON;"
        " set by the SQS API.",
    ),
    TopicConfig(
        name="queue.ttl.ms",
        kind=ConfigKind.LONG,
        default="-1",
        least=-1,
        most=10 * _YEAR_MS,
        documentation="How long a message is worth delivering, unless it says otherwise itself; -1:"
        " for ever.",
    ),
    TopicConfig(
        name="queue.wait.ms",
        kind=ConfigKind.INT,
        default="0",
        most=QUEUE_WAIT_MS_MAX,
        documentation="How long a receive waits for a message, unless it says otherwise.",
    ),
)
"""The configs, sorted by name."""


class QueueSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parsed `queue.*` configs of a topic."""

    queue_rules: QueueRules
    """The rules of every partition."""
    work_rules: WorkRules
    """The rules of the default work group."""
    wait_ms: int
    dead_letter_topic: str
    """The dead-letter queue; empty if there is none."""
    dead_letter_policy: Dead
    """The configured value; `work_rules.dead` is the effective one."""
    length_max: int | None
    """None: any number of messages."""
    bytes_max: int | None
    overflow: Overflow
    delete_acked: bool
    message_headers: bool
    """The configured value; `queue_rules.delivery_headers` is the effective one."""
    sqs: str
    refuses_when_full: bool
    """True if a produce has to check a bound."""
    is_queue: bool = False
    """Something is set that only a queue needs. A topic without it costs nothing."""

    @property
    def fifo(self) -> bool:
        """Messages of one group are delivered one after the other."""
        return self.queue_rules.fifo

    @property
    def kind(self) -> str:
        """fifo, priority, delay, standard if it is none of them, hybrid if it is several."""
        rules = self.queue_rules
        traits = [
            name
            for name, has in (
                ("fifo", rules.fifo),
                ("priority", rules.priorities is not Priorities.OFF),
                ("delay", rules.delay_ms > 0),
            )
            if has
        ]
        return "hybrid" if len(traits) > 1 else traits[0] if traits else "standard"


def queue_settings(values: ConfigValues) -> QueueSettings:
    """Parse the configs; raise `InvalidConfig` if they contradict each other."""
    found = _settings(values)
    if found == DEFAULT_QUEUE_SETTINGS:
        return DEFAULT_QUEUE_SETTINGS
    return msgspec.structs.replace(found, is_queue=True)


def _settings(values: ConfigValues) -> QueueSettings:
    queue, work = _queue_rules(values), _work_rules(values)
    overflow = Overflow(values.text("queue.overflow"))
    length_max, bytes_max = values.bounded("queue.length.max"), values.bounded("queue.bytes.max")
    for name in ("queue.length.max", "queue.bytes.max", "queue.ttl.ms"):
        if values.integer(name) == 0:
            raise InvalidConfig(f"topic config {name} cannot be 0: it is -1 or at least 1")
    if work.retry is not Retry.NONE and work.retry_max_ms < work.retry_ms:
        raise InvalidConfig(
            f"topic config queue.retry.delay.max.ms cannot be {work.retry_max_ms}: it is at least"
            f" queue.retry.delay.ms, which is {work.retry_ms}"
        )
    if overflow is Overflow.DROP_OLDEST and bytes_max is not None:
        raise InvalidConfig(
            "topic config queue.bytes.max cannot be set with queue.overflow=drop-oldest, which"
            " counts messages; set queue.length.max, or retention.bytes"
        )
    limited = length_max is not None or bytes_max is not None
    return QueueSettings(
        queue_rules=queue,
        work_rules=work,
        wait_ms=values.integer("queue.wait.ms"),
        dead_letter_topic=values.text("queue.dead.letter.topic"),
        dead_letter_policy=Dead[values.text("queue.dead.letter.policy").upper()],
        length_max=length_max,
        bytes_max=bytes_max,
        overflow=overflow,
        delete_acked=values.boolean("queue.delete.acked"),
        message_headers=values.boolean("queue.message.headers"),
        sqs=values.text("queue.sqs"),
        refuses_when_full=limited and overflow is Overflow.REJECT,
    )


def _queue_rules(values: ConfigValues) -> QueueRules:
    priorities = Priorities[values.text("queue.priority").upper()]
    deduplication = Deduplication[values.text("queue.deduplication").upper()]
    told_by_headers = priorities is not Priorities.OFF or deduplication is not Deduplication.OFF
    return QueueRules(
        delivery_headers=values.boolean("queue.message.headers") or told_by_headers,
        fifo=values.text("queue.order") == "fifo",
        priorities=priorities,
        delay_ms=values.integer("queue.delay.ms"),
        ttl_ms=values.integer("queue.ttl.ms"),
        deduplication=deduplication,
        deduplication_ms=values.integer("queue.deduplication.window.ms"),
        deduplication_by_group=values.text("queue.deduplication.scope") == "group",
        length_max=values.integer("queue.length.max"),
        drops_oldest=values.text("queue.overflow") == Overflow.DROP_OLDEST.value,
        paused=values.boolean("queue.paused"),
    )


def _work_rules(values: ConfigValues) -> WorkRules:
    dead = Dead[values.text("queue.dead.letter.policy").upper()]
    if dead is Dead.MOVE and not values.text("queue.dead.letter.topic"):
        dead = Dead.ARCHIVE
    return WorkRules(
        lease_ms=values.integer("queue.lease.ms"),
        deliveries_max=values.integer("queue.deliveries.max"),
        retry=Retry[values.text("queue.retry.policy").upper()],
        retry_ms=values.integer("queue.retry.delay.ms"),
        retry_max_ms=values.integer("queue.retry.delay.max.ms"),
        dead=dead,
        in_flight_max=values.integer("queue.in.flight.max"),
    )


DEFAULT_QUEUE_SETTINGS = _settings(
    ConfigValues({config.name: config for config in QUEUE_CONFIGS}, {})
)
"""The settings of a topic on which none is set."""
