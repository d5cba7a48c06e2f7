"""Rules about leases: who has a message, and what a receipt is worth.

    two-leases          two workers had a message at the same time
    resurrected         a message was delivered again although it was done with
    unfenced-receipt    a settlement took effect although somebody else had the message by then
    repeated-count      two deliveries of a message were counted as the same one
    missing-count       deliveries were counted that nobody can have got

Which of two deliveries came first their counts say: a receive that waits may begin long before one
that is answered at once. A dead letter's counts go on where they were when it died. A lease ends at
the earliest so long after its receive began, and by then everything else that its worker said may
have ended it, too.
"""

from itertools import pairwise
from math import inf

from tests.cluster.queue_model import Delivery, Moment, QueueLog, QueueModel
from tests.cluster.verdict import Verdict

MILLISECOND = 1_000_000


def check_leases(model: QueueModel, verdict: Verdict, *, tolerance_ns: float) -> None:
    """All queues, dead-letter queues too."""
    homes = model.dead_letter_homes()
    for log in model.queues.values():
        repeated = "repeated-dead-letter" if log.name in homes else "repeated-count"
        for value, deliveries in log.deliveries.items():
            before = model.deliveries_before(log, value)
            _check_counts(log, deliveries, before, verdict, repeated)
            _check_one_at_a_time(deliveries, verdict, tolerance_ns)
            _check_settlements(deliveries, verdict)


def _check_counts(
    log: QueueLog, deliveries: list[Delivery], before: int, verdict: Verdict, repeated: str
) -> None:
    for one, other in pairwise(deliveries):
        if one.count == other.count:
            verdict.found(repeated, f"{one.describe()}, is also {other.receipt}")
    counts = {one.count for one in deliveries}
    last = deliveries[-1]
    missing = last.count - before - len(counts)
    unseen = log.unknown_receives(last.receive.ended) if missing else 0
    if missing > unseen:
        verdict.found(
            "missing-count",
            f"{last.describe()}, seen are {sorted(counts)}, and {unseen} receives are unknown",
        )


def _check_one_at_a_time(deliveries: list[Delivery], verdict: Verdict, tolerance_ns: float) -> None:
    for one, following in pairwise(deliveries):
        if one.count == following.count:
            continue
        left = earliest_end(one, following.receive.ended) - tolerance_ns - following.receive.ended
        if left > 0:
            verdict.found(
                "two-leases",
                f"{following.describe()}, {left / MILLISECOND:.0f} ms before the lease of delivery"
                f" {one.count} could end",
            )


def earliest_end(delivery: Delivery, before: Moment) -> Moment:
    """When a lease can have ended, at the earliest, by what was said before a moment."""
    end = delivery.receive.began + delivery.receive.lease_ms * MILLISECOND
    busy_until: Moment = -inf
    for one in delivery.settlements:
        if not one.possible or one.began >= before:
            continue
        if one.verdict != "extend":
            return -inf
        extended = one.began + one.delay_ms * MILLISECOND
        certain = one.ok and one.ended < before and busy_until < one.began
        end = extended if certain else min(end, extended)
        busy_until = max(busy_until, one.ended)
    return end


def _check_settlements(deliveries: list[Delivery], verdict: Verdict) -> None:
    """A settlement that took effect was of the lease that was in force; and an ack is the end."""
    for number, one in enumerate(deliveries):
        acked = min((ack.ended for ack in one.settled("ack") if ack.ok), default=None)
        for later in deliveries[number + 1 :]:
            if later.count == one.count:
                continue
            stale = [
                settlement
                for settlement in one.settlements
                if settlement.ok and settlement.began > later.receive.ended
            ]
            if stale:
                verdict.found(
                    "unfenced-receipt",
                    f"{later.describe()}, and then {stale[0].verdict} of delivery {one.count}",
                )
            elif acked is not None:
                verdict.found("resurrected", f"{later.describe()}, and {one.count} was acked")
