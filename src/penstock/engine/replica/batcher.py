"""Group commit: many small requests become few log entries and one disk sync.

Plans are gathered in the order they were made while a write is under way and are proposed together
when it ends: the busier the disk, the larger the groups, without a timer and without waiting when
it is idle. What one write takes is bounded: of very large groups a part stays here, so that the
next write is at hand when this one ends, and disk and processor work at the same time. Consecutive
appends share one APPEND entry, which costs Raft and the disk as much as one request would; a
command in between closes the entry, because the log must keep the order of plans. An entry is
applied in one piece on the event loop of every replica, so it is also full when its messages take
long to apply: those of queues that look at each of them.

A request's answer belongs to the entry that carries it. Answers that need no entry ride on whatever
was planned before them: a repeated batch must not be confirmed, nor a partition called existing,
before the plan that this rests on is committed.
"""

from collections.abc import Callable
from enum import Enum

import msgspec

from penstock.core.entries import EntryKind
from penstock.core.errors import PenstockError
from penstock.core.limits import ENTRY_APPLY_US_MAX, ENTRY_SLICES_MAX, GATHER_BYTES_MAX
from penstock.machines.appends import join_appends
from penstock.machines.machine import Append, Plan, Propose, Reply

Answer = Callable[[Reply | PenstockError], None]
"""Called exactly once for each request, with its reply or the reason there is none."""


class Promise(Enum):
    """What must be true before a request is answered."""

    COMMITTED = "durable on a majority"
    DURABLE = "durable on this node; another leader may not have it"
    WRITTEN = "handed to this node's operating system; a power cut may lose it"
    PLANNED = "in this node's memory; a crash may lose it"


class Waiter(msgspec.Struct, frozen=True):
    """One request that waits for its entry."""

    answer: Answer
    reply: Reply | PenstockError | None
    """None: the reply is what applying the entry gives."""
    size: int
    promise: Promise = Promise.COMMITTED


class GatheredEntry:
    """An entry in the making."""

    __slots__ = ("appends", "apply_us", "command", "size", "waiters")

    def __init__(self, command: bytes | None) -> None:
        self.command = command
        self.appends: list[Append] = []
        self.size = 0 if command is None else len(command)
        self.apply_us = 0
        self.waiters: list[Waiter] = []

    def has_room(self, size: int, apply_us: int) -> bool:
        return (
            self.command is None
            and self.size + size <= GATHER_BYTES_MAX
            and len(self.appends) < ENTRY_SLICES_MAX
            # Messages that no queue looks at have room beside any others.
            and (not apply_us or self.apply_us + apply_us <= ENTRY_APPLY_US_MAX)
        )

    def encode(self) -> tuple[EntryKind, bytes]:
        """Kind and payload, as Raft takes them."""
        if self.command is not None:
            return EntryKind.COMMAND, self.command
        return EntryKind.APPEND, join_appends(self.appends)


class Batcher:
    """Gathers plans between two proposals."""

    def __init__(self) -> None:
        self._entries: list[GatheredEntry] = []
        self.waiters = 0

    def __bool__(self) -> bool:
        return bool(self._entries)

    def add(
        self, plan: Append | Propose, answer: Answer, promise: Promise = Promise.COMMITTED
    ) -> int:
        """Take a plan; returns the bytes it will add to the log."""
        self.waiters += 1
        if isinstance(plan, Propose):
            entry = GatheredEntry(plan.payload)
            self._entries.append(entry)
            entry.waiters.append(Waiter(answer, None, entry.size))
            return entry.size
        size, apply_us = len(plan.batch), plan.apply_us
        if not self._entries or not self._entries[-1].has_room(size, apply_us):
            self._entries.append(GatheredEntry(None))
        entry = self._entries[-1]
        entry.appends.append(plan)
        entry.size += size
        entry.apply_us += apply_us
        entry.waiters.append(Waiter(answer, plan.reply, size, promise))
        return size

    def ride(self, reply: Reply | PenstockError, answer: Answer) -> bool:
        """Let an answer wait for the last gathered entry; False when nothing is gathered."""
        if not self._entries:
            return False
        self._entries[-1].waiters.append(Waiter(answer, reply, 0))
        self.waiters += 1
        return True

    def take(self, bytes_max: int) -> list[GatheredEntry]:
        """The oldest entries: at least one if there is any, then up to `bytes_max` bytes."""
        size = count = waiters = 0
        for entry in self._entries:
            size += entry.size
            if count and size > bytes_max:
                break
            count += 1
            waiters += len(entry.waiters)
        taken, self._entries = self._entries[:count], self._entries[count:]
        self.waiters -= waiters
        return taken


__all__ = ["Answer", "Batcher", "GatheredEntry", "Plan", "Promise", "Waiter"]
