"""Stories out of lines: who had a message, when a lease ended by itself, what did not count."""

from collections.abc import Sequence

import pytest

from penstock.core.types import EARLIEST, LATEST, Index, Offset, PartitionId, Term, TopicId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.inspection.traces.timeline import Noted, notes_of, passings_of, tell
from penstock.engine.replica.delivery_history import Line
from penstock.machines.group_commands import StoreOffsets, encode_group_command
from penstock.machines.queue_commands import (
    Acquire,
    Cancel,
    CloseWork,
    CopyPlace,
    CumulativeAck,
    Purge,
    QueueCommand,
    RemoveDead,
    RequeueDead,
    ResetWork,
    Settle,
    Settlement,
    encode_queue_command,
)
from penstock.machines.work_records import GrantedRun
from penstock.wire.trace_requests import Place, State

JOBS, OTHER = PartitionId(3), PartitionId(4)
IT = Offset(17)
TOPIC = TopicId(b"t" * 16)


def line(index: int, command: QueueCommand, **more: object) -> Line:
    """Applied at a time that is a hundred times the index."""
    payload = encode_queue_command(command, stamp_ms=index * 100)
    return Line(Index(index), Term(1), payload, **more)  # type: ignore[arg-type]


def leased(index: int, *, epoch: int, deliveries: int = 1, partition: PartitionId = JOBS) -> Line:
    command = Acquire(partition=partition, group="g", messages_max=10, receiver=f"worker-{epoch}")
    runs = (GrantedRun(Offset(10), Offset(20), deliveries, 0),)
    return line(index, command, epoch=epoch, until_ms=index * 100 + 1_000, runs=runs)


def settled(
    index: int, verdict: Verdict, *, epoch: int, outcome: Outcome = Outcome.DONE, delay_ms: int = -1
) -> Line:
    one = Settlement(Offset(15), Offset(18), epoch, verdict, delay_ms, "why")
    other = Settlement(Offset(18), Offset(19), epoch, Verdict.REJECT)
    command = Settle(partition=JOBS, group="g", settlements=(other, one))
    return line(index, command, outcomes=(Outcome.DONE, outcome))


def story(lines: Sequence[Line], *states: State, now_ms: int = 0) -> list[tuple[int, str, str]]:
    told = tell(notes_of(lines, JOBS, IT), states, now_ms)
    return [(one.time_ms, one.what, one.receiver) for one in told]


def test_a_life() -> None:
    lines = [
        leased(1, epoch=1, partition=OTHER),
        leased(2, epoch=1),
        settled(3, Verdict.RELEASE, epoch=1, delay_ms=50),
        leased(4, epoch=2, deliveries=2),
        settled(5, Verdict.EXTEND, epoch=2, delay_ms=5_000),
        settled(6, Verdict.FINISH, epoch=2),
    ]
    assert story(lines) == [
        (200, "delivered", "worker-1"),
        (300, "released", "worker-1"),
        (400, "delivered", "worker-2"),
        (500, "extended", "worker-2"),
        (600, "acked", "worker-2"),
    ]
    told = tell(notes_of(lines, JOBS, IT), (), 0)
    assert [one.until_ms for one in told] == [1_200, 350, 1_400, 5_500, None]
    assert [one.deliveries for one in told] == [1, None, 2, None, None]
    assert told[1].detail == "why"


def test_what_two_replicas_say_is_told_once() -> None:
    lines = [leased(2, epoch=1), settled(3, Verdict.ACK, epoch=1)]
    assert story(lines[:1] + lines + lines[1:]) == story(lines)


def test_leases_end_by_themselves() -> None:
    first, second = leased(2, epoch=1), leased(30, epoch=2, deliveries=2)
    assert story([first], now_ms=1_199) == [(200, "delivered", "worker-1")]
    ended = [(200, "delivered", "worker-1"), (1_200, "lease ended", "worker-1")]
    assert story([first], now_ms=1_200) == ended
    again = [*ended, (3_000, "delivered", "worker-2")]
    assert story([first, second], now_ms=3_001) == again
    late = settled(31, Verdict.ACK, epoch=1, outcome=Outcome.STALE)
    assert story([first, second, late], now_ms=3_101) == [*again, (3_100, "too late", "worker-1")]
    longer = settled(3, Verdict.EXTEND, epoch=1, delay_ms=60_000)
    assert story([first, longer], now_ms=2_000)[1:] == [(300, "extended", "worker-1")]


