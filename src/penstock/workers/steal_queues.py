"""Work-stealing queues: every worker has a queue of its own, and an idle worker steals.

Messages that were received together are spread over the queues of the workers, a small deque each.
A worker takes from the front of its own queue; a worker whose queue is empty steals from the back
of the longest one. So a slow message delays only the worker that has it: the messages behind it are
stolen by workers that are faster. Nothing here waits or knows the event loop; `put` returns which
worker to wake.

    put ──► idle worker's queue, or the next one's in turn
    take ◄── own queue first, else the end of the longest that the worker may take from

Levels. A level is a number, the lower the sooner: of all levels a worker may work on, the lowest
that has a message in any queue comes first. A reserved worker accepts only some levels, and is
never busy with others.

Message groups. Messages of one group are never worked on by two workers at once, and are worked on
in the order in which they came: they lie together as one parcel, which moves as a whole. While a
worker has one of a parcel's messages, the parcel is in no queue; afterwards the rest goes to the
end of that worker's queue, so that a long group does not delay the others. The broker leases the
messages of a message group to one receiver at a time, but several of them at once: without parcels,
stealing would give them to two workers.
"""

from collections import deque
from collections.abc import Callable, Iterator
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")

Accepts = Callable[[int], bool]


class Stolen(NamedTuple, Generic[T]):
    """An item that a worker holds."""

    item: T
    level: int
    message_group: object | None
    stolen: bool


class _Parcel(Generic[T]):
    """One message, or the messages of one group."""

    __slots__ = ("items", "level", "message_group")

    def __init__(self, level: int, message_group: object | None) -> None:
        self.level = level
        self.message_group = message_group
        self.items: deque[T] = deque()


class _WorkerQueue(Generic[T]):
    """The items ready for one worker, by level."""

    __slots__ = ("accepts", "held", "levels", "size")

    def __init__(self, accepts: Accepts) -> None:
        self.accepts = accepts
        self.levels: dict[int, deque[_Parcel[T]]] = {}
        self.size = 0
        self.held: _Parcel[T] | None = None
        """The parcel of the group whose first message this worker holds."""

    def add(self, parcel: _Parcel[T]) -> None:
        self.levels.setdefault(parcel.level, deque()).append(parcel)
        self.size += 1

    def pop(self, level: int, *, last: bool) -> _Parcel[T]:
        parcels = self.levels[level]
        parcel = parcels.pop() if last else parcels.popleft()
        if not parcels:
            del self.levels[level]
        self.size -= 1
        return parcel


