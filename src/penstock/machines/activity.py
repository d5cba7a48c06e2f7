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


class Activity:
    """Plain counters of messages."""

    __slots__ = (
        "acked", "dead", "delivered", "discarded", "expired", "failed", "redelivered", "times",
    )  # fmt: skip

    def __init__(self) -> None:
        self.delivered = 0
        """Leased, as often as they were."""
        self.redelivered = 0
        """The deliveries of messages that had been leased before."""
        self.acked = 0
        self.failed = 0
        """Deliveries that came to nothing: released, rejected, or the lease was over."""
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
    def is_empty(self) -> bool:
        """Nothing has happened. Messages that are acked or dead were delivered, or read from the
        log."""
        return not (self.delivered or self.acked or self.failed or self.expired)

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
        self.failed -= before.failed
        self.expired -= before.expired
        self.discarded -= before.discarded
        self.dead.subtract(before.dead)
        self.times.remove(before.times)

    def add(self, other: "Activity") -> None:
        """Take in what another one has counted."""
        self.delivered += other.delivered
        self.redelivered += other.redelivered
        self.acked += other.acked
        self.failed += other.failed
        self.expired += other.expired
        self.discarded += other.discarded
        self.dead.update(other.dead)
        self.times.add(other.times)
