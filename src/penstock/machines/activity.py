"""Counters of a work group since this replica began to apply entries, for metrics and people.

Every replica counts what it applies, and no snapshot holds it: nothing is ever decided by these
numbers, and a node that restarts begins at zero. What a *leader* has done is the difference of
readings of the time it led (see `engine.inspection.delivery_counters`). All of it is counted by
runs of messages, as they are leased and settled, and never one by one.
"""

from collections import Counter

from penstock.core.histogram import WORK_BOUNDS, Histogram

DIED_OF_DELIVERIES = "deliveries"
"""It was delivered as often as may be, in vain."""
DIED_OF_REJECTION = "rejected"
"""A worker said that it can never succeed."""
DIED_IN_READING = "read"
"""Reported by a reader of the log, such as Spark."""


RELEASED, LEASE_EXPIRED, REJECTED, READ_FAILED = "released", "lease_expired", "rejected", "read"
"""How a delivery came to nothing: `read` is a reader of the log, such as Spark."""
ERROR_TYPES = (RELEASED, LEASE_EXPIRED, REJECTED, READ_FAILED)


class Activity:
    """Plain counters of messages."""

    __slots__ = (
        "acked", "dead", "delivered", "discarded", "expired", "lease_expired", "moved",
        "read_failed", "redelivered", "rejected", "released", "times",
    )  # fmt: skip

    def __init__(self) -> None:
        self.delivered = 0
        """Leased, as often as they were."""
        self.redelivered = 0
        """The deliveries of messages that had been leased before."""
        self.acked = 0
        self.released = 0
        """This and the next three are deliveries that came to nothing."""
        self.lease_expired = 0
        self.rejected = 0
        self.read_failed = 0
        self.moved = 0
        """Dead messages that were moved to the dead-letter queue."""
        self.expired = 0
        """Too old when their turn came."""
        self.discarded = 0
        """Died, and were thrown away as the rules ask."""
        self.dead: Counter[str] = Counter()
        """Died, by what they died of; see the words above."""
        self.times = Histogram(WORK_BOUNDS)
        """From lease to ack, of messages that succeeded the first time: of those that failed before
        the time would tell how long they had to wait."""

    @property
    def failed(self) -> int:
        """Deliveries that came to nothing."""
        return self.released + self.lease_expired + self.rejected + self.read_failed

    def failures(self) -> tuple[int, ...]:
        """The same by how they did, in the order of `ERROR_TYPES`."""
        return self.released, self.lease_expired, self.rejected, self.read_failed

    @property
    def is_empty(self) -> bool:
        """Nothing has happened. Messages that are acked or dead were delivered, or read from the
        log."""
        return not (self.delivered or self.acked or self.failed or self.expired or self.moved)

    def copy(self) -> "Activity":
        """As it is now."""
        found = Activity()
        if not self.is_empty:
            found.add(self)
        return found

    def remove(self, before: "Activity") -> None:
        """Take off what an earlier copy has, which was added with the rest."""
        self.delivered -= before.delivered
        self.redelivered -= before.redelivered
        self.acked -= before.acked
        self.released -= before.released
        self.lease_expired -= before.lease_expired
        self.rejected -= before.rejected
        self.read_failed -= before.read_failed
        self.moved -= before.moved
        self.expired -= before.expired
        self.discarded -= before.discarded
        self.dead.subtract(before.dead)
        self.times.remove(before.times)

    def add(self, other: "Activity") -> None:
        """Take in what another one has counted."""
        self.delivered += other.delivered
        self.redelivered += other.redelivered
        self.acked += other.acked
        self.released += other.released
        self.lease_expired += other.lease_expired
        self.rejected += other.rejected
        self.read_failed += other.read_failed
        self.moved += other.moved
        self.expired += other.expired
        self.discarded += other.discarded
        self.dead.update(other.dead)
        self.times.add(other.times)
