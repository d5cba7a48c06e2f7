"""Gaps in the sequence of a producer that close by themselves if they are answered with a retriable
error first.

When a partition moves to another leader, librdkafka may send it the batches that it had not sent
yet ahead of those it must send again: the old leader's refusal of those comes in on another thread
(seen in 2.16 after "wait for outstanding requests to finish before producing to new leader"). Told
OUT_OF_ORDER_SEQUENCE_NUMBER it raises its epoch, and sends everything that has no answer again
under the new one, also what has long been stored in other partitions: duplicates that no broker can
recognise. Told to try again, it sorts its batches and sends them in order.

So a gap is at first answered with a code that every client repeats; only if it is still there after
a while is it one. Nothing is stored meanwhile, either way.
"""

from penstock.core.errors import OutOfOrderSequence
from penstock.core.limits import KAFKA_SEQUENCE_GAPS_MAX
from penstock.core.types import PartitionId

PATIENCE_MS = 3_000
FORGET_MS = 30_000
"""A gap that was not reported for this long counts as a new one."""


class SequenceGaps:
    """The gaps of all producers that were seen lately; at most so many, the oldest go first."""

    def __init__(self) -> None:
        self._since_ms: dict[tuple[PartitionId, int, int], int] = {}

    def will_close(self, partition: PartitionId, gap: OutOfOrderSequence, now_ms: int) -> bool:
        """Whether the producer should simply try again."""
        if not gap.ahead:
            return False
        key = (partition, gap.producer_id, gap.producer_epoch)
        since_ms = self._since_ms.get(key)
        if since_ms is None or now_ms - since_ms > FORGET_MS:
            self._since_ms.pop(key, None)
            if len(self._since_ms) >= KAFKA_SEQUENCE_GAPS_MAX:
                del self._since_ms[next(iter(self._since_ms))]
            self._since_ms[key] = since_ms = now_ms
        return now_ms - since_ms < PATIENCE_MS
