"""The options of a subscription. The defaults suit most programs; durations are in seconds."""

from dataclasses import dataclass
from datetime import timedelta
from typing import TypedDict

from penstock.client.guarantees import Guarantee
from penstock.client.reader.assignors import ASSIGNORS, KNOWN_ASSIGNORS
from penstock.client.reader.membership import MembershipSettings
from penstock.client.reader.start_position import Start
from penstock.client.seconds import Seconds, to_milliseconds
from penstock.core.errors import InvalidRequest


@dataclass(frozen=True, slots=True, kw_only=True)
class SubscriptionOptions:
    """All of it; `client.subscribe` takes each by its name."""

    group: str | None = None
    """Members of a group share the partitions; without one, all are read here."""
    start: Start = "earliest"
    """The start position where the group has no committed offset: see
    `penstock.client.reader.start_position`."""
    auto_commit: bool = True
    """Commit processed records automatically: periodically, before partitions move to another
    member, and at the end. Otherwise only `commit` does."""
    commit_interval: Seconds = 1.0
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    """At most once: records are committed before they are handed out."""
    prefetch: int = 10_000
    """About how many messages may wait here to be asked for."""
    prefetch_bytes: int | None = None
    """And how many bytes; the client's setting if None."""
    fetch_wait: Seconds = 0.5
    """The duration of a long poll at the broker."""
    topics_interval: Seconds = 5.0
    """The interval of checks for new topics and partitions; a missing topic is looked up every
    second."""
    instance_id: str | None = None
    """The name of a static member: if it is back within a session, nothing is shared out anew."""
    session_timeout: Seconds = 30.0
    """A member that is not heard of for this long loses its partitions."""
    rebalance_timeout: Seconds = 60.0
    """The time that the other members wait for this one in a rebalance. Half of it is for the body
    of the loop to finish the record in hand."""
    heartbeat_interval: Seconds = 1.0
    """A member learns of changes by its heartbeats."""
    assignors: tuple[str, ...] = ASSIGNORS
    """Ways to share out partitions, the best first; "range" is the one Kafka's clients know.
    ("cooperative-sticky",) is for a group whose Kafka clients all rebalance cooperatively."""
    client_id: str = "penstock"

    def __post_init__(self) -> None:
        if self.prefetch < 1:
            raise InvalidRequest(f"prefetch is {self.prefetch}; it takes one message at least")
        if not self.assignors or not set(self.assignors) <= set(KNOWN_ASSIGNORS):
            raise InvalidRequest(
                f"assignors are {self.assignors}; choose from {', '.join(KNOWN_ASSIGNORS)}"
            )
        if self.group is None and self.guarantee is Guarantee.AT_MOST_ONCE:
            raise InvalidRequest("at most once needs a group: without one nothing is committed")
        for name in ("commit_interval", "topics_interval", "heartbeat_interval"):
            if self.seconds(name) <= 0:
                raise InvalidRequest(f"{name} must be more than 0")

    def seconds(self, name: str) -> float:
        """Return one of the durations in seconds."""
        duration: float | timedelta = getattr(self, name)
        return to_milliseconds(duration, name) / 1_000

    def membership(self) -> MembershipSettings:
        """The options that concern the group membership."""
        return MembershipSettings(
            instance_id=self.instance_id,
            client_id=self.client_id,
            session_timeout=self.seconds("session_timeout"),
            rebalance_timeout=self.seconds("rebalance_timeout"),
            heartbeat_interval=self.seconds("heartbeat_interval"),
            assignors=self.assignors,
        )


class SubscribeOptions(TypedDict, total=False):
    """The arguments of `subscribe`: see `SubscriptionOptions`."""

    group: str | None
    start: Start
    auto_commit: bool
    commit_interval: Seconds
    guarantee: Guarantee
    prefetch: int
    prefetch_bytes: int | None
    fetch_wait: Seconds
    topics_interval: Seconds
    instance_id: str | None
    session_timeout: Seconds
    rebalance_timeout: Seconds
    heartbeat_interval: Seconds
    assignors: tuple[str, ...]
    client_id: str
