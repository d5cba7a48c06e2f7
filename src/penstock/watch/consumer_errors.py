"""The share of deliveries that failed, consumer by consumer, in the last minute.

Nothing is counted for it while messages are delivered: it is read from the latest part of the
delivery history, and only if deliveries have failed on this node lately. The number of consumers is
bounded: those with the most failures are exported.
"""

from penstock.core.limits import SCRAPED_CONSUMERS_MAX
from penstock.engine.cluster.node import Node

EVERY_SECONDS = 15.0
MINUTE_SECONDS = 60.0

Rate = tuple[str, str, str, float]
"""Queue, work group, consumer, share."""


class ConsumerErrors:
    """Of one node."""

    def __init__(self, node: Node) -> None:
        self._node = node
        self._failed = 0
        self._changed_at = float("-inf")
        self._read_at = float("-inf")
        self._rates: list[Rate] = []

    async def rates(self, now: float, failed: int) -> list[Rate]:
        """`failed` is how many deliveries failed on this node so far, `now` monotonic seconds."""
        if failed != self._failed:
            self._failed, self._changed_at = failed, now
        if now - self._changed_at > MINUTE_SECONDS:
            self._rates = []
        elif now - self._read_at >= EVERY_SECONDS:
            self._read_at = now
            self._rates = await self._read()
        return self._rates

    async def _read(self) -> list[Rate]:
        found: list[tuple[int, Rate]] = []
        for (queue, group), workers in (await self._node.workers.minute_here()).items():
            for one in workers:
                if one.minute_failed:
                    share = one.minute_failed / (one.minute_failed + one.minute_acked)
                    found.append((one.minute_failed, (queue, group, one.name, share)))
        found.sort(key=lambda each: (-each[0], each[1]))
        return sorted(rate for _, rate in found[:SCRAPED_CONSUMERS_MAX])
