"""The options of a worker function."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from penstock.client.database import Connection
from penstock.client.guarantees import Guarantee
from penstock.client.processed_ids import ProcessedStore
from penstock.client.queue_admin import QueueOptions
from penstock.core.errors import InvalidRequest
from penstock.core.limits import LEASE_MS_MAX
from penstock.workers.breaker import CircuitBreaker
from penstock.workers.pools import Layout, Pool
from penstock.workers.retry import Retry
from penstock.workers.scale import WORKERS_MAX, Scaling

CONCURRENCY = 10
PREFETCH_PER_WORKER = 4
"""Messages that lie ready for each worker: enough that it never waits for the network, and few
enough that other processes get their part."""
PREFETCH_MAX = 10_000
TIMEOUT_SECONDS = LEASE_MS_MAX / 1_000
"""Twelve hours: the broker ends leases after that time as well."""
POISON_AFTER = 3
POOL = "workers"


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerOptions:
    """See `App.worker`, which says what each of them means."""

    queues: Sequence[str]
    group: str = "queue"
    concurrency: int = CONCURRENCY
    codec: object | None = None
    lease: float | None = None
    timeout: float = TIMEOUT_SECONDS
    prefetch: int | None = None
    retry: Retry | None = None
    breaker: CircuitBreaker | None = None
    guarantee: Guarantee = Guarantee.AT_LEAST_ONCE
    processed: ProcessedStore[Connection] | None = None
    pools: Mapping[str, Pool] = field(default_factory=dict)
    scaling: Scaling | None = None
    poison_after: int | None = POISON_AFTER
    create: QueueOptions | None = None
    takes_transaction: bool = False
    """The function takes a context: the only option that a parameter declares."""

    def __post_init__(self) -> None:
        if not self.queues or len(set(self.queues)) != len(self.queues):
            raise InvalidRequest(f"a worker needs queues, each named once: {list(self.queues)}")
        if not 1 <= self.concurrency <= WORKERS_MAX:
            raise InvalidRequest(
                f"concurrency is {self.concurrency}, and goes from 1 to {WORKERS_MAX}"
            )
        if self.prefetch is not None and not 1 <= self.prefetch <= PREFETCH_MAX:
            raise InvalidRequest(f"prefetch is {self.prefetch}, and goes from 1 to {PREFETCH_MAX}")
        if self.timeout <= 0:
            raise InvalidRequest(f"a timeout of {self.timeout} s leaves no time to work")
        if self.pools and self.scaling is not None:
            raise InvalidRequest(
                "pools have a fixed number of workers each, so scaling cannot be given with them;"
                " declare one worker per queue and scale each"
            )
        if self.guarantee is Guarantee.EXACTLY_ONCE and self.processed is None:
            raise InvalidRequest(
                "exactly once needs a store of processed ids beside your data, such as"
                ' processed=SqliteProcessed("orders.db")'
            )
        if self.takes_transaction and self.processed is None:
            raise InvalidRequest(
                "a worker that takes a transaction needs a store of processed ids to begin it:"
                ' processed=SqliteProcessed("orders.db"), of the worker or of the application'
            )
        if self.guarantee is Guarantee.AT_MOST_ONCE and self.processed is not None:
            raise InvalidRequest(
                "at most once acknowledges before it works, so a store of processed ids is of no"
                " use with it"
            )

    def layout(self) -> Layout:
        """The pools: those that were declared, or one of all workers."""
        count = self.concurrency if self.scaling is None else self.scaling.minimum
        return Layout(self.queues, self.pools or {POOL: Pool(workers=count)})

    @property
    def workers_max(self) -> int:
        """The largest number of workers."""
        if self.pools:
            return sum(pool.workers for pool in self.pools.values())
        return self.concurrency if self.scaling is None else self.scaling.maximum
