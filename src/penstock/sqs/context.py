"""The context of actions: the engine, the settings, and the small state that a node keeps.

    Call      what the HTTP request said besides the action's own parameters
    Context   one per node

A node remembers for a minute which queues were deleted and purged through it, because Amazon
refuses to make or purge them again so soon, and for five minutes what FIFO receives were answered,
for clients that did not hear it (see `receive_attempts`). Nothing of that is replicated: another
node knows nothing of it, and a restart forgets it. None of it protects anything, it only keeps
programs that are tested here working there.
"""

import asyncio
from collections.abc import Callable
from typing import Final, Generic, TypeVar

import msgspec

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.memory_budget import MemoryAccount
from penstock.core.topic import Topic
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.delivery.small_requests import SmallRequests
from penstock.engine.engine import Engine
from penstock.sqs.answers import Answer
from penstock.sqs.errors import QueueDoesNotExist, SqsError
from penstock.sqs.names import name_of_url
from penstock.sqs.queue_profiles import QueueProfile
from penstock.sqs.receive_attempts import ReceiveAttempts

PROTOCOL: Final = "sqs"
PROFILES_MAX: Final = 1_024
AGAIN: Final = Answer()
"""Passed instead of an answer: a request that began without a task takes one after all."""

OnDone = Callable[[Answer | SqsError | PenstockError | None], bool]
"""Called with what is to be answered; returns whether the client is still connected."""


class SqsSettings(msgspec.Struct, frozen=True, kw_only=True):
    queue_partitions: int = 1
    """Of a queue made by CreateQueue."""
    delete_cooldown_ms: int = 60_000
    """The time for which the name of a deleted queue cannot be used again on the node that deleted
    it."""
    purge_cooldown_ms: int = 60_000
    """The time for which a purged queue cannot be purged again on the node that purged it."""


class Call(msgspec.Struct, frozen=True):
    """The properties of the HTTP request besides the action's own parameters."""

    base_url: str
    """scheme://host[:port] as the client addressed us: queue URLs are made from it."""
    region: str = "us-east-1"
    access_key: str = ""
    path: str = "/"
    receiver: str = ""
    """The receiver, as leases record it."""
    trace: bytes = b""
    """The trace header of X-Ray."""
    account: MemoryAccount | None = None
    """What messages are read on."""


COOLDOWNS_MAX = 10_000

Key = TypeVar("Key", str, bytes)


class Cooldowns(Generic[Key]):
    """What was done a moment ago and must not be done again so soon, by key.

    Bounded: when more is remembered than `COOLDOWNS_MAX`, the oldest is forgotten before its
    time."""

    def __init__(self, clock: Clock, cooldown_ms: int) -> None:
        self.seconds = cooldown_ms // 1_000
        """How long that is, for people."""
        self._clock = clock
        self._cooldown_ms = cooldown_ms
        self._ends: dict[Key, int] = {}

    def begin(self, key: Key) -> None:
        """It is being done now."""
        self._forget()
        self._ends.pop(key, None)
        self._ends[key] = self._clock.monotonic_ms() + self._cooldown_ms

    def is_on(self, key: Key) -> bool:
        """Whether it was done a moment ago."""
        return self._ends.get(key, 0) > self._clock.monotonic_ms()

    def _forget(self) -> None:
        """All have the same time to live, so the first that were put in are the first to go."""
        now_ms = self._clock.monotonic_ms()
        while self._ends:
            oldest = next(iter(self._ends))
            if self._ends[oldest] > now_ms and len(self._ends) < COOLDOWNS_MAX:
                break
            del self._ends[oldest]


class Context:
    def __init__(self, engine: Engine, settings: SqsSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.deleted: Cooldowns[str] = Cooldowns(engine.topics.clock, settings.delete_cooldown_ms)
        self.purged: Cooldowns[bytes] = Cooldowns(engine.topics.clock, settings.purge_cooldown_ms)
        self.attempts = ReceiveAttempts(engine.topics.clock)
        self.flow = engine.topics.traffic.of(PROTOCOL)
        self.small = SmallRequests(engine.delivery, PROTOCOL)
        self._profiles: dict[str, QueueProfile] = {}
        self.changing = asyncio.Lock()
        """Held while a queue's attributes or tags are read, changed and written back."""

    @property
    def delivery(self) -> DeliveryService:
        """The delivery service of the engine."""
        return self.engine.delivery

    def queue(self, url: str | None) -> Topic:
        """The queue that a request is about."""
        topic = self.engine.topics.catalog.topic(name_of_url(url)) if url else None
        if topic is None:
            raise QueueDoesNotExist
        return topic

    def profile(self, url: str | None) -> QueueProfile:
        """Return the profile of a queue, for sends and receives."""
        profile = self._profiles.get(url) if url else None
        if (
            profile is not None
            and self.engine.topics.catalog.topic(profile.topic.name) is profile.topic
        ):
            return profile
        topic = self.queue(url)
        assert url, "a queue without a URL was found"
        if len(self._profiles) >= PROFILES_MAX:
            self._profiles.clear()
        profile = self._profiles[url] = QueueProfile(topic)
        return profile
