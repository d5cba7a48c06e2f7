"""Rules about when a message may be delivered.

    fifo-overtaken        a message was delivered before one of its group that was sent before it
    early-delivery        a message was delivered before its delay was over
    early-retry           a message that was released for later was delivered sooner
    priority-overtaken    a message was delivered although a more important one was waiting

A message was sent before another one if its sending had ended when that of the other one began. It
is resolved from the moment somebody began to ack it, or, if it was found among the dead letters,
from its last delivery on.
"""

from bisect import bisect_left
from itertools import accumulate, pairwise
from math import inf

from tests.cluster.queue_lease_rules import MILLISECOND
from tests.cluster.queue_model import Delivery, Moment, QueueLog, QueueModel, Receive, Sending
from tests.cluster.verdict import Verdict

GIVEN_BACK_NS_MAX = 10_000 * MILLISECOND
"""So long after its beginning a receive that was never answered has given back what it had."""


def check_order(model: QueueModel, verdict: Verdict, *, tolerance_ns: float) -> None:
    """All queues."""
    for log in model.queues.values():
        _check_delays(log, verdict, tolerance_ns)
        if log.promises.fifo:
            _check_groups(model, log, verdict)
        if log.promises.strict_priority:
            _check_priorities(log, verdict)


def _check_delays(log: QueueLog, verdict: Verdict, tolerance_ns: float) -> None:
    for value, deliveries in log.deliveries.items():
        sending = log.sendings.get(value)
        if sending is not None and sending.facts.delay_ms:
            due = sending.began + sending.facts.delay_ms * MILLISECOND
            early = due - min(one.receive.ended for one in deliveries)
            if early > tolerance_ns:
                verdict.found(
                    "early-delivery", f"{sending.describe()}, by {early / MILLISECOND:.0f} ms"
                )
        for one, following in pairwise(deliveries):
            for release in one.settled("release"):
                due = release.began + release.delay_ms * MILLISECOND
                early = due - following.receive.ended
                if release.ok and early > tolerance_ns:
                    verdict.found(
                        "early-retry", f"{following.describe()}, by {early / MILLISECOND:.0f} ms"
                    )


# FIFO.


def _check_groups(model: QueueModel, log: QueueLog, verdict: Verdict) -> None:
    groups: dict[str, list[Sending]] = {}
    for sending in log.sendings.values():
        # What was sent a second time, and what nobody ever saw, is for other rules.
        if sending.ok and sending.value in log.deliveries:
            groups.setdefault(sending.facts.group, []).append(sending)
    for members in groups.values():
        members.sort(key=lambda one: one.ended)
        _check_group(model, log, members, verdict)


def _check_group(
    model: QueueModel, log: QueueLog, members: list[Sending], verdict: Verdict
) -> None:
    ends = [one.ended for one in members]
    resolved = [_resolved(model, log, one.value) for one in members]
    latest = list(accumulate(resolved, max))
    for sending in members:
        before = bisect_left(ends, sending.began)
        for delivery in log.deliveries[sending.value]:
            number = before - 1
            while number >= 0 and latest[number] > delivery.receive.ended:
                if resolved[number] > delivery.receive.ended:
                    earlier = members[number].value
                    if not _stands_before(earlier, delivery):
                        verdict.found(
                            "fifo-overtaken",
                            f"{delivery.describe()}, before {earlier} of group"
                            f" {sending.facts.group} was resolved",
                        )
                        break
                number -= 1


def _resolved(model: QueueModel, log: QueueLog, value: str) -> Moment:
    moment: Moment = min((ack.began for ack in log.acks(value)), default=inf)
    deliveries = log.deliveries[value]
    for one in deliveries:
        for rejection in one.settled("reject"):
            moment = min(moment, rejection.began)
    if model.dead_letters(log, value):
        moment = min(moment, deliveries[-1].receive.began)
    return moment


def _stands_before(value: str, delivery: Delivery) -> bool:
    return any(
        one.value == value and one.place < delivery.place for one in delivery.receive.deliveries
    )


# Priorities.


def _check_priorities(log: QueueLog, verdict: Verdict) -> None:
    """A message whose first delivery is known was waiting from its sending to that receive, unless
    a receive that brought nothing may have leased it meanwhile: a node that stops gives back what
    it cannot hand out any more, and that is not counted as a delivery."""
    empty_handed = [
        (one.began, min(one.ended, one.began + GIVEN_BACK_NS_MAX))
        for one in log.receives
        if not one.deliveries
    ]
    waits: dict[int, list[tuple[Moment, Moment, str]]] = {}
    for value, deliveries in log.deliveries.items():
        sending, first = log.sendings.get(value), deliveries[0]
        if sending is not None and sending.ok and first.count == 1 and not sending.facts.delay_ms:
            began = first.receive.began
            if any(start < began and end > sending.began for start, end in empty_handed):
                continue
            wait = (sending.ended, began, value)
            waits.setdefault(sending.facts.priority, []).append(wait)
    levels = {level: sorted(members) for level, members in waits.items()}
    longest = {
        level: list(accumulate((until for _, until, _ in members), max))
        for level, members in levels.items()
    }
    for receive in log.receives:
        lowest = min(
            (log.sendings[one.value].facts.priority for one in _known(log, receive)), default=None
        )
        if lowest is None:
            continue
        for level, members in levels.items():
            count = bisect_left(members, (receive.began, 0.0, ""))
            if level > lowest and count and longest[level][count - 1] > receive.ended:
                verdict.found(
                    "priority-overtaken",
                    f"a receive of {log.name} got priority {lowest}, and {level} was waiting",
                )


def _known(log: QueueLog, receive: Receive) -> list[Delivery]:
    """Deliveries that were first ones: another one's time may have come before."""
    return [one for one in receive.deliveries if one.value in log.sendings and one.count == 1]
