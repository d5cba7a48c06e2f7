"""What can be asked of a queue, and what it answers: the words between front-ends and `queues`.

All of them travel between nodes, too: a request that reaches a node that does not lead the
partition is sent on to the one that does.
"""

from collections.abc import Sequence
from typing import NamedTuple

import msgspec

from penstock.core.memory_budget import MemoryAccount
from penstock.core.message import Message
from penstock.core.types import Offset, PartitionId
from penstock.core.verdicts import Verdict
from penstock.machines.queue_commands import Settlement


class Receipt(msgspec.Struct, frozen=True, array_like=True):
    """Names one lease of one message. Only a receipt that is the latest changes anything."""

    partition: PartitionId
    group: str
    offset: Offset
    epoch: int

    @property
    def leased(self) -> "LeasedRange":
        """The lease, as it is given back."""
        offset = self.offset
        return LeasedRange(self.partition, self.group, self.epoch, offset, Offset(offset + 1))


class LeasedRange(NamedTuple):
    """Messages of one partition from `first` up to, not including, `end`, of one lease."""

    partition: PartitionId
    group: str
    epoch: int
    first: Offset
    end: Offset


class Delivery(msgspec.Struct, frozen=True, array_like=True):
    """A message, leased."""

    message: Message
    index: int
    """Of the partition within its topic."""
    receipt: Receipt
    deliveries: int
    """How often it has been delivered, this time included."""
    first_received_ms: int
    until_ms: int
    """When the lease ends, in log time."""


class ImmediateReceive(msgspec.Struct, frozen=True, gc=False):
    """A receive without a wait."""

    messages_max: int
    lease_ms: int | None
    """None: for as long as the queue's rules say."""
    receiver: str
    account: MemoryAccount | None = None
    """What the messages are read on."""


class Sent(msgspec.Struct, frozen=True, array_like=True):
    """Where a message went, or, if it was a duplicate, where the first one is."""

    index: int
    offset: Offset
    duplicate: bool = False


class QueueCounts(msgspec.Struct, frozen=True, array_like=True):
    """How many messages of a work group are in which state.

    At every moment: sent = ready + leased + delayed + dead + acked + moved + expired + purged
    + dropped + duplicates."""

    sent: int = 0
    """Offered to this group since it was opened."""
    ready: int = 0
    leased: int = 0
    delayed: int = 0
    dead: int = 0
    """Failed for good: archived, or about to be moved."""
    acked: int = 0
    moved: int = 0
    """To a dead-letter queue."""
    expired: int = 0
    purged: int = 0
    """Purged, cancelled or discarded."""
    dropped: int = 0
    """The oldest of a queue that was full."""
    duplicates: int = 0
    oldest_ms: int = -1
    """When the oldest living message was sent; -1 if there is none, or it is not known."""


def sum_counts(parts: Sequence[QueueCounts]) -> QueueCounts:
    """Of several partitions together."""
    names = [name for name in QueueCounts.__struct_fields__ if name != "oldest_ms"]
    totals = {name: sum(getattr(part, name) for part in parts) for name in names}
    oldest = [part.oldest_ms for part in parts if part.oldest_ms >= 0]
    return QueueCounts(**totals, oldest_ms=min(oldest, default=-1))


class BrowsedMessage(msgspec.Struct, frozen=True, array_like=True):
    """A message, looked at without touching it."""

    message: Message
    index: int
    state: str
    """ready, leased, delayed or dead."""
    deliveries: int
    first_received_ms: int
    until_ms: int
    """When its lease or delay ends, or, for a dead one, when it died; -1 otherwise."""
    reason: str
    """Why it is dead."""


class QueuePlace(msgspec.Struct, frozen=True, array_like=True):
    """One partition as a queue."""

    log_start: Offset
    end: Offset
    """One past the last message."""
    starts: dict[str, Offset]
    """By work group: everything below is done."""
    at_time: Offset
    """The first message that is as late as was asked; the end if there is none."""


Verdicts = Sequence[tuple[Receipt, Verdict, int, str]]
"""(receipt, verdict, delay in milliseconds, reason)"""


def settlement_of(
    receipt: Receipt, verdict: Verdict, delay_ms: int, reason: str, count: int = 1
) -> Settlement:
    """A verdict on a message, or on as many from there on."""
    end = Offset(receipt.offset + count)
    return Settlement(receipt.offset, end, receipt.epoch, verdict, delay_ms, reason)


def join_verdicts(numbers: list[int], verdicts: Verdicts) -> list[tuple[Settlement, list[int]]]:
    """Settlements with the numbers of the verdicts that each stands for. Equal verdicts on
    neighbouring messages become one: a thousand acks of one lease cost as much as a single one."""
    groups: list[list[int]] = []
    expected: tuple[object, ...] | None = None
    for number in sorted(numbers, key=lambda number: verdicts[number][0].offset):
        receipt, verdict, delay_ms, reason = verdicts[number]
        if (receipt.offset, receipt.epoch, verdict, delay_ms, reason) == expected:
            groups[-1].append(number)
        else:
            groups.append([number])
        expected = (receipt.offset + 1, receipt.epoch, verdict, delay_ms, reason)
    return [(settlement_of(*verdicts[members[0]], len(members)), members) for members in groups]
