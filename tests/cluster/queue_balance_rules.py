"""Rules about what becomes of messages in the end.

    lost-message          it was accepted, and nobody ever acked it, nowhere
    unsent-delivery       nobody has sent what was delivered
    refused-delivery      it was delivered although its sending had certainly failed
    foreign-delivery      it was delivered by a queue it was not sent to
    changed-identity      it was delivered under another name than its sender was told
    duplicate-delivered   two messages with one id, sent within the window, were both delivered
    wrong-counts          what the cluster counts is not what happened

At the end every queue is drained: whatever is left is received and acked, until nothing is ready,
leased or delayed. So what was accepted and never acked is lost, unless it was a duplicate.
"""

from collections.abc import Iterator

from tests.cluster.queue_lease_rules import MILLISECOND
from tests.cluster.queue_model import Moment, QueueLog, QueueModel, Sending
from tests.cluster.verdict import Verdict

_LIVING = ("ready", "leased", "delayed", "dead")
_DEALT_WITH = ("acked", "moved", "expired", "purged", "dropped", "duplicates")


def check_balance(
    model: QueueModel, verdict: Verdict, *, tolerance_ns: float, drained: bool
) -> None:
    """All queues."""
    for log in model.queues.values():
        window_ns = log.promises.dedup_window_ms * MILLISECOND
        twins = _twins(log) if window_ns else {}
        _check_origins(model, log, verdict)
        _check_duplicates(log, twins, verdict, window_ns - tolerance_ns)
        suppressed = {
            sending.value
            for sending in log.sendings.values()
            if _may_be_duplicate(log, sending, twins, window_ns + tolerance_ns)
        }
        verdict.counts["duplicates"] += len(suppressed)
        if drained:
            _check_lost(model, log, suppressed, verdict)
            _check_counts(model, log, suppressed, verdict)
        for counts in log.counts:
            if counts["sent"] != sum(counts[state] for state in (*_LIVING, *_DEALT_WITH)):
                verdict.found("wrong-counts", f"{log.name} does not add up: {counts}")


def _check_origins(model: QueueModel, log: QueueLog, verdict: Verdict) -> None:
    homes = {log.name, *(one.name for one in model.dead_letter_homes().get(log.name, ()))}
    for value, deliveries in log.deliveries.items():
        home = model.home.get(value)
        if home is None:
            verdict.found("unsent-delivery", deliveries[0].describe())
            continue
        if home not in homes:
            verdict.found("foreign-delivery", f"{deliveries[0].describe()}, sent to {home}")
            continue
        sending = model.queues[home].sendings[value]
        if not sending.possible:
            verdict.found("refused-delivery", deliveries[0].describe())
        for one in deliveries:
            if sending.identity and one.identity not in ("", sending.identity):
                verdict.found("changed-identity", f"{one.describe()}, as {one.identity}")


# Duplicates.


def _twins(log: QueueLog) -> dict[str, list[Sending]]:
    found: dict[str, list[Sending]] = {}
    for sending in log.sendings.values():
        if sending.facts.dedup and sending.possible:
            found.setdefault(sending.facts.dedup, []).append(sending)
    return found


def _others(sending: Sending, twins: dict[str, list[Sending]]) -> Iterator[Sending]:
    if sending.facts.dedup:
        yield from (one for one in twins.get(sending.facts.dedup, ()) if one is not sending)


def _latest(log: QueueLog, sending: Sending) -> Moment:
    """The moment by which it was in the queue, if it ever was."""
    delivered = (one.receive.ended for one in log.deliveries.get(sending.value, ()))
    return min([sending.ended, *delivered])


def _check_duplicates(
    log: QueueLog, twins: dict[str, list[Sending]], verdict: Verdict, window_ns: float
) -> None:
    for members in twins.values():
        delivered = [one for one in members if one.value in log.deliveries]
        delivered.sort(key=lambda one: one.began)
        for number, one in enumerate(delivered):
            for other in delivered[number + 1 :]:
                apart = max(_latest(log, one), _latest(log, other)) - one.began
                if apart < window_ns:
                    verdict.found(
                        "duplicate-delivered",
                        f"{one.describe()} and {other.value}, id {one.facts.dedup}",
                    )


def _may_be_duplicate(
    log: QueueLog, sending: Sending, twins: dict[str, list[Sending]], window_ns: float
) -> bool:
    """It was not delivered, and another one with its id that was may have been before it."""
    return sending.value not in log.deliveries and any(
        other.value in log.deliveries
        and other.began < sending.ended
        and sending.began - _latest(log, other) < window_ns
        for other in _others(sending, twins)
    )


# The end.


def _check_lost(model: QueueModel, log: QueueLog, suppressed: set[str], verdict: Verdict) -> None:
    for value, sending in log.sendings.items():
        if not sending.ok or value in suppressed:
            continue
        dead = model.queues.get(log.promises.dead_letters)
        acked = any(True for _ in log.acks(value))
        if not acked and not (dead and any(True for _ in dead.acks(value))):
            verdict.found("lost-message", sending.describe())


def _check_counts(model: QueueModel, log: QueueLog, suppressed: set[str], verdict: Verdict) -> None:
    if not log.counts:
        return
    counts = log.counts[-1]
    left = {state: counts[state] for state in _LIVING if counts[state]}
    if left:
        verdict.found("wrong-counts", f"{log.name} is drained and has {left}")
    ok, possible = _acked(log)
    _check_between(log, "acked", ok, counts["acked"], possible, verdict)
    # SQS deletes a message whose lease is over, too, if nobody else has it.
    late = counts["acked"] + counts["purged"]
    _check_between(log, "acked or deleted", ok, late, possible, verdict)
    dead = model.queues.get(log.promises.dead_letters)
    moved = 0
    if dead is not None:
        moved = sum(model.home.get(value) == log.name for value in dead.deliveries)
    _check_between(log, "moved", moved, counts["moved"], moved, verdict)
    accepted = counts["sent"] - counts["duplicates"]
    homes = model.dead_letter_homes().get(log.name)
    if homes is not None:
        letters = sum(home.counts[-1]["moved"] for home in homes if home.counts)
        _check_between(log, "accepted", letters, accepted, letters, verdict)
        return
    sendings = log.sendings.values()
    certain = sum(one.ok and one.value not in suppressed for one in sendings)
    _check_between(log, "accepted", certain, accepted, sum(map(_possible, sendings)), verdict)
    others = {state: counts[state] for state in ("expired", "dropped") if counts[state]}
    if others:
        verdict.found("wrong-counts", f"{log.name} has dropped messages: {others}")


def _possible(sending: Sending) -> bool:
    return sending.possible


def _acked(log: QueueLog) -> tuple[int, int]:
    """How many values were acked, for certain and at most."""
    certain = possible = 0
    for value in log.deliveries:
        outcomes = {ack.outcome for ack in log.acks(value)}
        certain += "ok" in outcomes
        possible += bool(outcomes)
    return certain, possible


def _check_between(
    log: QueueLog, what: str, least: int, counted: int, most: int, verdict: Verdict
) -> None:
    if not least <= counted <= most:
        verdict.found("wrong-counts", f"{log.name}: {counted} {what}, must be {least} to {most}")