def test_death() -> None:
    dead = State(group="g", state="dead", deliveries=1, until_ms=300, reason="too many")
    released = [leased(2, epoch=1), settled(3, Verdict.RELEASE, epoch=1)]
    assert story(released, dead)[-1] == (300, "died", "")
    assert tell(notes_of(released, JOBS, IT), [dead], 0)[-1].detail == "too many"
    rejected = [leased(2, epoch=1), settled(3, Verdict.REJECT, epoch=1)]
    assert story(rejected, dead)[-1] == (300, "rejected", "worker-1"), "that was its death"


@pytest.mark.parametrize(
    ("command", "what"),
    [
        (RemoveDead(partition=JOBS, group="g", offsets=(IT,)), "buried"),
        (RemoveDead(partition=JOBS, group="g", offsets=(IT,), discarded=True), "discarded"),
        (RemoveDead(partition=JOBS, group="g", offsets=(Offset(1),)), ""),
        (RequeueDead(partition=JOBS, group="g"), ""),
        (Cancel(partition=JOBS, group="g", offsets=(IT,)), "cancelled"),
        (Cancel(partition=JOBS, group="g", offsets=(Offset(1),)), ""),
        (Purge(partition=JOBS, group="g"), "purged"),
        (Purge(partition=OTHER, group="g"), ""),
        (ResetWork(partition=JOBS, group="g", start=Offset(0)), "reset"),
        (ResetWork(partition=JOBS, group="g", start=EARLIEST), "reset"),
        (ResetWork(partition=JOBS, group="g", start=Offset(18)), "passed over"),
        (ResetWork(partition=JOBS, group="g", start=LATEST), "passed over"),
        (CloseWork(partition=JOBS, group="g"), "closed"),
        (CloseWork(partition=JOBS), ""),
        (CumulativeAck(partition=JOBS, group="g", first=Offset(0), end=Offset(30)), "covered"),
        (CumulativeAck(partition=JOBS, group="g", first=Offset(18), end=Offset(30)), ""),
        (
            CumulativeAck(
                partition=JOBS, group="g", first=Offset(0), end=Offset(30), dead=((IT, "bad"),)
            ),
            "rejected",
        ),
    ],
)
def test_what_people_and_readers_do(command: QueueCommand, what: str) -> None:
    told = [name for _, name, _ in story([line(9, command, upto=Offset(25))])]
    assert told == ([what] if what else [])


def test_the_dead_are_revived_and_nobody_else() -> None:
    every, these = (
        RequeueDead(partition=JOBS, group="g"),
        RequeueDead(partition=JOBS, group="g", offsets=(IT,)),
    )
    for requeue_dead in (every, these):
        rejected = [leased(1, epoch=1), settled(2, Verdict.REJECT, epoch=1), line(3, requeue_dead)]
        assert whats(rejected) == ["delivered", "rejected", "revived"]
        held = [leased(1, epoch=1), line(3, requeue_dead)]
        assert whats(held) == ["delivered"]
        done = [leased(1, epoch=1), settled(2, Verdict.ACK, epoch=1), line(3, requeue_dead)]
        assert whats(done) == ["delivered", "acked"]
        failed = [leased(1, epoch=1, deliveries=3), settled(2, Verdict.RELEASE, epoch=1)]
        again = leased(4, epoch=2, deliveries=4)
        assert whats([*failed, line(3, requeue_dead), again])[2:] == ["delivered"], (
            "it had not died"
        )
        anew = leased(4, epoch=2, deliveries=1)
        assert whats([*failed, line(3, requeue_dead), anew])[2:] == ["revived", "delivered"]
        waits = State(group="g", state="ready", deliveries=0)
        assert whats([*failed, line(3, requeue_dead)], waits)[2:] == ["revived"]
        assert whats([*failed, line(3, requeue_dead)])[2:] == []


