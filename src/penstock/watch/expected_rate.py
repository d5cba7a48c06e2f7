"""The usual ack rate of a queue: the median over the last hour.

The usual rate is that of the past, so a queue whose workers stop would soon be expected to stand
still. While an alert says that it is slow, the usual rate stays as it was before.

Working out a median takes a while, so each queue's is worked out every few minutes, a few queues at
a time.
"""

from penstock.watch.history import History, queue_key
from penstock.watch.readings import QueueReading

LEARN_MS = 300_000
"""The interval at which the usual rate of a queue is computed."""
LOOK_MS = 10_000
"""The interval of checks for queues whose rate is due."""
LEARNT_AT_ONCE = 50
POINTS_MIN = 120
"""Ten minutes: before that nothing is usual."""

Key = tuple[str, str]


class ExpectedRates:
    """The expected rates of all queues, by name and work group."""

    def __init__(self) -> None:
        self._usual: dict[Key, float | None] = {}
        self._learnt_ms: dict[Key, int] = {}
        self._look_ms = 0

    def usual(self, queue: str, group: str) -> float | None:
        """Acks a second; None if that is not known yet, or nothing is."""
        return self._usual.get((queue, group)) or None

    def learn(
        self, queues: tuple[QueueReading, ...], history: History, slow: set[Key], now_ms: int
    ) -> None:
        """Compute the usual rates; those of queues that are `slow` are left unchanged."""
        if now_ms < self._look_ms:
            return
        left = LEARNT_AT_ONCE
        for one in queues:
            key = (one.queue, one.group)
            if left == 0:
                break
            due_ms = self._learnt_ms.get(key, now_ms - LEARN_MS) + LEARN_MS
            if now_ms < due_ms or key in slow:
                continue
            left -= 1
            self._learnt_ms[key] = now_ms
            self._usual[key] = history.usual(queue_key(*key), "ack_rate", least=POINTS_MIN)
        if left:
            self._look_ms = now_ms + LOOK_MS
        if len(self._learnt_ms) > 2 * len(queues) + LEARNT_AT_ONCE:
            there = {(one.queue, one.group) for one in queues}
            for key in self._learnt_ms.keys() - there:
                del self._learnt_ms[key]
                self._usual.pop(key, None)
