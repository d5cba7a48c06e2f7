"""Rules about dead letters.

too-many-deliveries     a message was delivered more often than it may be
hasty-dead-letter       a message is among the dead letters before it failed often enough
acked-dead-letter       a message is among the dead letters although it was acked
resurrected             a message was delivered again although it was among the dead letters
repeated-dead-letter    a message is there twice (found by its count: see `queue_lease_rules`)
"""

from tests.cluster.queue_model import Delivery, QueueLog, QueueModel
from tests.cluster.verdict import Verdict


def check_dead_letters(model: QueueModel, verdict: Verdict) -> None:
    """All queues that have a bound."""
    for log in model.queues.values():
        most = log.promises.deliveries_max
        if not most:
            continue
        for value, deliveries in log.deliveries.items():
            if deliveries[-1].count > most:
                verdict.found("too-many-deliveries", deliveries[-1].describe())
            if dead := model.dead_letters(log, value):
                _check_dead(log, deliveries, dead, verdict)
        dead_log = model.queues.get(log.promises.dead_letters)
        for value, dead in dead_log.deliveries.items() if dead_log is not None else ():
            if model.home.get(value) == log.name and value not in log.deliveries:
                _check_dead(log, [], dead, verdict)


def _check_dead(
    log: QueueLog, deliveries: list[Delivery], dead: list[Delivery], verdict: Verdict
) -> None:
    most = log.promises.deliveries_max
    found = min(dead, key=lambda one: one.receive.ended)
    if any(ack.ok for one in deliveries for ack in one.settled("ack")):
        verdict.found("acked-dead-letter", found.describe())
    rejected = any(True for one in deliveries for _ in one.settled("reject"))
    possible = len(deliveries) + log.unknown_receives(found.receive.ended)
    counted = min(one.count for one in dead) - 1
    if min(possible, counted) < most and not rejected:
        verdict.found(
            "hasty-dead-letter",
            f"{found.describe()}, after {len(deliveries)} deliveries; it may have {most}",
        )
    for one in deliveries:
        if one.receive.began > found.receive.ended:
            verdict.found("resurrected", f"{one.describe()}, although it is a dead letter")
