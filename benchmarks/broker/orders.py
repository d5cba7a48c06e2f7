"""What a client process is asked to do, and what it answers: plain data that goes between the two.

Every order ends by itself, by a count or by a time: no broker can make a measurement last.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

Setting = str | int | bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Target:
    """A topic, and where it is."""

    bootstrap: str
    topic: str
    partitions: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Production:
    """Send as fast as possible until the time or the messages are used up, then wait for all."""

    target: Target
    value_bytes: int
    seconds: float
    messages_max: int
    settings: Mapping[str, Setting] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumption:
    """Read what is there, once from the beginning to the end, or again and again."""

    target: Target
    seconds: float
    again: bool = False
    more_topics: tuple[str, ...] = ()
    """Read these as well, all at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Schedule:
    """Message i is due at `first_ns + i / per_second`, whatever became of those before it."""

    target: Target
    value_bytes: int
    per_second: int
    first_ns: int
    """By the monotonic clock, which all processes of a machine share."""
    count: int

    def due_ns(self, number: int) -> int:
        """When a message is to be sent."""
        return self.first_ns + number * 1_000_000_000 // self.per_second


@dataclass(frozen=True, slots=True)
class Moved:
    """How many messages went through, and what that took of time and of the client's processor."""

    messages: int
    seconds: float
    cpu_seconds: float

    @property
    def per_second(self) -> float:
        """Messages."""
        return self.messages / self.seconds if self.seconds else 0.0
