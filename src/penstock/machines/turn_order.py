"""The delivery order of a work group: which ready message is next.

Two orders share one interface. They hold offsets and nothing that cannot be found out again from
the runs, so they are not in snapshots.

    UnorderedTurns    standard queues: by offset. Message groups are tenants: the tenant with the
                      fewest leased messages is next, so that a tenant that sends much delays only
                      itself.
    FifoOrder         FIFO queues: a queue per message group. A group goes on when none of its
                      messages is leased; a head that is delayed blocks the messages behind it.

A message whose delivery came to nothing does not keep its place: it goes behind all that were there
at that moment (`Run.turn`), so that one that always fails cannot be received again and again while
others wait. In a FIFO queue that is the place of its group among the groups.

Within an order there are levels, one per priority. A level is chosen by `Turns`: the highest that
has something, or, weighted, each as often as its weight says and none never.

Heaps are corrected when they are looked at: an entry may be out of date, it is never missing. Who
is next therefore follows from the runs alone, whatever happened before. Heaps that are not read are
rebuilt when they have grown to a multiple of the runs.
"""

from collections import deque
from collections.abc import Mapping, MutableMapping
from heapq import heappop, heappush
from typing import Protocol

from penstock.core.queue_rules import DEFAULT_PRIORITY, PRIORITIES, Priorities
from penstock.core.types import Offset
from penstock.machines.run import Run, State

_SLACK = 64

Turn = tuple[int, int, int]
"""See `Run.turn`; the last is the run's offset."""


class Order(Protocol):
    """What a work group tells its order, and asks of it."""

    def came(self, run: Run) -> None:
        """A run has come to life, in any state but DEAD."""
        ...

    def readied(self, run: Run) -> None:
        """A living run can be delivered (again)."""
        ...

    def leased(self, run: Run) -> None:
        """A ready run has been leased."""
        ...

    def returned(self, run: Run) -> None:
        """A leased run is leased no more; what it is now, its state says. Called before `readied`
        or `left`."""
        ...

    def left(self, run: Run) -> None:
        """A run is dealt with, or dead: it is not delivered any more."""
        ...

    def was_split(self, run: Run, rest: Run) -> None:
        """`rest` was the end of `run`."""
        ...

    def is_held(self, run: Run) -> bool:
        """Whether it must wait because another message of its group is leased."""
        ...

    def levels(self, cursor: Offset | None) -> list[int]:
        """Levels that have something to deliver, the highest first. `cursor` is the first message
        that was never looked at, which stands at the default level; None if there is none."""
        ...

    def take(self, level: int, messages_max: int, cursor: Offset | None) -> list[Run] | None:
        """The next runs of a level, ready, in order, the last perhaps longer than asked for; or
        None: the message at the cursor is next."""
        ...


