"""Why a queue does not move: rules over what the broker knows of it.

Each rule gives a finding: the problem, the figures that show it, and what to do. The order is that
of an operator's questions: can the cluster serve, may the queue deliver, does a worker ask, do the
workers succeed, and are they fast enough.
"""

from collections.abc import Iterator
from typing import Any

from penstock.core.errors import UnknownWork
from penstock.core.plurals import counted
from penstock.watch.readings import QueueReading, Readings
from penstock.web.queue_lines import GroupCounts, QueueDetail

ERROR_SHARE = 0.1
"""Failed deliveries of the last minute, from which on they are a problem."""

Finding = dict[str, str]


def diagnose(detail: QueueDetail, readings: Readings, group: str = "") -> dict[str, Any]:
    """All findings about one work group; by default about the one with most to do."""
    counts = _chosen(detail, group)
    reading = None if counts is None else readings.queue(detail.name, counts.group)
    findings = [*_cluster(readings), *_queue(detail)]
    if counts is not None:
        findings += _messages(detail, counts)
        if reading is not None:
            findings += _workers(reading, counts)
    waits = counts is not None and counts.ready + counts.leased + counts.delayed > 0
    return {
        "queue": detail.name,
        "group": "" if counts is None else counts.group,
        "has_work": waits,
        "findings": findings,
        "summary": _summary(findings, has_work=waits),
        "counts": {} if counts is None else _figures(counts),
        "rates_a_second": {} if reading is None else _rates(reading),
        "workers": [] if reading is None else list(reading.workers),
    }


def _chosen(detail: QueueDetail, group: str) -> GroupCounts | None:
    if group:
        for one in detail.groups:
            if one.group == group:
                return one
        raise UnknownWork(f"{detail.name} has no work group {group}")
    return max(detail.groups, key=lambda one: (one.ready, one.leased), default=None)


def _cluster(readings: Readings) -> Iterator[Finding]:
    if not readings.healthy:
        yield _finding(
            "The cluster is not healthy.", readings.health, "penstock cluster status; penstock top"
        )
    full = [str(one.shard) for one in readings.shards if one.full]
    if full:
        yield _finding(
            "A disk is full: appends are refused.",
            f"shards {', '.join(full)}",
            "Make room on the disk of the nodes that hold them.",
        )


def _queue(detail: QueueDetail) -> Iterator[Finding]:
    name = detail.name
    if detail.paused:
        yield _finding(
            "The queue is paused: nothing is delivered.",
            "paused = true",
            f"penstock queue resume {name}",
        )
    if not detail.groups:
        yield _finding(
            "No work group is open: nothing was ever received from it.",
            "groups = []",
            f"Start a worker, or look at it once: penstock consume {name} -n 1 --release",
        )
    for move in detail.moves:
        if move.state == "running":
            yield _finding(
                "Messages are being moved out of it.",
                f"move {move.id}: {move.moved} of {move.to_move}",
                f"penstock queue moves {name}",
            )


def _messages(detail: QueueDetail, counts: GroupCounts) -> Iterator[Finding]:
    name = detail.name
    if counts.leased and not counts.ready:
        yield _finding(
            "All messages that could be delivered are leased: workers hold them.",
            f"{counts.leased} leased",
            "If the workers are gone, the messages are delivered again when their leases end"
            f" (lease_ms = {detail.settings.get('lease_ms')}).",
        )
    if counts.leased and counts.ready and detail.settings.get("order") == "fifo":
        yield _finding(
            "The queue is FIFO: messages wait for an earlier one of their message group.",
            f"{counts.leased} leased, {counts.ready} ready",
            f"See who holds the first ones: penstock peek {name} --state leased",
        )
    if counts.delayed:
        yield _finding(
            "Messages are delayed: after a failure, or because their sender wanted it.",
            f"{counts.delayed} delayed",
            f"penstock peek {name} --state delayed",
        )
    stayed = counts.dead - counts.dead_lettered
    if stayed:
        yield _finding(
            "Messages failed for good and stayed in the queue.",
            f"{stayed} dead, dead-letter queue {detail.dead_letter_topic or 'none'}",
            f"penstock peek {name} --state dead",
        )
    if counts.dead_lettered:
        yield _finding(
            "There are dead letters.",
            f"{counts.dead_lettered} in {detail.dead_letter_topic}",
            f"Repair the cause, then: penstock redrive {detail.dead_letter_topic} --dry-run",
        )


def _workers(reading: QueueReading, counts: GroupCounts) -> Iterator[Finding]:
    if not reading.complete:
        yield _finding(
            "Some partitions cannot be reached now; the figures are too small.",
            "complete = false",
            "penstock cluster status",
        )
    if counts.ready and reading.dead_letters_of:
        yield _finding(
            "It is a dead-letter queue: its messages wait for a decision, not for workers.",
            f"{counted(counts.ready, 'dead letter')} of {', '.join(reading.dead_letters_of)}",
            f"Repair the cause, then: penstock redrive {reading.queue} --dry-run",
        )
    elif counts.ready and not reading.consumers:
        silent = reading.silent_ms
        yield _finding(
            "No worker asks for messages.",
            f"{counts.ready} ready, 0 workers"
            + ("" if silent is None else f", the last one {silent / 1_000:.0f} s ago"),
            "Start workers, and check the name of the queue and of the work group they use.",
        )
    if reading.error_rate >= ERROR_SHARE:
        yield _finding(
            "Deliveries fail.",
            f"{reading.error_rate:.0%} of the last minute,"
            f" {counted(reading.dead_letters, 'dead letter')}",
            "Read the reasons of the dead letters and the logs of the workers.",
        )
    if counts.ready and reading.consumers and reading.in_rate > reading.ack_rate:
        yield _finding(
            "More messages come than are done.",
            f"{reading.in_rate:.1f} a second come, {reading.ack_rate:.1f} are done",
            "Add workers, or let each take more at once.",
        )


def _summary(findings: list[Finding], *, has_work: bool) -> str:
    if findings:
        return findings[0]["problem"]
    return "It moves: nothing stands in the way." if has_work else "It is empty: nothing waits."


def _finding(problem: str, evidence: str, advice: str) -> Finding:
    return {"problem": problem, "evidence": evidence, "advice": advice}


def _figures(counts: GroupCounts) -> dict[str, int | None]:
    names = ("sent", "ready", "leased", "delayed", "dead", "acked", "oldest_age_ms")
    return {name: getattr(counts, name) for name in names}


def _rates(reading: QueueReading) -> dict[str, float]:
    return {
        "in": reading.in_rate,
        "delivered": reading.out_rate,
        "acked": reading.ack_rate,
        "redelivered": reading.redelivery_rate,
        "dead": reading.dead_rate,
    }
