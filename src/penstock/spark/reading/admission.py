"""The size of a micro-batch.

    maxOffsetsPerTrigger   so many messages, shared among the partitions by how far each is behind,
                           so that all of them arrive at the end at about the same time
    maxBytesPerTrigger     the same with bytes as they are stored: how large a message is, is taken
                           from the batches that come next in each partition
    minOffsetsPerTrigger   nothing, until there are so many or `maxTriggerDelay` has passed

Rules: a partition that has something gets at least one message, so none starves; nothing is given
that is not there; without limits everything is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from penstock.client.reader.positions import TopicPartition

Places = Mapping[TopicPartition, int]


def share(starts: Places, ends: Places, most: int) -> dict[TopicPartition, int]:
    """Return new ends that include up to `most` messages in all."""
    behind = _behind(starts, ends)
    total = sum(behind.values())
    if total <= most:
        return dict(ends)
    portions = {part: max(1, most * lag // total) for part, lag in behind.items()}
    rest = most - sum(portions.values())
    for part, lag in behind.items():
        if rest > 0 and portions[part] < lag:  # What rounding has left over.
            portions[part] += 1
            rest -= 1
    for part in sorted(portions, key=portions.__getitem__, reverse=True):
        if rest < 0:  # Those far behind make room for those that get one at least.
            less = min(-rest, portions[part] - 1)
            portions[part] -= less
            rest += less
    return {
        part: starts[part] + portions[part] if part in portions else ends[part] for part in ends
    }


def share_bytes(
    starts: Places, ends: Places, most: int, sizes: Mapping[TopicPartition, float]
) -> dict[TopicPartition, int]:
    """Return new ends that include about `most` bytes in all; `sizes` are the sizes of a message of
    each partition."""
    behind = _behind(starts, ends)
    total = sum(lag * sizes.get(part, 0.0) for part, lag in behind.items())
    if total <= most:
        return dict(ends)
    portions = {part: max(1, int(lag * most / total)) for part, lag in behind.items()}
    return {
        part: starts[part] + portions[part] if part in portions else ends[part] for part in ends
    }


def _behind(starts: Places, ends: Places) -> dict[TopicPartition, int]:
    """Return the backlog of each partition that has one."""
    return {part: end - starts[part] for part, end in ends.items() if end > starts[part]}


@dataclass(slots=True)
class Patience:
    """The condition for a micro-batch: a minimal number of messages, or a time."""

    least: int
    seconds: float
    since: float

    def is_enough(self, starts: Places, ends: Places, now: float) -> bool:
        """Whether to go on; waiting begins anew then."""
        there = sum(_behind(starts, ends).values())
        if there >= self.least or now - self.since >= self.seconds:
            self.since = now
            return True
        return False