class UnorderedTurns:
    """The order of a standard queue."""

    __slots__ = ("_choices", "_heaps", "_leased", "_pushed", "_runs")

    def __init__(self, runs: Mapping[Offset, Run]) -> None:
        self._runs = runs
        self._heaps: list[dict[bytes | None, list[Turn]]] = []
        self._choices: list[list[tuple[int, Turn, bytes]]] = []
        self._leased: dict[bytes | None, int] = {}
        self._clear()

    def _clear(self) -> None:
        self._heaps = [{} for _ in range(PRIORITIES)]
        self._choices = [[] for _ in range(PRIORITIES)]
        self._pushed = 0

    def came(self, run: Run) -> None:
        if run.state is State.READY:
            self.readied(run)
        elif run.state is State.LEASED:
            self.leased(run)

    def readied(self, run: Run) -> None:
        if self._pushed > _SLACK + 4 * len(self._runs):
            self._clear()
            for one in self._runs.values():
                if one.state is State.READY:
                    self.readied(one)
        heap = self._heaps[run.level].setdefault(run.message_group, [])
        at_ms, first = run.at_ms, run.first
        turn = at_ms if at_ms >= 0 else first, run.epoch, first  # `Run.turn`, without a call.
        heappush(heap, turn)
        self._pushed += 1
        if run.message_group is not None and heap[0] == turn:
            self._offer(run.level, run.message_group, turn)

    def leased(self, run: Run) -> None:
        self._leased[run.message_group] = self._leased.get(run.message_group, 0) + run.length

    def returned(self, run: Run) -> None:
        left = self._leased[run.message_group] - run.length
        if left:
            self._leased[run.message_group] = left
        else:
            del self._leased[run.message_group]
        if run.message_group is not None:
            for level, heaps in enumerate(self._heaps):
                if heap := heaps.get(run.message_group):
                    self._offer(level, run.message_group, heap[0])

    def left(self, run: Run) -> None:
        """Its entry is found to be out of date when its turn comes."""

    def was_split(self, run: Run, rest: Run) -> None:  # noqa: ARG002
        if rest.state is State.READY:
            self.readied(rest)

    def is_held(self, run: Run) -> bool:  # noqa: ARG002
        return False

    def levels(self, cursor: Offset | None) -> list[int]:
        heaps = self._heaps
        found = [
            level
            for level in range(PRIORITIES - 1, -1, -1)
            if heaps[level] and self._has_any(level)
        ]
        if cursor is not None and DEFAULT_PRIORITY not in found:
            found.append(DEFAULT_PRIORITY)
            found.sort(reverse=True)
        return found

    def _has_any(self, level: int) -> bool:
        heaps = self._heaps[level]
        while heaps:
            if self._head(level, next(iter(heaps))) is not None:
                return True
        return False

    def take(
        self,
        level: int,
        messages_max: int,  # noqa: ARG002
        cursor: Offset | None,
    ) -> list[Run] | None:
        head = self._head(level, None)
        loose, is_cursor = head, False
        if level == DEFAULT_PRIORITY and cursor is not None and (head is None or cursor < head[0]):
            loose, is_cursor = (int(cursor), 0, int(cursor)), True
        tenant = self._next_tenant(level)
        if tenant is not None and loose is not None:
            leased, turn, _ = tenant
            if (self._leased.get(None, 0), loose) < (leased, turn):
                tenant = None
        if tenant is None:
            if is_cursor:
                return None
            if loose is None:
                return []
            heappop(self._heaps[level][None])
            return [self._runs[Offset(loose[2])]]
        leased, turn, message_group = tenant
        heappop(self._choices[level])
        heap = self._heaps[level][message_group]
        heappop(heap)
        # One tenant after the other, message by message. An entry may come too early, which is
        # found out when it is looked at, and never too late: what is taken may yet be expired.
        following = self._head(level, message_group)
        if following is not None:
            heappush(self._choices[level], (leased, following, message_group))
        return [self._runs[Offset(turn[2])]]

    def _head(self, level: int, message_group: bytes | None) -> Turn | None:
        """The first message of a lane that is ready; None if none is."""
        heap = self._heaps[level].get(message_group)
        if heap is None:
            return None
        while heap:
            turn = heap[0]
            run = self._runs.get(Offset(turn[2]))
            if (
                run is not None
                and run.state is State.READY
                and run.message_group == message_group
                and run.level == level
                and run.epoch == turn[1]
                and (run.at_ms if run.at_ms >= 0 else run.first) == turn[0]
            ):
                return turn
            heappop(heap)
        del self._heaps[level][message_group]
        return None

    def _next_tenant(self, level: int) -> tuple[int, Turn, bytes] | None:
        choices = self._choices[level]
        while choices:
            leased, turn, message_group = choices[0]
            head = self._head(level, message_group)
            now = self._leased.get(message_group, 0)
            if head == turn and now == leased:
                return choices[0]
            heappop(choices)
            if head is not None:
                heappush(choices, (now, head, message_group))
        return None

    def _offer(self, level: int, message_group: bytes, turn: Turn) -> None:
        heappush(self._choices[level], (self._leased.get(message_group, 0), turn, message_group))
        self._pushed += 1


class _GroupQueue:
    """The living messages of one group, in order. Those that are leased are at the front."""

    __slots__ = ("firsts", "leased", "message_group")

    def __init__(self, message_group: bytes) -> None:
        self.message_group = message_group
        self.firsts: deque[Offset] = deque()
        self.leased = 0


