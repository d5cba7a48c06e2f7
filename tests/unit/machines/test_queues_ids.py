"""`machines.queues`: messages that were there before, by their ids or by where they came from."""

from penstock.core.limits import ORIGIN_REMEMBERED_MS
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import PartitionId
from penstock.machines.queue_commands import Purge
from penstock.machines.queue_headers import id_of
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message

TWO = PartitionId(2)
CARDS = QueueRules(delivery_headers=True)
BY_ID = QueueRules(delivery_headers=True, deduplication=Deduplication.ID)
WINDOW_MS = BY_ID.deduplication_ms


def test_a_duplicate_is_in_the_log_and_no_group_sees_it() -> None:
    shard = QueueShard(BY_ID)
    shard.open(WorkRules(), "other")
    shard.send(message(dedup=b"1"), message(dedup=b"2"), message(dedup=b"1"))
    shard.send(message(dedup=b"2"), message())
    assert shard.machine.bounds(ONE) == (0, 5)
    assert shard.offsets(9) == [0, 1, 4]
    assert shard.acquire(9, group="other").offsets == [0, 1, 4]
    assert shard.work.tally.duplicates == 2


def test_an_id_counts_for_exactly_its_window_from_the_first_message_on() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.now_ms += WINDOW_MS - 1
    shard.send(message(dedup=b"1"))
    assert shard.offsets(9) == [0]
    shard.now_ms += 1
    shard.send(message(dedup=b"1"), message(dedup=b"1"))
    assert shard.offsets(9) == [2]


def test_an_id_outlives_its_message_and_a_restart() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.ack(shard.acquire())
    shard.trim(1)
    shard.restart()
    shard.send(message(dedup=b"1"))
    assert shard.offsets(9) == []
    assert shard.work.tally.duplicates == 1


def test_a_purge_forgets_ids() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.do(Purge(partition=ONE, group=GROUP))
    shard.send(message(dedup=b"1"))
    assert shard.offsets(9) == [1]


def test_equal_bodies_are_duplicates_where_rules_say_so() -> None:
    shard = QueueShard(QueueRules(deduplication=Deduplication.CONTENT))
    shard.send(message(b"x"), message(b"y"), message(b"x"), message(b"x", dedup=b"1"))
    assert shard.offsets(9) == [0, 1, 3]


def test_ids_may_count_within_a_group() -> None:
    rules = QueueRules(
        delivery_headers=True,
        fifo=True,
        deduplication=Deduplication.ID,
        deduplication_by_group=True,
    )
    shard = QueueShard(rules)
    shard.send(*[message(group=group, dedup=b"1") for group in (b"a", b"b", b"a")])
    assert shard.offsets(9) == [0, 1]


def test_whoever_had_an_id_first_can_be_asked_for() -> None:
    shard = QueueShard(BY_ID)
    first = message(dedup=b"1")
    shard.send(message(), first)
    one = id_of(first, BY_ID)
    assert one is not None
    known = shard.machine.queues
    assert known.first_with_id(ONE, one) == 1
    assert known.first_with_id(ONE, one, 1_000 + WINDOW_MS - 1) == 1
    assert known.first_with_id(ONE, one, 1_000 + WINDOW_MS) is None
    assert known.first_with_id(TWO, one) is None


def test_a_message_is_not_moved_twice_within_a_day() -> None:
    shard = QueueShard(CARDS)
    shard.send(message(origin=b"there/0/5"))
    shard.restart()
    shard.now_ms += ORIGIN_REMEMBERED_MS - 1
    shard.send(message(origin=b"there/0/5"), message(origin=b"there/0/6"))
    assert shard.offsets(9) == [0, 2]
    shard.now_ms += 1
    shard.send(message(origin=b"there/0/5"))
    assert shard.offsets(9) == [3], "by then nobody moves it a second time by mistake"


def test_a_message_that_was_moved_here_is_no_duplicate_of_what_it_was() -> None:
    shard = QueueShard(BY_ID)
    shard.send(message(dedup=b"1"))
    shard.send(message(dedup=b"1", origin=b"dead letters/0/5"))
    assert shard.offsets(9) == [0, 1]