def whats(lines: Sequence[Line], *states: State) -> list[str]:
    return [what for _, what, _ in story(lines, *states)]


def test_a_cover_counts_as_far_as_it_came() -> None:
    command = CumulativeAck(partition=JOBS, group="g", first=Offset(0), end=Offset(30))
    assert story([line(9, command, upto=Offset(17))]) == []


def test_a_move() -> None:
    offsets = (IT,)
    taken = Acquire(
        partition=JOBS, group="g", messages_max=1, offsets=offsets, receiver="move of somebody"
    )
    runs = (GrantedRun(IT, Offset(18), 0, 200),)
    lines = [
        line(2, taken, epoch=1, until_ms=1_000, runs=runs),
        settled(3, Verdict.ACK, epoch=1),
    ]
    assert [what for _, what, _ in story(lines)] == ["taken", "moved"]


@pytest.mark.parametrize("how", ["settled", "buried"])
def test_where_copies_went(how: str) -> None:
    """That is known only if it was said, and shown only if the topic has a name."""
    copies = (CopyPlace(TOPIC, 2, Offset(5)), CopyPlace(TOPIC, 3, Offset(6)))
    one, it = (Settlement(at, Offset(at + 1), 1, Verdict.FINISH) for at in (Offset(3), IT))

    def copy_of(some: tuple[CopyPlace, ...], names: dict[TopicId, str]) -> Place | None:
        told = line(2, RemoveDead(partition=JOBS, group="g", offsets=(Offset(3), IT), copies=some))
        if how == "settled":
            command = Settle(partition=JOBS, group="g", settlements=(one, it), copies=some)
            told = line(2, command, outcomes=(Outcome.DONE, Outcome.DONE))

        def place_of(copy: CopyPlace) -> Place | None:
            name = names.get(copy.topic_id)
            return None if name is None else Place(name, copy.partition, copy.offset)

        [happened] = tell(notes_of([told], JOBS, IT), (), 0, place_of)
        return happened.copy

    assert copy_of(copies, {TOPIC: "letters"}) == Place("letters", 3, 6)
    assert copy_of(copies, {}) is None
    assert copy_of((), {TOPIC: "letters"}) is None


def test_what_concerns_others_is_not_told() -> None:
    lines = [
        leased(2, epoch=1),
        settled(3, Verdict.ACK, epoch=1),
        line(4, Purge(partition=JOBS, group="g")),
    ]
    assert [what for _, what, _ in story(lines)] == ["delivered", "acked"]


def test_groups_have_stories_of_their_own() -> None:
    notes = [
        Noted(Index(1), 100, "a", "delivered", 1, "one", 1, 1_000),
        Noted(Index(2), 200, "b", "delivered", 1, "two", 1, 1_100),
        Noted(Index(3), 300, "a", "acked", 1),
    ]
    told = tell(notes, (), 1_500)
    assert [(one.group, one.what, one.receiver) for one in told] == [
        ("a", "delivered", "one"),
        ("b", "delivered", "two"),
        ("a", "acked", "one"),
        ("b", "lease ended", "two"),
    ]


def test_consumer_groups_go_by() -> None:
    def stored(index: int, offset: int, topic: TopicId = TOPIC, partition: int = 0) -> Line:
        command = StoreOffsets(
            group="readers",
            member="m",
            instance=None,
            generation=-1,
            offsets=((topic, partition, offset, -1, ""),),
        )
        payload = encode_group_command(command, stamp_ms=index * 100)
        return Line(Index(index), Term(1), payload)

    lines = [
        leased(1, epoch=1),
        stored(2, 17),
        stored(3, 99, TopicId(b"o" * 16)),
        stored(4, 99, partition=1),
        stored(5, 18),
        stored(6, 30),
    ]
    found = list(passings_of(lines, TOPIC, 0, IT))
    assert [(one.index, one.time_ms, one.group, one.member) for one in found] == [
        (5, 500, "readers", "m"),
        (6, 600, "readers", "m"),
    ]
    assert len(list(notes_of(lines, JOBS, IT))) == 1
