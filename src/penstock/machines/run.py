"""Neighbouring messages of a work group that are in the same state, for the same reason.

Leasing a thousand messages and acking them all costs two operations, not two thousand: they
are one run. A run is split where a part of it fares differently.

    READY     can be delivered; `deliveries` counts how often it was before. If a delivery came to
              nothing, `at_ms` is no time but the end of the partition at that moment: the message
              comes behind those that were there
    LEASED    a receiver has it until `at_ms`, under lease `epoch`
    DELAYED   cannot be delivered before `at_ms`
    DEAD      failed for good at `at_ms`, for `reason`

What has been dealt with (acked, moved, expired…) has no run: a work group remembers what is left
to do, not what is done.
"""

from enum import IntEnum

import msgspec

from penstock.core.queue_rules import DEFAULT_PRIORITY
from penstock.core.types import Offset


class State(IntEnum):
    """What can be said of a message that is not dealt with. The numbers are in snapshots."""

    READY = 1
    LEASED = 2
    DELAYED = 3
    DEAD = 4


WAITING = (State.READY, State.DELAYED)
"""Not leased, and still to be delivered."""
TIMED = (State.LEASED, State.DELAYED)
"""It ends by itself, at `at_ms`."""


class Run(msgspec.Struct, array_like=True, forbid_unknown_fields=True, gc=False):
    """The messages from `first` on, `length` of them. The order of fields is in snapshots."""

    first: Offset
    length: int
    state: State
    at_ms: int = -1
    deliveries: int = 0
    epoch: int = 0
    """Of the last lease; 0 if there has been none."""
    first_ms: int = -1
    """When it was delivered for the first time."""
    level: int = DEFAULT_PRIORITY
    message_group: bytes | None = None
    """The message group: its line in a FIFO queue, its tenant in another."""
    expire_ms: int = -1
    """When it is not worth delivering any more; -1: always."""
    reason: str = ""

    @property
    def turn(self) -> tuple[int, int, int]:
        """Where it stands among ready messages: by its offset, or, once a delivery came to nothing,
        behind all messages that were there then. Of those, the one leased longest ago is first."""
        return self.at_ms if self.at_ms >= 0 else self.first, self.epoch, self.first

    @property
    def until_ms(self) -> int:
        """When its state ends by itself, or, if it is dead, when it died; -1: never."""
        return -1 if self.state is State.READY else self.at_ms

    @property
    def end(self) -> Offset:
        """The offset after its last message."""
        return Offset(self.first + self.length)

    def describe(self) -> str:
        """`3-5 leased until 31000 epoch 2 deliveries 1`: what differs from a new message."""
        words = [describe_offsets(self.first, self.end), self.state.name.lower()]
        if self.state in TIMED:
            words.append(f"until {self.at_ms}")
        if self.state is State.LEASED:
            words.append(f"epoch {self.epoch}")
        if self.state is State.READY and self.at_ms >= 0:
            words.append(f"behind {self.at_ms - 1}")
        if self.deliveries:
            words.append(f"deliveries {self.deliveries}")
        if self.level != DEFAULT_PRIORITY:
            words.append(f"priority {self.level}")
        if self.message_group is not None:
            words.append(f"group {self.message_group.decode(errors='replace') or '-'}")
        if self.expire_ms >= 0:
            words.append(f"expires {self.expire_ms}")
        if self.reason:
            words.append(f"({self.reason})")
        return " ".join(words)

    def split_off(self, at: Offset) -> "Run":
        """Keep what is before `at`; returns the rest."""
        assert self.first < at < self.end, f"{at} is not inside {self}"
        rest = msgspec.structs.replace(self, first=at, length=self.end - at)
        self.length = at - self.first
        return rest


def describe_offsets(first: Offset, end: Offset) -> str:
    """`3` or `3-5`: the last offset is included, as people count."""
    return str(first) if end - first == 1 else f"{first}-{end - 1}"
