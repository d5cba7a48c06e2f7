"""Rates, order and levels of what `penstock top` shows, from looks made up here."""

import msgspec
import pytest

from penstock.cli.cluster.rates import ClusterSample, GroupLook, Level, Sorting, make_frame
from penstock.core.types import NodeId, Offset
from penstock.engine.groups.lag import GroupLag, PartitionLag
from penstock.web.queue_lines import GroupCounts, QueueLine


def counts(group: str = "queue", **states: int) -> GroupCounts:
    names = ("ready", "leased", "delayed", "dead", "acked", "moved", "expired", "purged",
             "dropped", "duplicates")  # fmt: skip
    every = dict.fromkeys(names, 0) | states
    total = sum(every.values()) - states.get("dead_lettered", 0)
    return GroupCounts(group=group, sent=total, accounted=total, oldest_age_ms=None, **every)


def line(name: str, *groups: GroupCounts, paused: bool = False, letters: str = "") -> QueueLine:
    return QueueLine(
        name=name,
        kind="standard",
        partitions=1,
        paused=paused,
        dead_letter_topic=letters,
        groups=list(groups),
    )


def lag(group: str, committed: int, end: int | None) -> GroupLag:
    behind = None if end is None else end - committed
    place = PartitionLag(
        topic="log",
        partition=0,
        committed=Offset(committed),
        end=None if end is None else Offset(end),
        lag=behind,
    )
    return GroupLag(
        group=group,
        state="Stable",
        protocol="range",
        coordinator=NodeId(1),
        members=(),
        partitions=(place,),
        lag=behind or 0,
    )


def test_rates_are_differences() -> None:
    """In two seconds 100 were sent, 60 taken and 40 of them done."""
    before = ClusterSample(at_ms=1_000, queues=(line("jobs", counts(ready=10, acked=5)),))
    now = ClusterSample(at_ms=3_000, queues=(line("jobs", counts(ready=50, leased=20, acked=45)),))
    frame = make_frame(now, before)
    (row,) = frame.queues
    assert (row.in_rate, row.out_rate, row.ack_rate) == (50, 30, 20)
    assert frame.seconds == 2
    assert frame.totals.ack_rate == 20
    assert (row.lag, row.depth) == (70, 70)


def test_without_an_earlier_look_there_are_no_rates() -> None:
    now = ClusterSample(at_ms=3_000, queues=(line("jobs", counts(ready=50)),))
    for before in (None, now):
        frame = make_frame(now, before)
        assert frame.queues[0].in_rate is None
        assert frame.totals.in_rate is None
        assert frame.totals.ready == 50


def test_a_queue_that_is_new_or_whose_counters_went_back_has_no_rate() -> None:
    before = ClusterSample(at_ms=0, queues=(line("old", counts(acked=100)),))
    now = ClusterSample(
        at_ms=1_000, queues=(line("new", counts(acked=5)), line("old", counts(acked=10)))
    )
    frame = make_frame(now, before, sorting="name")
    assert [row.ack_rate for row in frame.queues] == [None, None]
    assert frame.totals.ack_rate == 0


def test_a_row_for_each_work_group() -> None:
    look = ClusterSample(at_ms=0, queues=(line("jobs", counts("audit", acked=1), counts(ready=1)),))
    assert [(row.queue, row.group) for row in make_frame(look, None, sorting="name").queues] == [
        ("jobs", "audit"),
        ("jobs", "queue"),
    ]


@pytest.mark.parametrize(
    ("states", "level"),
    [
        ({}, Level.FINE),
        ({"ready": 1_000}, Level.FINE),
        ({"ready": 1_001}, Level.ATTENTION),
        ({"delayed": 10_001}, Level.ATTENTION),
        ({"dead": 1}, Level.ATTENTION),
        ({"dead": 100}, Level.ATTENTION),
        ({"dead": 101}, Level.WARNING),
        ({"delayed": 50_001}, Level.WARNING),
        ({"ready": 6_000, "leased": 5_000}, Level.CRITICAL),
        ({"dead": 1_001}, Level.CRITICAL),
    ],
)
def test_levels(states: dict[str, int], level: Level) -> None:
    look = ClusterSample(at_ms=0, queues=(line("jobs", counts("queue", **states)),))
    assert make_frame(look, None).queues[0].level is level


def test_what_a_dead_letter_queue_holds_is_trouble_of_its_queues_and_counted_once() -> None:
    """Two queues and two groups share one dead-letter queue."""
    dead = counts(dead=3, dead_lettered=2, moved=2)
    other = msgspec.structs.replace(dead, group="audit", dead=2)
    look = ClusterSample(
        at_ms=0,
        queues=(
            line("jobs", dead, other, letters="bin"),
            line("mail", msgspec.structs.replace(other, group="queue"), letters="bin"),
            line("bin", counts(ready=2)),
            line("calm", counts(acked=9)),
        ),
    )
    frame = make_frame(look, None)
    levels = {row.queue: row.level for row in frame.queues}
    assert levels == {
        "jobs": Level.ATTENTION,
        "mail": Level.ATTENTION,
        "bin": Level.ATTENTION,
        "calm": Level.FINE,
    }
    assert frame.totals.dead == 3


@pytest.mark.parametrize(
    ("sorting", "names"),
    [
        ("trouble", ["critical", "letters", "busy", "calm"]),
        ("lag", ["critical", "busy", "calm", "letters"]),
        ("in", ["busy", "calm", "critical", "letters"]),
        ("name", ["busy", "calm", "critical", "letters"]),
    ],
)
def test_order(sorting: Sorting, names: list[str]) -> None:
    queues = {
        "calm": counts(),
        "letters": counts(dead=1),
        "busy": counts(ready=500),
        "critical": counts(ready=20_000),
    }
    earlier = queues | {"busy": counts(ready=1)}
    before, now = (
        ClusterSample(at_ms=at_ms, queues=tuple(line(name, one) for name, one in every.items()))
        for at_ms, every in ((0, earlier), (1_000, queues))
    )
    assert [row.queue for row in make_frame(now, before, sorting=sorting).queues] == names


def test_groups_have_rates_over_the_time_since_each_was_looked_at() -> None:
    """Of many groups only some are looked at each tick."""
    first = GroupLook(at_ms=0, lag=lag("slow", 100, 200))
    later = GroupLook(at_ms=10_000, lag=lag("slow", 150, 12_000), before=first)
    other = GroupLook(at_ms=10_000, lag=lag("new", 5, None))
    frame = make_frame(ClusterSample(at_ms=10_000, queues=(), groups=(other, later)), None)
    slow, new = frame.groups
    assert (slow.group, slow.in_rate, slow.out_rate, slow.lag) == ("slow", 1_180, 5, 11_850)
    assert (slow.level, new.level) == (Level.CRITICAL, Level.FINE)
    assert (new.in_rate, new.lag) == (None, 0)