class StealQueues(Generic[T]):
    """See the top of this module. Workers are numbers that the caller assigns."""

    def __init__(self) -> None:
        self._shares: dict[int, _WorkerQueue[T]] = {}
        self._message_groups: dict[object, _Parcel[T]] = {}
        self._idle: dict[int, None] = {}
        self._turn = 0
        self._waiting: dict[int, int] = {}
        """Messages that lie ready, by level."""
        self._ready: dict[int, int] = {}
        """Parcels in the queue of some worker, by level."""
        self._able: dict[int, list[int]] = {}
        """The workers that accept a level; worked out when it is first asked for."""

    def join(self, worker: int, accepts: Accepts = lambda _level: True) -> None:
        """Add a worker, which is idle."""
        assert worker not in self._shares, f"worker {worker} is here already"
        self._shares[worker] = _WorkerQueue(accepts)
        self._idle[worker] = None
        self._able.clear()

    def leave(self, worker: int) -> list[int]:
        """A worker, with nothing in its hand, ends; returns who got its share."""
        share = self._shares.pop(worker)
        assert share.held is None, f"worker {worker} still works on {share.held}"
        self._idle.pop(worker, None)
        self._able.clear()
        woken = []
        for parcels in share.levels.values():
            for parcel in parcels:
                self._ready[parcel.level] -= 1
                heir = self._choose(parcel.level)
                assert heir is not None, f"no worker is left for level {parcel.level}"
                self._add(heir, parcel)
                woken.append(heir)
        return woken

    def put(self, item: T, *, level: int = 0, message_group: object | None = None) -> int | None:
        """Add an item; returns the worker to wake, or None if none is idle."""
        parcel = self._message_groups.get(message_group) if message_group is not None else None
        self._waiting[level] = self._waiting.get(level, 0) + 1
        if parcel is not None:
            parcel.items.append(item)
            if parcel.level != level:
                self._waiting[level] -= 1
                self._waiting[parcel.level] = self._waiting.get(parcel.level, 0) + 1
            return None
        parcel = _Parcel(level, message_group)
        parcel.items.append(item)
        if message_group is not None:
            self._message_groups[message_group] = parcel
        worker = self._choose(level)
        assert worker is not None, f"no worker takes messages of level {level}"
        self._add(worker, parcel)
        return worker

    def take(self, worker: int) -> Stolen[T] | None:
        """The next thing for a worker to do; None, and it counts as idle, if there is nothing."""
        own = self._shares[worker]
        assert own.held is None, f"worker {worker} has not finished {own.held}"
        ready = (level for level, count in self._ready.items() if count and own.accepts(level))
        level = min(ready, default=None)
        if level is None:
            self._idle[worker] = None
            return None
        self._idle.pop(worker, None)
        stolen = level not in own.levels
        if stolen:
            victims = [share for share in self._shares.values() if level in share.levels]
            parcel = max(victims, key=lambda share: share.size).pop(level, last=True)
        else:
            parcel = own.pop(level, last=False)
        self._ready[level] -= 1
        self._waiting[level] -= 1
        if parcel.message_group is not None:
            own.held = parcel
        return Stolen(parcel.items.popleft(), level, parcel.message_group, stolen)

    def finish(self, worker: int) -> int | None:
        """A worker has nothing in its hand any more; returns who is to be woken for the rest of
        the group, which is the worker itself."""
        share = self._shares[worker]
        parcel, share.held = share.held, None
        if parcel is None:
            return None
        if not parcel.items:
            del self._message_groups[parcel.message_group]
            return None
        self._add(worker, parcel)
        return worker

    def take_message_group(self, message_group: object) -> list[T]:
        """Remove and return all items of a message group that no worker has taken."""
        parcel = self._message_groups.get(message_group)
        if parcel is None:
            return []
        items = list(parcel.items)
        parcel.items.clear()
        self._waiting[parcel.level] -= len(items)
        for share in self._shares.values():
            parcels = share.levels.get(parcel.level)
            if parcels is not None and parcel in parcels:
                parcels.remove(parcel)
                share.size -= 1
                self._ready[parcel.level] -= 1
                if not parcels:
                    del share.levels[parcel.level]
                del self._message_groups[message_group]
        return items

    def take_all(self) -> list[T]:
        """Remove and return all items that no worker has taken; ordered only within each group."""
        items = [item for parcel in self._parcels() for item in parcel.items]
        for share in self._shares.values():
            share.levels.clear()
            share.size = 0
        self._waiting.clear()
        self._ready.clear()
        held = {
            share.held.message_group: share.held for share in self._shares.values() if share.held
        }
        for parcel in held.values():
            items += parcel.items
            parcel.items.clear()
        self._message_groups = held
        return items

    def waiting(self, accepts: Accepts = lambda _level: True) -> int:
        """The number of items that are ready on these levels."""
        return sum(count for level, count in self._waiting.items() if count and accepts(level))

    @property
    def idle(self) -> int:
        """The number of idle workers."""
        return len(self._idle)

    def _add(self, worker: int, parcel: _Parcel[T]) -> None:
        self._shares[worker].add(parcel)
        self._ready[parcel.level] = self._ready.get(parcel.level, 0) + 1

    def _parcels(self) -> Iterator[_Parcel[T]]:
        for share in self._shares.values():
            for parcels in share.levels.values():
                yield from parcels

    def _choose(self, level: int) -> int | None:
        """An idle worker, or the next one in turn."""
        for worker in self._idle:
            if self._shares[worker].accepts(level):
                del self._idle[worker]
                return worker
        able = self._able.get(level)
        if able is None:
            able = [worker for worker, share in self._shares.items() if share.accepts(level)]
            self._able[level] = able
        if not able:
            return None
        self._turn += 1
        return able[self._turn % len(able)]
