"""Requests between proposal and answer.

Each proposed entry has the waiters of the requests it carries, filed under its index together
with the term it was proposed in. When that index is applied, the term tells whether it is the
same entry: if another leader's entry took the place, ours was never committed. When leadership
ends first, the outcome is unknown and is reported as just that: the new leader may or may not
hold the entry.

A request may ask for less than that (`Promise`): its answer comes as soon as this node's own disk,
or only its operating system, has the entry. Such an answer is given once; what becomes of the entry
later is not reported.
"""

from collections import deque
from collections.abc import Callable

import msgspec

from penstock.core.entries import Entry
from penstock.core.errors import NotLeader, OutcomeUnknown, PenstockError
from penstock.core.spans import Spans
from penstock.core.types import Index, Term
from penstock.engine.replica.batcher import Answer, GatheredEntry, Promise, Waiter
from penstock.machines.machine import Reply


class Proposed(msgspec.Struct, frozen=True):
    """The waiters of one proposed entry."""

    index: Index
    term: Term
    waiters: list[Waiter]


class Proposals:
    """What this leader has proposed and not yet applied, oldest first."""

    def __init__(self) -> None:
        self._proposed: deque[Proposed] = deque()
        self.bytes = 0
        self.waiters = 0
        self.early = 0
        """How many groups of waiters are answered before a commit."""
        self._early: dict[Promise, deque[tuple[Index, list[Waiter]]]] = {
            Promise.DURABLE: deque(),
            Promise.WRITTEN: deque(),
        }

    def __len__(self) -> int:
        return len(self._proposed)

    @property
    def awaits_writing(self) -> bool:
        """Some proposal is answered as soon as the bytes are written."""
        return bool(self.early and self._early[Promise.WRITTEN])

    def file(self, first: Index, term: Term, entries: list[GatheredEntry]) -> None:
        """Note the waiters of entries that were proposed from index `first` on."""
        for number, entry in enumerate(entries):
            index = Index(first + number)
            self._proposed.append(Proposed(index, term, entry.waiters))
            early = False
            for waiter in entry.waiters:
                self.bytes += waiter.size
                early = early or waiter.promise is not Promise.COMMITTED
            if early:
                self._file_early(index, entry.waiters)
            self.waiters += len(entry.waiters)

    def _file_early(self, index: Index, waiters: list[Waiter]) -> None:
        for promise, queue in self._early.items():
            early = [waiter for waiter in waiters if waiter.promise is promise]
            if early:
                queue.append((index, early))
                self.early += 1

    def reached(self, promise: Promise, index: Index) -> None:
        """This node has written, or made durable, everything up to `index`."""
        queue = self._early[promise]
        while queue and queue[0][0] <= index:
            self.early -= 1
            for waiter in queue.popleft()[1]:
                assert waiter.reply is not None, "only appends are answered early"
                waiter.answer(waiter.reply)

    def file_one(self, index: Index, term: Term, reply: Reply, answer: Answer) -> None:
        """Note who waits for a single entry that was not gathered."""
        self._proposed.append(Proposed(index, term, [Waiter(answer, reply, 0)]))
        self.waiters += 1

    def ride(self, reply: Reply | PenstockError, answer: Answer) -> bool:
        """Let an answer wait for the last proposed entry; False when there is none."""
        if not self._proposed:
            return False
        self._proposed[-1].waiters.append(Waiter(answer, reply, 0))
        self.waiters += 1
        return True

    def applied(self, entry: Entry, replies: tuple[Reply, ...]) -> None:
        """Answer the proposals of this entry."""
        while self._proposed and self._proposed[0].index <= entry.index:
            proposed = self._proposed.popleft()
            self.waiters -= len(proposed.waiters)
            same = proposed.index == entry.index and proposed.term == entry.term
            for waiter in proposed.waiters:
                self.bytes -= waiter.size
                if waiter.promise is not Promise.COMMITTED:
                    continue  # Answered when this node had it: before it was applied.
                if not same:
                    waiter.answer(NotLeader("another leader's entry took this one's place"))
                elif waiter.reply is not None:
                    waiter.answer(waiter.reply)
                else:
                    waiter.answer(replies[0])

    def abandon(self, reason: str) -> None:
        """Leadership is over: the outcome of these is unknown."""
        proposed, self._proposed = self._proposed, deque()
        self.bytes = self.waiters = 0
        for one in proposed:
            for waiter in one.waiters:
                if waiter.promise is Promise.COMMITTED:
                    waiter.answer(OutcomeUnknown(reason))
        for queue in self._early.values():
            for _, waiters in queue:
                for waiter in waiters:
                    waiter.answer(OutcomeUnknown(reason))
            queue.clear()
        self.early = 0


class CommitTimes:
    """How long proposals take until they are committed and applied, on the node that leads a shard.

    Entries that are proposed together are measured together: a busy shard costs no more than an
    idle one."""

    def __init__(self, seconds: Callable[[], float]) -> None:
        self.spans = Spans()
        self._seconds = seconds
        self._under_way: deque[tuple[Index, float]] = deque()

    def proposed(self, last: Index) -> None:
        """Entries up to this one were proposed."""
        self._under_way.append((last, self._seconds()))

    def applied(self, index: Index) -> None:
        """Entries up to this one are committed and applied."""
        under_way = self._under_way
        while under_way and under_way[0][0] <= index:
            self.spans.note(under_way.popleft()[1], self._seconds())

    def forget(self) -> None:
        """Leadership is over: when, or whether, these are committed is unknown."""
        self._under_way.clear()
