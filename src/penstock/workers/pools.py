"""Workers that are reserved: so that much of one kind cannot keep another kind waiting.

A pool is a number of workers and what they take. Bulk work that fills its own pool leaves the
workers of the other one free:

    pools={
        "high": Pool(priorities=range(7, 10), workers=4),
        "bulk": Pool(workers=6),
    }

What several pools take belongs to the first of them, and the others help when they are idle: here
bulk workers take high messages too, never the other way round. Pools also divide several queues,
the first of which is the most urgent ("tiers"):

    @app.worker(["orders-high", "orders", "orders-low"], pools={
        "high": Pool(queues=["orders-high"], workers=2),
        "rest": Pool(workers=8),
    })

A *level* is a queue's place in the list and a priority in one number, the lower the sooner. Workers
take the lowest level they accept that has something. Every level must have a pool that takes it:
a level without a pool would wait for ever, so it is refused when the worker is declared.

With priorities in one queue there is a price. The broker hands out what is next and cannot be asked
for high ones only; so while the bulk pool is full, the worker looks now and then whether a high one
has come, and gives back, uncounted, what it cannot place. Separate queues need no such looking.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from penstock.core.errors import InvalidRequest
from penstock.core.queue_rules import PRIORITIES
from penstock.workers.scale import WORKERS_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class Pool:
    """A number of workers reserved for some priorities or queues; by default for all of them."""

    workers: int
    priorities: Container[int] | None = None
    queues: Sequence[str] | None = None


SUSPECTS = -1
"""The level of messages that may be poison: all workers take them, before anything else."""


def level_of(queue_index: int, priority: int) -> int:
    """Combine queue and priority into one number; lower is sooner."""
    return queue_index * PRIORITIES + (PRIORITIES - 1 - priority)


class Layout:
    """The assignment of levels to pools."""

    def __init__(self, queues: Sequence[str], pools: Mapping[str, Pool]) -> None:
        self.pools = dict(pools)
        for name, pool in pools.items():
            if not 1 <= pool.workers <= WORKERS_MAX:
                raise InvalidRequest(f"pool {name} cannot have {pool.workers} workers")
            if unknown := [queue for queue in pool.queues or () if queue not in queues]:
                raise InvalidRequest(
                    f"pool {name} names queue {unknown[0]}, which this worker does not take from;"
                    f" it takes from {', '.join(queues)}"
                )
        self._taken: dict[str, frozenset[int]] = {
            name: frozenset(_levels(queues, pool)) for name, pool in pools.items()
        }
        self._homes: dict[int, str] = {}
        for index, queue in enumerate(queues):
            for priority in range(PRIORITIES):
                level = level_of(index, priority)
                home = next((name for name, taken in self._taken.items() if level in taken), None)
                if home is None:
                    raise InvalidRequest(
                        f"no pool takes messages of priority {priority} from queue {queue}; add a"
                        " pool that takes the rest, such as Pool(workers=2)"
                    )
                self._homes[level] = home

    def accepts(self, pool: str, level: int) -> bool:
        """True if workers of a pool may process this level."""
        return level == SUSPECTS or level in self._taken[pool]

    def home_of(self, level: int) -> str:
        """The pool whose capacity messages of this level use; suspects use none."""
        return self._homes.get(level, "")

    def homes_of(self, queue_index: int) -> list[str]:
        """The pools that messages of a queue may belong to."""
        first = queue_index * PRIORITIES
        found = {self._homes[level]: None for level in range(first, first + PRIORITIES)}
        return list(found)


def _levels(queues: Sequence[str], pool: Pool) -> list[int]:
    return [
        level_of(index, priority)
        for index, queue in enumerate(queues)
        if pool.queues is None or queue in pool.queues
        for priority in range(PRIORITIES)
        if pool.priorities is None or priority in pool.priorities
    ]
