"""`CumulativeAck`: whoever reads the log by offset says up to where it is done, and what has
died."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.limits import (
    CUMULATIVE_ACK_DEAD_MAX,
    CUMULATIVE_ACK_STEPS_MAX,
    DEAD_REASON_CHARACTERS_MAX,
    STREAM_NAME_CHARACTERS_MAX,
)
from penstock.core.queue_rules import Dead, Deduplication, QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import Outcome
from penstock.machines import Refused, WakeReaders
from penstock.machines.cursor import Cursor
from penstock.machines.queue_commands import (
    CumulativeAck,
    RemoveDead,
    RequeueDead,
    decode_queue_command,
    encode_queue_command,
)
from penstock.machines.queues import CumulativeAckResult
from penstock.machines.run import State
from penstock.machines.work import WorkGroup
from tests.queue_model import view_of
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message

CARDS = QueueRules(delivery_headers=True)
FIFO = QueueRules(delivery_headers=True, fifo=True)
MILLION = 1_000_000


def command(
    first: int, end: int, dead: dict[int, str] | None = None, stream: str = "", batch: int = -1
) -> CumulativeAck:
    return CumulativeAck(
        partition=ONE,
        group=GROUP,
        first=Offset(first),
        end=Offset(end),
        dead=tuple((Offset(offset), why) for offset, why in (dead or {}).items()),
        stream=stream,
        batch=batch,
    )


def ack_cumulatively(
    shard: QueueShard, first: int, end: int, dead: dict[int, str] | None = None
) -> int:
    reply = shard.do(command(first, end, dead))
    assert isinstance(reply, CumulativeAckResult), reply
    assert reply.upto == end
    return reply.count


def left(shard: QueueShard) -> dict[int, State]:
    end = shard.machine.bounds(ONE)[1]
    return {offset: seen[0] for offset, seen in view_of(shard.work, end).items()}


# What is done.


def test_a_covered_range_is_done() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    assert ack_cumulatively(shard, 0, 6) == 6
    assert (shard.work.start, shard.work.tally.acked) == (6, 6)
    assert shard.offsets(10) == [6, 7, 8, 9]


def test_covering_again_changes_nothing() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    ack_cumulatively(shard, 0, 6, {3: "bad"})
    before = shard.machine.snapshot()
    assert ack_cumulatively(shard, 0, 6, {3: "worse"}) == 0
    assert shard.machine.snapshot() == before


def test_a_range_beyond_the_cursor_leaves_what_is_before_it() -> None:
    shard = QueueShard()
    shard.send_plain(10)
    assert ack_cumulatively(shard, 4, 7) == 3
    assert ack_cumulatively(shard, 6, 8) == 1
    assert shard.offsets(10) == [0, 1, 2, 3, 8, 9]


def test_a_million_messages_are_covered_at_once() -> None:
    work = WorkGroup(Offset(0), WorkRules(), QueueRules(), lambda: Offset(10 * MILLION))
    work.acquire(1_000, -1, 0)
    covered = work.ack_cumulatively(Offset(0), Offset(MILLION), [(Offset(7), "bad")], 5, steps=3)
    assert covered == (MILLION, MILLION), "the leased, split by the dead one, and the dead one"
    assert (work.dead, work.leased, work.tally.acked) == (1, 0, MILLION - 1)
    assert work.waiting == 9 * MILLION


def test_what_does_not_exist_yet_is_not_covered() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    assert ack_cumulatively(shard, 0, 100, {50: "bad"}) == 3
    shard.send_plain(2)
    assert shard.offsets(10) == [3, 4]


def test_other_groups_do_not_notice() -> None:
    shard = QueueShard()
    shard.open(WorkRules(), "other")
    shard.send_plain(3)
    ack_cumulatively(shard, 0, 3, {1: "bad"})
    assert shard.acquire(10, group="other").offsets == [0, 1, 2]


# Whoever has them.


def test_leases_inside_end_and_their_holders_come_too_late() -> None:
    shard = QueueShard()
    shard.send_plain(6)
    lease = shard.acquire(4)
    ack_cumulatively(shard, 1, 3, {3: "bad"})
    assert shard.ack(lease, 1, 2, 3) == [Outcome.GONE] * 3
    assert shard.ack(lease, 0) == [Outcome.DONE]
    assert left(shard) == {3: State.DEAD, 4: State.READY, 5: State.READY}


def test_what_is_delayed_is_covered_too() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(delay_ms=500), message(), message(ttl_ms=900))
    lease = shard.acquire(1)
    shard.release(lease, delay_ms=700)
    assert ack_cumulatively(shard, 0, 3) == 3
    assert left(shard) == {}
    assert shard.machine.queues.due_ms() is None


def test_what_is_due_happens_before() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(ttl_ms=10), message())
    shard.now_ms += 20
    assert ack_cumulatively(shard, 0, 2) == 1
    assert (shard.work.tally.expired, shard.work.tally.acked) == (1, 1)


def test_duplicates_stay_duplicates() -> None:
    shard = QueueShard(QueueRules(delivery_headers=True, deduplication=Deduplication.ID))
    for one in (b"a", b"a", b"b", b"a"):
        shard.send(message(dedup=one))
    assert ack_cumulatively(shard, 0, 4) == 2
    assert (shard.work.tally.duplicates, shard.work.tally.acked) == (2, 2)


def test_a_line_moves_on_when_its_head_is_covered() -> None:
    shard = QueueShard(FIFO)
    shard.send(*(message(group=b"a") for _ in range(4)))
    shard.acquire(1)
    assert WakeReaders(ONE, Offset(0)) in shard.apply(command(0, 2)).effects
    assert shard.offsets(5) == [2, 3]


def test_room_is_made_where_too_many_were_leased() -> None:
    shard = QueueShard(work=WorkRules(in_flight_max=2))
    shard.send_plain(5)
    shard.acquire(2)
    assert WakeReaders(ONE, Offset(0)) in shard.apply(command(0, 2)).effects
    assert shard.offsets(5) == [2, 3]


# Those that die.


def test_the_dead_have_a_reason_and_one_delivery() -> None:
    shard = QueueShard(work=WorkRules(dead=Dead.MOVE))
    shard.send_plain(5)
    assert ack_cumulatively(shard, 0, 5, {1: "no such customer", 3: "bad json"}) == 5
    dead = shard.work.dead_offsets(10)
    assert [(one.offset, one.reason, one.deliveries) for one in dead] == [
        (1, "no such customer", 1),
        (3, "bad json", 1),
    ]
    assert {one.died_ms for one in dead} == {shard.now_ms}
    assert list(shard.machine.queues.dying()) == [(ONE, GROUP)]


def test_a_message_dies_before_the_range_it_is_in_is_covered() -> None:
    shard = QueueShard()
    shard.send_plain(5)
    assert ack_cumulatively(shard, 2, 2, {2: "bad", 4: "bad"}) == 2
    assert left(shard)[2] is State.DEAD
    assert ack_cumulatively(shard, 0, 5) == 3
    assert left(shard) == {2: State.DEAD, 4: State.DEAD}


def test_what_was_buried_or_is_done_does_not_die_again() -> None:
    shard = QueueShard()
    shard.send_plain(4)
    ack_cumulatively(shard, 0, 2, {1: "bad"})
    shard.do(RemoveDead(partition=ONE, group=GROUP, offsets=(Offset(1),)))
    assert ack_cumulatively(shard, 0, 2, {0: "bad", 1: "bad"}) == 0
    assert (shard.work.dead, shard.work.tally.moved, shard.work.tally.acked) == (0, 1, 1)


def test_where_the_dead_are_discarded_they_are_gone() -> None:
    shard = QueueShard(FIFO, WorkRules(dead=Dead.DISCARD))
    shard.send(message(group=b"a"), message(group=b"a"))
    assert ack_cumulatively(shard, 0, 2, {0: "bad"}) == 2
    assert (shard.work.tally.purged, shard.work.tally.acked, shard.work.dead) == (1, 1, 0)


def test_the_dead_can_be_delivered_anew() -> None:
    shard = QueueShard()
    shard.send_plain(3)
    ack_cumulatively(shard, 0, 3, {1: "bad"})
    shard.do(RequeueDead(partition=ONE, group=GROUP))
    shard.restart()
    assert shard.offsets(5) == [1]


# Streams that count.


def test_a_batch_of_a_stream_is_covered_once() -> None:
    shard = QueueShard()
    shard.send_plain(6)
    assert shard.do(command(0, 3, {1: "bad"}, "s", 0)) == CumulativeAckResult(3, Offset(3))
    shard.do(RequeueDead(partition=ONE, group=GROUP))
    shard.restart()
    assert shard.do(command(0, 3, {1: "bad"}, "s", 0)) == CumulativeAckResult(0, Offset(3))
    assert left(shard)[1] is State.READY
    assert shard.do(command(3, 4, stream="s", batch=1)) == CumulativeAckResult(1, Offset(4))
    assert shard.do(command(0, 3, stream="s", batch=0)) == CumulativeAckResult(0, Offset(3))
    assert shard.do(command(0, 3, stream="another", batch=0)) == CumulativeAckResult(1, Offset(3))


def test_a_batch_that_takes_several_entries_is_covered_with_the_last() -> None:
    count = CUMULATIVE_ACK_STEPS_MAX + 3
    shard = QueueShard(FIFO)
    shard.send(*(message(group=b"a") for _ in range(count)))
    replies = [shard.do(command(0, count, stream="s", batch=0)) for _ in range(3)]
    assert replies[1:] == [
        CumulativeAckResult(3, Offset(count)),
        CumulativeAckResult(0, Offset(count)),
    ]
    assert (shard.work.stream, shard.work.batch) == ("s", 0)


# Bounds.


def test_a_great_many_runs_take_several_entries() -> None:
    count = CUMULATIVE_ACK_STEPS_MAX + 10
    shard = QueueShard(FIFO)
    shard.send(*(message(group=b"%d" % (one % 7)) for one in range(count)))
    reply = shard.do(command(0, count))
    assert reply == CumulativeAckResult(CUMULATIVE_ACK_STEPS_MAX, Offset(CUMULATIVE_ACK_STEPS_MAX))
    assert ack_cumulatively(shard, CUMULATIVE_ACK_STEPS_MAX, count) == 10
    assert left(shard) == {}


def test_a_great_many_skips_take_several_entries() -> None:
    cursor = Cursor(Offset(0), lambda: Offset(100), [(Offset(n), Offset(n + 1)) for n in (3, 5, 7)])
    assert cursor.pass_over(Offset(0), Offset(50), 2) == (5, 7)
    assert cursor.position == 8
    assert cursor.pass_over(Offset(7), Offset(50), 2) == (42, 50)
    assert (cursor.position, cursor.waiting, sorted(cursor.copy_skips().items())) == (50, 50, [])


@pytest.mark.parametrize("first", range(13))
@pytest.mark.parametrize("end", range(13))
def test_a_cursor_passes_over_exactly_the_range(first: int, end: int) -> None:
    cursor = Cursor(Offset(1), lambda: Offset(11), [(Offset(3), Offset(5)), (Offset(8), Offset(9))])
    before = {offset for offset in range(14) if cursor.covers(Offset(offset))}
    counted, _ = cursor.pass_over(Offset(first), Offset(end), 10)
    after = {offset for offset in range(14) if cursor.covers(Offset(offset))}
    assert after == before - set(range(first, end))
    assert (cursor.waiting, counted) == (len(after), len(before - after))
    again = Cursor(cursor.position, lambda: Offset(11), sorted(cursor.copy_skips().items()))
    assert again.waiting == cursor.waiting


@pytest.mark.parametrize(
    "odd",
    [
        command(5, 4),
        command(-1, 4),
        command(0, 4, {1: "x" * (DEAD_REASON_CHARACTERS_MAX + 1)}),
        command(0, 4, dict.fromkeys(range(CUMULATIVE_ACK_DEAD_MAX + 1), "bad")),
        command(0, 4, stream="s" * (STREAM_NAME_CHARACTERS_MAX + 1)),
    ],
)
def test_what_cannot_be_covered_is_refused(odd: CumulativeAck) -> None:
    shard = QueueShard()
    with pytest.raises(InvalidRequest):
        shard.do(odd)


def test_a_group_that_was_never_opened_covers_nothing() -> None:
    shard = QueueShard(work=None)
    shard.send_plain(3)
    assert isinstance(shard.do(command(0, 3)), Refused)


def test_it_is_on_disk_as_it_always_was() -> None:
    written = bytes.fromhex("99a5636f766572cd03e801a571756575650005919203a3626164a0ff")
    said = command(0, 5, {3: "bad"})
    assert encode_queue_command(said, stamp_ms=1_000) == written
    assert decode_queue_command(written).dead == ((3, "bad"),)  # type: ignore[union-attr]
