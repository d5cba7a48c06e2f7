"""The configs of a group of consumers: the one table, and what the configs mean.

Names and defaults are Kafka's. Two ranges are wider than there: a share group may lease for as
long as SQS may, and deliver as often as it likes. `consumer.*` belongs to a group protocol that is
not served here; it is accepted, checked and shown.

A share group is a work group, so it takes the settings of one, `queue.*`, as well: they count on
every topic that the group reads, unless the topic has others for the group. What is not set is
inherited from the queue; on a topic that is no queue Kafka's defaults for share groups apply (see
`core.work_settings`). Kafka has no dead letters: on such a topic a message that was delivered too
often is dropped for the group, unless `share.dead.letter.policy`, which is ours, says otherwise.
"""

import re
from collections.abc import Iterable, Mapping

import msgspec

from penstock.core.configs import (
    DAY_MS,
    INT_MAX,
    Config,
    ConfigKind,
    ConfigValues,
    check_config_names,
)
from penstock.core.limits import GROUP_SESSION_MAX_MS, LEASE_MS_MAX, QUEUE_IN_FLIGHT_MAX
from penstock.core.queue_rules import Dead, WorkRules
from penstock.core.work_settings import (
    SHARE_NAMES,
    WORK_CONFIGS,
    WorkOverrides,
    WorkSettings,
    settled,
    work_overrides,
)

_DURATION = r"P(?=[0-9T])(?:([0-9]{1,5})D)?(?:T(?=[0-9])(?:([0-9]{1,6})H)?(?:([0-9]{1,8})M)?"
_DURATION += r"(?:([0-9]{1,10})(?:\.[0-9]{1,9})?S)?)?"
_BY_DURATION = "by_duration:"


class GroupConfig(Config, frozen=True, kw_only=True):
    """One line of the table of group configs."""

    subject = "group config"

    inherited: bool = False
    """True if the queue's setting applies where the group has none, so that there is no default."""


_INHERITED = "Inherited from the queue unless set for the group. "
_ON_QUEUES = " On a queue the default is the queue's setting."

_QUEUE_LINES = tuple(
    GroupConfig(
        name=one.name,
        kind=one.kind,
        default=one.default,
        documentation=_INHERITED + one.documentation,
        least=one.least,
        most=one.most,
        choices=one.choices,
        inherited=True,
    )
    for one in WORK_CONFIGS.values()
)

_TABLE = (
    GroupConfig(
        name="consumer.assignment.interval.ms",
        kind=ConfigKind.INT,
        default="1000",
        most=15_000,
        catalog_version=2,
        acts=False,
        documentation="Groups of the classic protocol are assigned by their members.",
    ),
    GroupConfig(
        name="consumer.heartbeat.interval.ms",
        kind=ConfigKind.INT,
        default="5000",
        least=1,
        most=INT_MAX,
        acts=False,
        documentation="Groups of the classic protocol choose their own.",
    ),
    GroupConfig(
        name="consumer.session.timeout.ms",
        kind=ConfigKind.INT,
        default="45000",
        least=1,
        most=INT_MAX,
        acts=False,
        documentation="Groups of the classic protocol choose their own.",
    ),
    *_QUEUE_LINES,
    GroupConfig(
        name="share.assignment.interval.ms",
        kind=ConfigKind.INT,
        default="1000",
        most=15_000,
        catalog_version=2,
        acts=False,
        documentation="Every member reads all partitions: there is nothing to assign anew.",
    ),
    GroupConfig(
        name="share.auto.offset.reset",
        kind=ConfigKind.STRING,
        default="latest",
        choices=("latest", "earliest"),
        pattern=_BY_DURATION + _DURATION,
        example="by_duration:PT1H",
        documentation="Where a share group begins with a partition it has never read: at its end,"
        " at its start, or with messages as old as the duration says.",
    ),
    GroupConfig(
        name="share.dead.letter.policy",
        kind=ConfigKind.STRING,
        default="discard",
        choices=("discard", "archive", "move"),
        documentation="What becomes of a message that failed for good: it is dropped, as in Kafka;"
        " it is kept aside; or it goes to the queue.dead.letter.topic of its queue (kept aside,"
        " without one). Kafka has no such config." + _ON_QUEUES,
    ),
    GroupConfig(
        name="share.delivery.count.limit",
        kind=ConfigKind.INT,
        default="5",
        least=1,
        most=1_000,
        documentation="How often a message is delivered before it is given up. Kafka allows 2 to"
        " 10." + _ON_QUEUES,
    ),
    GroupConfig(
        name="share.heartbeat.interval.ms",
        kind=ConfigKind.INT,
        default="5000",
        least=100,
        most=GROUP_SESSION_MAX_MS,
        documentation="How often a member of a share group is to show that it is there.",
    ),
    GroupConfig(
        name="share.isolation.level",
        kind=ConfigKind.STRING,
        default="read_uncommitted",
        choices=("read_committed", "read_uncommitted"),
        acts=False,
        documentation="There are no transactions, so all messages are committed.",
    ),
    GroupConfig(
        name="share.partition.max.record.locks",
        kind=ConfigKind.INT,
        default="2000",
        least=1,
        most=QUEUE_IN_FLIGHT_MAX,
        documentation="How many messages of a partition a share group may have leased at once."
        + _ON_QUEUES,
    ),
    GroupConfig(
        name="share.record.lock.duration.ms",
        kind=ConfigKind.INT,
        default="30000",
        least=1_000,
        most=LEASE_MS_MAX,
        documentation="How long a member has a message before it is delivered to another. Kafka"
        " allows 15 to 60 seconds." + _ON_QUEUES,
    ),
    GroupConfig(
        name="share.renew.acknowledge.enable",
        kind=ConfigKind.BOOLEAN,
        default="true",
        catalog_version=2,
        documentation="Whether members may renew their leases (KIP-1222).",
    ),
    GroupConfig(
        name="share.session.timeout.ms",
        kind=ConfigKind.INT,
        default="45000",
        least=1_000,
        most=GROUP_SESSION_MAX_MS,
        documentation="How long a member of a share group may be silent before it is out.",
    ),
)

