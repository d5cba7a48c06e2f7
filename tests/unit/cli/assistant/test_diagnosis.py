"""Why a queue does not move, from what the broker knows."""

import pytest

from penstock.cli.assistant.diagnosis import diagnose
from penstock.core.errors import UnknownWork
from penstock.watch.readings import QueueReading, Readings, ShardReading, Totals
from penstock.web.queue_lines import GroupCounts, MoveLine, QueueDetail


def counts(group: str = "queue", *, ready: int = 0, leased: int = 0, **more: int) -> GroupCounts:
    states = dict.fromkeys(
        ("delayed", "dead", "acked", "moved", "expired", "purged", "dropped", "duplicates"), 0
    )
    states |= {"ready": ready, "leased": leased} | more
    total = sum(states.values()) - 2 * more.get("dead_lettered", 0)
    return GroupCounts(group=group, sent=total, accounted=total, oldest_age_ms=None, **states)


def queue(*groups: GroupCounts, **changes: object) -> QueueDetail:
    fields: dict[str, object] = {
        "name": "orders",
        "kind": "standard",
        "partitions": 1,
        "paused": False,
        "dead_letter_topic": "orders-dead",
        "groups": list(groups),
        "created_ms": 0,
        "settings": {"lease_ms": 30_000, "order": "none"},
        "moves": [],
    }
    return QueueDetail(**(fields | changes))  # type: ignore[arg-type]


def readings(*found: QueueReading, healthy: bool = True, full: bool = False) -> Readings:
    return Readings(
        at_ms=0,
        node=1,
        health="all well" if healthy else "shard 2 has no leader",
        healthy=healthy,
        totals=Totals(),
        queues=found,
        shards=(ShardReading(shard=1, leader=1, term=1, full=full),),
    )


def reading(**figures: object) -> QueueReading:
    fields = {"queue": "orders", "group": "queue", "kind": "standard", "partitions": 1, **figures}
    return QueueReading(**fields)  # type: ignore[arg-type]


WORKING = reading(consumers=2, in_rate=1.0, ack_rate=2.0)


@pytest.mark.parametrize(
    ("detail", "known", "summary"),
    [
        (queue(counts()), readings(WORKING), "It is empty"),
        (queue(counts(ready=3)), readings(WORKING), "It moves"),
        (queue(counts(ready=3), paused=True), readings(WORKING), "The queue is paused"),
        (queue(), readings(), "No work group is open"),
        (queue(counts(ready=3)), readings(WORKING, healthy=False), "The cluster is not healthy"),
        (queue(counts(ready=3)), readings(WORKING, full=True), "A disk is full"),
        (queue(counts(leased=3)), readings(WORKING), "All messages that could be delivered are"),
        (
            queue(counts(ready=3, leased=1), settings={"order": "fifo"}),
            readings(WORKING),
            "The queue is FIFO",
        ),
        (queue(counts(delayed=3)), readings(WORKING), "Messages are delayed"),
        (queue(counts(dead=3)), readings(WORKING), "Messages failed for good"),
        (queue(counts(ready=3)), readings(reading(silent_ms=61_000)), "No worker asks"),
        (
            queue(counts(ready=3)),
            readings(reading(consumers=1, error_rate=0.5, ack_rate=9.0)),
            "Deliveries fail",
        ),
        (
            queue(counts(ready=3)),
            readings(reading(consumers=1, in_rate=9.0, ack_rate=1.0)),
            "More messages come than are done",
        ),
        (queue(counts(dead=4, dead_lettered=4)), readings(WORKING), "There are dead letters"),
        (
            queue(counts(ready=3)),
            readings(reading(dead_letters_of=("jobs",))),
            "It is a dead-letter queue",
        ),
        (queue(counts()), readings(reading(complete=False)), "Some partitions cannot be reached"),
    ],
)
def test_findings(detail: QueueDetail, known: Readings, summary: str) -> None:
    found = diagnose(detail, known)
    assert found["summary"].startswith(summary)
    for one in found["findings"]:
        assert all(one.values())


def test_the_group_with_most_to_do_is_explained_unless_one_is_named() -> None:
    detail = queue(counts("billing", ready=1), counts("mail", ready=7))
    assert diagnose(detail, readings())["group"] == "mail"
    assert diagnose(detail, readings(), "billing")["group"] == "billing"
    with pytest.raises(UnknownWork, match="no work group nobody"):
        diagnose(detail, readings(), "nobody")


def test_a_move_is_named() -> None:
    move = MoveLine(
        id="m1", to="", state="running", to_move=9, moved=4, failed=0, rate=10, started_ms=0,
        ended_ms=-1, failure="",
    )  # fmt: skip
    (finding,) = diagnose(queue(counts(), moves=[move]), readings())["findings"]
    assert finding["evidence"] == "move m1: 4 of 9"
