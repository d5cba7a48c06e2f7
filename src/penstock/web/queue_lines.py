"""The documents about queues that the broker writes and the command line reads.

They need nothing of the engine, so that a command is up as fast as it can be.
"""

import msgspec
from msgspec.structs import force_setattr

from penstock.core.configs import ConfigValue


class MoveLine(msgspec.Struct, frozen=True, kw_only=True):
    """A move of messages out of a queue."""

    id: str
    to: str
    """Empty: each message goes back to where it died."""
    state: str
    to_move: int
    moved: int
    failed: int
    """The number of messages that cannot be moved and stay where they are."""
    rate: int
    started_ms: int
    ended_ms: int
    failure: str


class GroupCounts(msgspec.Struct, frozen=True, kw_only=True):
    """The number of messages of a work group in each state. `visible` and `in_flight` are the names
    that release 0.1 had for `ready` and `leased`: deprecated, and removed in 0.3."""

    group: str
    sent: int
    ready: int = 0
    leased: int = 0
    visible: int = 0
    in_flight: int = 0
    delayed: int
    dead: int
    """Failed for good: archived here, about to be moved, or in the dead-letter queue."""
    dead_lettered: int = 0
    """Of these, what the dead-letter queue holds. A broker of release 0.1 counts none."""
    acked: int
    moved: int
    expired: int
    purged: int
    dropped: int
    duplicates: int
    accounted: int
    """The sum of all states without `dead_lettered`, which have been moved; equal to `sent`, or
    messages have been lost."""
    oldest_age_ms: int | None

    def __post_init__(self) -> None:
        # A broker of release 0.1 sends the old names alone; the constructor is given the new ones.
        ready, leased = max(self.ready, self.visible), max(self.leased, self.in_flight)
        for name, count in (("ready", ready), ("visible", ready)):
            force_setattr(self, name, count)
        for name, count in (("leased", leased), ("in_flight", leased)):
            force_setattr(self, name, count)


class GroupSettingLine(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a work group."""

    value: ConfigValue
    source: str
    """own: set for the group on this queue; group: set for the group on all topics; queue:
    inherited from the queue; default: of a topic that is no queue."""


class QueueLine(msgspec.Struct, frozen=True, kw_only=True):
    """A row of the list of queues."""

    name: str
    kind: str
    partitions: int
    paused: bool
    dead_letter_topic: str
    groups: list[GroupCounts]


class QueueDetail(QueueLine, frozen=True, kw_only=True):
    created_ms: int
    settings: dict[str, ConfigValue]
    moves: list[MoveLine]
    group_settings: dict[str, dict[str, GroupSettingLine]] = {}
    """By work group, and by the name of the setting."""


class ResetPlace(msgspec.Struct, frozen=True, kw_only=True):
    """The effect of a reset on one partition."""

    partition: int
    was: int
    """Everything below this offset was done."""
    start: int
    end: int
    """The offset after the last message."""