GROUP_CONFIGS: Mapping[str, GroupConfig] = {config.name: config for config in _TABLE}
"""Every config there is, sorted by name."""
FIRST_GROUP_CONFIGS: Mapping[str, GroupConfig] = {
    name: config
    for name, config in GROUP_CONFIGS.items()
    if not config.inherited and config.catalog_version == 1
}
"""The configs that version 1 of the catalog knows."""


class GroupSettings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The parsed configs of a group."""

    work_rules: WorkRules
    """The rules on a topic that is not a queue."""
    overrides: WorkOverrides
    """The settings of the group that apply on all topics."""
    reset: str
    """The initial position: latest, earliest or by_duration."""
    reset_ms: int
    """The duration for by_duration; 0 otherwise."""
    session_ms: int
    heartbeat_ms: int
    read_committed: bool
    renews: bool
    """True if members may renew their leases."""


def parse_group_configs(configs: Mapping[str, str]) -> GroupSettings:
    """The settings of a group with these configs; `InvalidConfig` if one is unknown or wrong."""
    check_group_config_names(configs)
    return _settings(configs) if configs else DEFAULT_GROUP_SETTINGS


def check_group_config_names(names: Iterable[str], *, first_version: bool = False) -> None:
    """Refuse names that are not in the table, or not in that of a catalog of version 1."""
    table = FIRST_GROUP_CONFIGS if first_version else GROUP_CONFIGS
    check_config_names(table, names, GroupConfig.subject)


def _settings(configs: Mapping[str, str]) -> GroupSettings:
    values = ConfigValues(GROUP_CONFIGS, configs)
    reset, _, duration = values.text("share.auto.offset.reset").partition(":")
    named = {ours: configs[name] for name, ours in SHARE_NAMES.items() if name in configs}
    overrides = work_overrides({**named, **configs})
    return GroupSettings(
        work_rules=settled(overrides.apply(SHARE_DEFAULTS)).rules,
        overrides=overrides,
        reset=reset,
        reset_ms=_duration_ms(duration) if duration else 0,
        session_ms=values.integer("share.session.timeout.ms"),
        heartbeat_ms=values.integer("share.heartbeat.interval.ms"),
        read_committed=values.text("share.isolation.level") == "read_committed",
        renews=values.boolean("share.renew.acknowledge.enable"),
    )


SHARE_DEFAULTS = WorkSettings(
    WorkRules(
        lease_ms=int(GROUP_CONFIGS["share.record.lock.duration.ms"].default),
        deliveries_max=int(GROUP_CONFIGS["share.delivery.count.limit"].default),
        dead=Dead[GROUP_CONFIGS["share.dead.letter.policy"].default.upper()],
        in_flight_max=int(GROUP_CONFIGS["share.partition.max.record.locks"].default),
    )
)
"""The settings of a share group on a topic that is not a queue, as in Kafka."""


def _duration_ms(text: str) -> int:
    """Parse an ISO 8601 duration of days, hours, minutes and seconds; fractions of a second are
    dropped."""
    found = re.fullmatch(_DURATION, text)
    assert found is not None, f"{text!r} is no duration, and the table has let it pass"
    days, hours, minutes, seconds = (int(part or 0) for part in found.groups())
    return days * DAY_MS + ((hours * 60 + minutes) * 60 + seconds) * 1_000


DEFAULT_GROUP_SETTINGS = _settings({})
"""The settings of a group on which none is set."""
