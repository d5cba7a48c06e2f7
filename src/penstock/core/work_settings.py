"""The settings of one work group: its own where it has any, the queue's everywhere else.

A work group may have its own lease, retry curve, delivery limit, dead letters and bound on leased
messages. The names are those of the queue's settings (`queue.*`); Kafka's share groups have a
second name for four of them (`share.*`). Each setting is looked up by itself, the first that is set
counts:

    1  set for this work group of this topic
    2  set for this work group on all topics: `queue.*`, then Kafka's `share.*`
    3  set for the queue, if the topic is one (has any `queue.*` setting)
    4  Kafka's default for share groups

The default work group goes by the queue's settings and by nothing else: they are its own.

Two settings are read together with another one of the same place. A dead-letter topic without a
policy means `move`; otherwise it would have no effect on a queue that discards. A first retry delay
above the longest one that is inherited raises the longest, and a longest one below the inherited
first lowers the first.
"""

from collections.abc import Mapping
from typing import TypeVar

import msgspec

from penstock.core.configs import Config, check_config_names
from penstock.core.errors import InvalidConfig
from penstock.core.queue_rules import Dead, Retry, WorkRules
from penstock.core.queue_settings import QUEUE_CONFIGS

T = TypeVar("T")

_OWN_NAMES = frozenset({
    "queue.dead.letter.policy",
    "queue.dead.letter.topic",
    "queue.deliveries.max",
    "queue.in.flight.max",
    "queue.lease.ms",
    "queue.retry.delay.max.ms",
    "queue.retry.delay.ms",
    "queue.retry.policy",
})  # fmt: skip

WORK_CONFIGS: Mapping[str, Config] = {
    config.name: config for config in QUEUE_CONFIGS if config.name in _OWN_NAMES
}
"""The configs that a work group may have of its own, sorted by name."""

SHARE_NAMES: Mapping[str, str] = {
    "share.dead.letter.policy": "queue.dead.letter.policy",
    "share.delivery.count.limit": "queue.deliveries.max",
    "share.partition.max.record.locks": "queue.in.flight.max",
    "share.record.lock.duration.ms": "queue.lease.ms",
}
"""Kafka's names for settings of a share group, and their names for any work group."""


class WorkSettings(msgspec.Struct, frozen=True, gc=False):
    """The effective settings of a work group."""

    rules: WorkRules
    dead_letter_topic: str = ""
    """The dead-letter queue; empty if there is none."""


class WorkOverrides(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """The settings made at one place for a work group; None means inherited."""

    lease_ms: int | None = None
    deliveries_max: int | None = None
    retry: Retry | None = None
    retry_ms: int | None = None
    retry_max_ms: int | None = None
    dead: Dead | None = None
    dead_letter_topic: str | None = None
    in_flight_max: int | None = None

    def apply(self, inherited: WorkSettings) -> WorkSettings:
        """The settings of a group that inherits these."""
        if self is NO_OVERRIDES:
            return inherited
        rules = inherited.rules
        retry_ms, retry_max_ms = rules.retry_ms, rules.retry_max_ms
        if self.retry_ms is not None:
            retry_ms = self.retry_ms
            retry_max_ms = max(retry_max_ms, retry_ms)
        if self.retry_max_ms is not None:
            retry_max_ms = self.retry_max_ms
            retry_ms = min(retry_ms, retry_max_ms)
        topic = _first(self.dead_letter_topic, inherited.dead_letter_topic)
        dead = self.dead
        if dead is None:
            dead = Dead.MOVE if self.dead_letter_topic else rules.dead
        rules = WorkRules(
            lease_ms=_first(self.lease_ms, rules.lease_ms),
            deliveries_max=_first(self.deliveries_max, rules.deliveries_max),
            retry=_first(self.retry, rules.retry),
            retry_ms=retry_ms,
            retry_max_ms=retry_max_ms,
            dead=dead,
            in_flight_max=_first(self.in_flight_max, rules.in_flight_max),
        )
        return WorkSettings(rules, topic)


NO_OVERRIDES = WorkOverrides()


def parse_work_configs(configs: Mapping[str, str]) -> WorkOverrides:
    """Parse the `queue.*` settings of a work group; raise `InvalidConfig` if one is unknown or
    wrong."""
    check_config_names(WORK_CONFIGS, configs, "work group setting")
    return work_overrides(configs)


def work_overrides(configs: Mapping[str, str]) -> WorkOverrides:
    """Parse the settings of a work group and ignore other configs."""
    values = {
        name: config.parse(configs[name])
        for name, config in WORK_CONFIGS.items()
        if name in configs
    }

    def integer(name: str) -> int | None:
        value = values.get(name)
        assert value is None or type(value) is int, f"{name} is {value!r}, not an integer"
        return value

    def text(name: str) -> str | None:
        value = values.get(name)
        assert value is None or type(value) is str, f"{name} is {value!r}, not a text"
        return value

    policy, retry = text("queue.dead.letter.policy"), text("queue.retry.policy")
    first_ms, longest_ms = integer("queue.retry.delay.ms"), integer("queue.retry.delay.max.ms")
    if first_ms is not None and longest_ms is not None and longest_ms < first_ms:
        raise InvalidConfig(
            f"queue.retry.delay.max.ms cannot be {longest_ms}: it is at least queue.retry.delay.ms,"
            f" which is {first_ms}"
        )
    if not values:
        return NO_OVERRIDES
    return WorkOverrides(
        lease_ms=integer("queue.lease.ms"),
        deliveries_max=integer("queue.deliveries.max"),
        retry=None if retry is None else Retry[retry.upper()],
        retry_ms=first_ms,
        retry_max_ms=longest_ms,
        dead=None if policy is None else Dead[policy.upper()],
        dead_letter_topic=text("queue.dead.letter.topic"),
        in_flight_max=integer("queue.in.flight.max"),
    )


def settled(settings: WorkSettings) -> WorkSettings:
    """The settings that count: moving dead letters without a topic for them keeps them aside."""
    if settings.rules.dead is Dead.MOVE and not settings.dead_letter_topic:
        rules = msgspec.structs.replace(settings.rules, dead=Dead.ARCHIVE)
        return WorkSettings(rules, "")
    return settings


def work_configs(settings: WorkSettings) -> dict[str, str]:
    """The settings as text, by name."""
    rules = settings.rules
    return {
        "queue.dead.letter.policy": rules.dead.name.lower(),
        "queue.dead.letter.topic": settings.dead_letter_topic,
        "queue.deliveries.max": str(rules.deliveries_max),
        "queue.in.flight.max": str(rules.in_flight_max),
        "queue.lease.ms": str(rules.lease_ms),
        "queue.retry.delay.max.ms": str(rules.retry_max_ms),
        "queue.retry.delay.ms": str(rules.retry_ms),
        "queue.retry.policy": rules.retry.name.lower(),
    }


def _first(own: T | None, inherited: T) -> T:
    return inherited if own is None else own
