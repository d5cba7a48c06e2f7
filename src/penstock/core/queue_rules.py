"""The rules of a queue that decide while entries are applied: order, visibility timeout (lease),
retries, dead letters.

Rules come from a topic's configs (`queue.*`) or from a share group's, and are written into the
shard by a command: a decision in `apply` may depend on nothing that another replica might see
differently. Times are in milliseconds of log time.

    QueueRules   of a partition: how its messages are identified, ordered, bounded
    WorkRules    of one work group: how long a lease (visibility timeout) lasts, what happens to
                 failures
"""

from enum import IntEnum

import msgspec

PRIORITIES = 10
DEFAULT_PRIORITY = 4
"""The priority of a message that has none: there is room above and below."""
DEFAULT_WORK_GROUP = "queue"
"""The work group of SQS and of requests that name none."""


class Priorities(IntEnum):
    """The order of delivery of messages with priorities."""

    OFF = 0
    STRICT = 1
    """The highest priority first, always."""
    WEIGHTED = 2
    """Higher ones more often, and none never: priority p gets p + 1 shares."""


class Deduplication(IntEnum):
    """The way in which a duplicate is recognised."""

    OFF = 0
    ID = 1
    """By the id that its sender gave it."""
    CONTENT = 2
    """By that id, or, without one, by its body."""


class Retry(IntEnum):
    """The delay before the next delivery of a message that failed; d is the configured delay, n the
    number of deliveries so far."""

    NONE = 0
    """No delay."""
    FIXED = 1
    """d, d, d…"""
    LINEAR = 2
    """d, 2d, 3d…"""
    EXPONENTIAL = 3
    """d, 2d, 4d…"""
    JITTERED = 4
    """By chance, up to twice the exponential and not under d or three eighths of that: d–2d,
    1.5d–4d, 3d–8d…"""


class Dead(IntEnum):
    """The treatment of a message that failed for good."""

    MOVE = 1
    """It waits, outside of delivery, until it has been moved to the dead-letter queue."""
    ARCHIVE = 2
    """It stays, outside of delivery, and can be read and revived."""
    DISCARD = 3
    """It is deleted."""


class QueueRules(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The rules of a partition that hold for all work groups. The order of fields is on disk."""

    delivery_headers: bool = False
    """Messages say by headers how they are to be handled (see `core.delivery_headers`)."""
    fifo: bool = False
    """Messages of one group are delivered one after the other."""
    priorities: Priorities = Priorities.OFF
    delay_ms: int = 0
    """The delay of messages that do not set their own."""
    ttl_ms: int = -1
    """The time to live of messages that do not set their own; -1 for ever."""
    deduplication: Deduplication = Deduplication.OFF
    deduplication_ms: int = 300_000
    deduplication_by_group: bool = False
    """An id counts within its message group only."""
    length_max: int = -1
    """With `drops_oldest`: the largest number of messages; above it the oldest that is not leased
    is dropped."""
    drops_oldest: bool = False
    paused: bool = False
    """True if nothing is delivered."""

    @property
    def reads_messages(self) -> bool:
        """Messages must be looked at when they are appended."""
        return (
            self.delivery_headers
            or self.fifo
            or self.delay_ms > 0
            or self.ttl_ms >= 0
            or self.deduplication is not Deduplication.OFF
        )


class WorkRules(msgspec.Struct, frozen=True, array_like=True, forbid_unknown_fields=True):
    """The rules of one work group. The order of fields is on disk."""

    lease_ms: int = 30_000
    deliveries_max: int = 0
    """The number of failed deliveries after which a message is dead; 0: unlimited."""
    retry: Retry = Retry.NONE
    retry_ms: int = 0
    retry_max_ms: int = 300_000
    dead: Dead = Dead.ARCHIVE
    in_flight_max: int = 120_000