class FifoOrder:
    """The order of a FIFO queue. Its runs are single messages."""

    __slots__ = ("_heads", "_pushed", "_queues", "_runs")

    def __init__(self, runs: Mapping[Offset, Run]) -> None:
        self._runs = runs
        self._queues: dict[bytes, _GroupQueue] = {}
        self._heads: list[list[tuple[int, int, Offset, bytes]]] = [[] for _ in range(PRIORITIES)]
        self._pushed = 0

    def came(self, run: Run) -> None:
        assert run.length == 1, f"{run} stands in a line"
        message_group = run.message_group or b""
        queue = self._queues.get(message_group)
        if queue is None:
            queue = self._queues[message_group] = _GroupQueue(message_group)
        run.message_group = queue.message_group  # One name for all, not one each.
        firsts = queue.firsts
        if not firsts or firsts[-1] < run.first:
            firsts.append(run.first)
        else:  # Brought back from the dead.
            at = sum(1 for one in firsts if one < run.first)
            firsts.insert(at, run.first)
        if run.state is State.LEASED:
            queue.leased += 1
        if firsts[0] == run.first:
            self._offer(message_group, queue)

    def readied(self, run: Run) -> None:
        message_group = run.message_group or b""
        queue = self._queues[message_group]
        if queue.firsts[0] == run.first:
            self._offer(message_group, queue)

    def leased(self, run: Run) -> None:
        self._queues[run.message_group or b""].leased += 1

    def returned(self, run: Run) -> None:
        message_group = run.message_group or b""
        queue = self._queues[message_group]
        queue.leased -= 1
        self._offer(message_group, queue)

    def left(self, run: Run) -> None:
        message_group = run.message_group or b""
        queue = self._queues[message_group]
        queue.firsts.remove(run.first)
        if queue.firsts:
            self._offer(message_group, queue)
        else:
            del self._queues[message_group]

    def was_split(self, run: Run, rest: Run) -> None:  # noqa: ARG002
        raise AssertionError(f"{run} stood in a line")

    def is_held(self, run: Run) -> bool:
        return self._queues[run.message_group or b""].leased > 0

    def levels(self, cursor: Offset | None) -> list[int]:
        assert cursor is None, "a FIFO queue has looked at all its messages"
        return [level for level in range(PRIORITIES - 1, -1, -1) if self._next(level) is not None]

    def take(
        self,
        level: int,
        messages_max: int,
        cursor: Offset | None,  # noqa: ARG002
    ) -> list[Run] | None:
        message_group = self._next(level)
        if message_group is None:
            return []
        heappop(self._heads[level])
        taken: list[Run] = []
        for first in self._queues[message_group].firsts:
            run = self._runs[first]
            if run.state is not State.READY or len(taken) == messages_max:
                break
            taken.append(run)
        return taken

    def _offer(self, message_group: bytes, queue: _GroupQueue) -> None:
        self._pushed += 1
        if self._pushed > _SLACK + 4 * len(self._runs):
            self._pushed = 0
            self._heads = [[] for _ in range(PRIORITIES)]
            for name, other in self._queues.items():
                self._push(name, other)
        self._push(message_group, queue)

    def _push(self, message_group: bytes, queue: _GroupQueue) -> None:
        if queue.leased == 0 and queue.firsts:
            head = self._runs[queue.firsts[0]]
            if head.state is State.READY:
                at_ms, first = head.at_ms, head.first
                place = at_ms if at_ms >= 0 else first
                heappush(self._heads[head.level], (place, head.epoch, first, message_group))

    def _next(self, level: int) -> bytes | None:
        heads = self._heads[level]
        while heads:
            place, epoch, first, message_group = heads[0]
            queue = self._queues.get(message_group)
            if queue is not None and queue.leased == 0 and queue.firsts[0] == first:
                head = self._runs[first]
                if (
                    head.state is State.READY
                    and head.level == level
                    and head.epoch == epoch
                    and (head.at_ms if head.at_ms >= 0 else first) == place
                ):
                    return message_group
            heappop(heads)
        return None


class Turns:
    """Which priority is next. Credits are state: what was owed before a snapshot is owed after."""

    __slots__ = ("credits",)

    def __init__(self, owed: list[int] | None = None) -> None:
        self.credits = owed or [0] * PRIORITIES

    def choose(self, levels: list[int], mode: Priorities) -> int:
        """One of these levels, which are sorted, the highest first."""
        if mode is not Priorities.WEIGHTED or len(levels) == 1:
            return levels[0]
        for level in levels:
            self.credits[level] += level + 1
        chosen = max(levels, key=lambda level: (self.credits[level], level))
        self.credits[chosen] -= sum(level + 1 for level in levels)
        return chosen


def make_order(runs: MutableMapping[Offset, Run], *, fifo: bool) -> Order:
    """The order of these runs, which are all there."""
    order: Order = FifoOrder(runs) if fifo else UnorderedTurns(runs)
    for run in runs.values():
        if run.state is not State.DEAD:
            order.came(run)
    return order
