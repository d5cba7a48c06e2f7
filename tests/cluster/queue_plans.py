"""Which queues there are in a run, and what is sent to them.

    tasks           standard; some messages are poison, which no worker can do: dead letters
    orders.fifo     FIFO, in groups, with ids that are remembered for seconds; some sent twice
    later           every message is delayed
    urgent          the most important one first

Dead-letter queues are queues like others, with workers of their own.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from crc32c import crc32c

from tests.cluster.queue_facts import Promises

DELIVERIES_MAX = 4
POISON_OF = 16
"""Every so-maniest message can never be done."""
DEDUP_WINDOW_MS = 4_000


@dataclass(frozen=True, kw_only=True)
class Plan:
    """One queue."""

    name: str
    promises: Promises = field(default_factory=Promises)
    settings: Mapping[str, object] = field(default_factory=dict)
    """As the HTTP interface calls them."""
    groups: int = 0
    """How many message groups its messages are in."""
    delay_seconds: tuple[int, int] = (0, 0)
    """Between these every message is delayed."""
    priorities: int = 0
    """How many there are in use."""
    again: float = 0.0
    """Which share of its messages is sent a second time, with the same id."""
    per_second: float = 0.0
    workers: int = 1
    receive_max: int = 10
    """How many messages a worker asks for: of few it is seen which come first."""

    def is_poison(self, value: str) -> bool:
        """No worker can ever do this."""
        return self.promises.deliveries_max > 0 and crc32c(value.encode()) % POISON_OF == 0


def _dead_letters(name: str, **settings: object) -> tuple[Promises, dict[str, object]]:
    promises = Promises(
        fifo=settings.get("order") == "fifo",
        deliveries_max=DELIVERIES_MAX,
        dead_letters=name,
        dedup_window_ms=DEDUP_WINDOW_MS if "deduplication" in settings else 0,
    )
    return promises, {
        **settings,
        "deliveries_max": DELIVERIES_MAX,
        "dead_letter_topic": name,
        "dead_letter_policy": "move",
    }


_TASKS, _TASK_SETTINGS = _dead_letters("tasks-dead")
_ORDERS, _ORDER_SETTINGS = _dead_letters(
    "orders-dead.fifo",
    order="fifo",
    deduplication="id",
    deduplication_window_ms=DEDUP_WINDOW_MS,
)
PLANS = (
    Plan(name="tasks", promises=_TASKS, settings=_TASK_SETTINGS, per_second=60, workers=4),
    Plan(name="tasks-dead"),
    Plan(
        name="orders.fifo",
        promises=_ORDERS,
        settings=_ORDER_SETTINGS,
        groups=12,
        again=0.2,
        per_second=20,
        workers=3,
    ),
    Plan(name="orders-dead.fifo", settings={"order": "fifo"}),
    Plan(name="later", delay_seconds=(1, 3), per_second=15),
    Plan(
        name="urgent",
        promises=Promises(strict_priority=True),
        settings={"priority": "strict"},
        priorities=4,
        per_second=15,
        receive_max=2,
    ),
)
