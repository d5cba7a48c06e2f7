"""The results of FIFO receives, for clients that repeat one whose answer was lost.

A client that got no answer to a receive cannot know whether messages were leased to it; until the
leases end, whole message groups stand still. If it gave the receive a name
(`ReceiveRequestAttemptId`) and asks again under the same name within five minutes, it gets the same
messages with the same receipt handles, as far as they were not settled.

On this node only: nothing of this is replicated. What is remembered is bounded in number and bytes.
"""

from collections.abc import Sequence

import msgspec

from penstock.core.clock import Clock
from penstock.core.limits import MIB
from penstock.core.types import TopicId
from penstock.engine.delivery.requests import Delivery

ATTEMPT_MS = 5 * 60 * 1_000
ATTEMPTS_MAX = 10_000
ATTEMPTS_BYTES_MAX = 64 * MIB
_MESSAGE_BYTES = 500


class _Attempt(msgspec.Struct, frozen=True, gc=False):
    deliveries: tuple[Delivery, ...]
    until_ms: int
    size: int


class ReceiveAttempts:
    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._attempts: dict[tuple[TopicId, str], _Attempt] = {}
        self._bytes = 0

    def recall(self, topic_id: TopicId, attempt_id: str) -> tuple[Delivery, ...]:
        """Return the result of an attempt; empty if it is not known."""
        found = self._attempts.get((topic_id, attempt_id))
        if found is None or found.until_ms <= self._clock.monotonic_ms():
            return ()
        return found.deliveries

    def remember(self, topic_id: TopicId, attempt_id: str, deliveries: Sequence[Delivery]) -> None:
        """A receive of this name is being answered so."""
        self._drop((topic_id, attempt_id))
        size = sum(_size(one) for one in deliveries)
        now_ms = self._clock.monotonic_ms()
        self._attempts[topic_id, attempt_id] = _Attempt(
            tuple(deliveries), now_ms + ATTEMPT_MS, size
        )
        self._bytes += size
        while self._attempts and self._is_over(next(iter(self._attempts)), now_ms):
            self._drop(next(iter(self._attempts)))

    def __len__(self) -> int:
        return len(self._attempts)

    def _is_over(self, oldest: tuple[TopicId, str], now_ms: int) -> bool:
        return (
            len(self._attempts) > ATTEMPTS_MAX
            or self._bytes > ATTEMPTS_BYTES_MAX
            or self._attempts[oldest].until_ms <= now_ms
        )

    def _drop(self, key: tuple[TopicId, str]) -> None:
        dropped = self._attempts.pop(key, None)
        if dropped is not None:
            self._bytes -= dropped.size


def _size(delivery: Delivery) -> int:
    message = delivery.message
    size = _MESSAGE_BYTES + len(message.value or b"") + len(message.key or b"")
    return size + sum(len(name) + len(value or b"") for name, value in message.headers)
