"""What the counters of queues grew by within the last minute.

Rates are Prometheus' own business, and it works them out better. This is for boards that expect a
rate by name: a few earlier readings are kept, and the oldest that is not older than a minute or so
is what the present one is compared with. However many read the page, the window stays the same.
"""

from collections import deque
from collections.abc import Mapping
from typing import Final

import msgspec

from penstock.core.histogram import HistogramReading
from penstock.machines.activity import ERROR_TYPES

WINDOW_SECONDS: Final = 60.0
NO_FAILURES: Final = (0,) * len(ERROR_TYPES)
APART_SECONDS: Final = 15.0
"""Earlier readings are at least so far apart: five of them make a window."""


class QueueCounters(msgspec.Struct, frozen=True):
    """What only grows, of one queue on this node."""

    produced: int = 0
    delivered: int = 0
    acked: int = 0
    failures: tuple[int, ...] = NO_FAILURES
    """In the order of `ERROR_TYPES`."""
    times: HistogramReading | None = None
    batches: int = 0


class QueueRates(msgspec.Struct, frozen=True):
    """What became of it in a minute."""

    enqueued: float
    dequeued: float
    error_rate: float
    """Of the deliveries that came to an end, the share that failed."""
    error_rates: Mapping[str, float]
    """The same by how they failed; what did not occur is left out."""
    batch_size: float | None
    """Messages of a batch; None if nothing was appended."""
    latency_p95: float | None
    """In seconds; None if nothing was done."""


class LastMinute:
    """For one node."""

    def __init__(self, now: float) -> None:
        self._earlier: deque[tuple[float, Mapping[str, QueueCounters]]] = deque([(now, {})])

    def rates(self, now: float, counters: Mapping[str, QueueCounters]) -> dict[str, QueueRates]:
        """The rates of queues, given their counters now, in seconds of one clock."""
        earlier = self._earlier
        while len(earlier) > 1 and now - earlier[1][0] >= WINDOW_SECONDS:
            earlier.popleft()
        then, before = earlier[0]
        if now - earlier[-1][0] >= APART_SECONDS:
            earlier.append((now, counters))
        seconds = max(now - then, 1.0)
        return {
            name: _rates(one, before.get(name, QueueCounters()), seconds)
            for name, one in counters.items()
        }


def _rates(now: QueueCounters, then: QueueCounters, seconds: float) -> QueueRates:
    acked = now.acked - then.acked
    failures = [one - before for one, before in zip(now.failures, then.failures, strict=True)]
    failed = sum(failures)
    produced, batches = now.produced - then.produced, now.batches - then.batches
    times = None if now.times is None else now.times.since(then.times)
    return QueueRates(
        enqueued=max(0.0, produced / seconds),
        dequeued=max(0.0, (now.delivered - then.delivered) / seconds),
        error_rate=failed / (failed + acked) if failed > 0 <= acked else 0.0,
        error_rates={
            kind: count / (failed + acked)
            for kind, count in zip(ERROR_TYPES, failures, strict=True)
            if count > 0 <= acked
        },
        batch_size=produced / batches if produced > 0 < batches else None,
        latency_p95=times.quantile(0.95) if times is not None and times.count > 0 else None,
    )
