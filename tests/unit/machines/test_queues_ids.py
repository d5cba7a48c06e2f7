"""`machines.queues`: messages that were there before, by their ids or by where they came from."""

import pytest

from penstock.core.errors import StateFull
from penstock.core.limits import ORIGIN_REMEMBERED_MS
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import PartitionId
from penstock.machines import AppendBatch, CreatePartition, queues
from penstock.machines.queue_commands import (
    ConfigureQueue,
    Purge,
    TurnClock,
    UseQueuesVersion,
)
from penstock.machines.queue_headers import id_of
from penstock.machines.state_bytes import StateBudget
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


def with_ids(version: int, *, count: int = 10, partitions: int = 1) -> QueueShard:
    """Partitions that remember so many ids each, none of which counts any more."""
    shard = QueueShard(BY_ID)
    shard.do(UseQueuesVersion(version=version))
    for number in range(1, partitions + 1):
        partition = PartitionId(number)
        if partition != ONE:
            shard.do(CreatePartition(partition=partition))
            shard.do(ConfigureQueue(partition=partition, rules=BY_ID))
        sent = build_messages([message(dedup=b"%d" % one) for one in range(count)], 1_000)
        shard.do(AppendBatch(partition, sent))
    shard.now_ms += WINDOW_MS
    return shard


def remembered(shard: QueueShard) -> list[int]:
    return [len(queue.ids) for _, queue in sorted(shard.machine.queues.partitions.items())]


@pytest.fixture
def _forgets_little(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(queues, "IDS_FORGOTTEN_MAX", 4)
    monkeypatch.setattr(queues, "IDS_FORGOTTEN_BESIDE", 1)


@pytest.mark.usefixtures("_forgets_little")
def test_a_turn_of_the_clock_forgets_a_bounded_number_of_ids() -> None:
    shard = with_ids(2, count=3, partitions=3)
    left = []
    while sum(remembered(shard)):
        shard.do(TurnClock())
        left.append(remembered(shard))
    assert left == [[0, 2, 3], [0, 0, 1], [0, 0, 0]]


@pytest.mark.usefixtures("_forgets_little")
def test_messages_forget_ids_in_proportion_to_their_number() -> None:
    shard = with_ids(2)
    shard.send(message())
    assert remembered(shard) == [7], "two for the message and one beside"
    shard.send(*[message()] * 9)
    assert remembered(shard) == [3]
    shard.send(message(dedup=b"new"), message())
    assert remembered(shard) == [1]


@pytest.mark.usefixtures("_forgets_little")
def test_an_id_whose_time_is_over_is_no_duplicate_before_it_is_forgotten() -> None:
    shard = with_ids(2)
    shard.send(message(dedup=b"9"), message(dedup=b"8"), message(dedup=b"9"))
    assert remembered(shard) == [8]
    shard.restart()
    while remembered(shard) != [2]:
        shard.do(TurnClock())
    shard.send(message(dedup=b"8"))
    assert shard.offsets(99) == [*range(12)], "the third and the last were duplicates"
    assert shard.work.tally.duplicates == 2


@pytest.mark.usefixtures("_forgets_little")
def test_entries_of_the_first_version_forget_all_at_once() -> None:
    for request in (TurnClock(), AppendBatch(ONE, build_messages([message()], 1_000))):
        shard = with_ids(1)
        shard.do(request)
        assert remembered(shard) == [0]


@pytest.mark.usefixtures("_forgets_little")
def test_replicas_forget_alike_whether_they_were_restored_or_not() -> None:
    shards = [with_ids(2, count=3, partitions=1) for _ in range(2)]
    for shard in shards:  # In another order than that of a snapshot.
        for number in (9, 5):
            partition = PartitionId(number)
            shard.do(CreatePartition(partition=partition))
            shard.do(ConfigureQueue(partition=partition, rules=BY_ID))
            sent = [message(dedup=b"%d" % one) for one in range(3)]
            shard.do(AppendBatch(partition, build_messages(sent, 1_000)))
    shards[1].restart()
    for shard in shards:
        shard.now_ms += WINDOW_MS
        shard.do(TurnClock())
    assert remembered(shards[0]) == remembered(shards[1]) == [0, 2, 3]
    assert shards[0].machine.snapshot() == shards[1].machine.snapshot()


def test_the_clock_is_turned_for_ids_only_when_there_is_no_room_for_others() -> None:
    shard = QueueShard(BY_ID, None)
    shard.send(message(dedup=b"1"), message(dedup=b"2"))
    known = shard.machine.queues
    assert known.due_ms() is None
    known._budget = StateBudget(4 * 30)  # A quarter is for ids.
    assert known.due_ms() == 1_000 + WINDOW_MS
    shard.now_ms += WINDOW_MS
    with pytest.raises(StateFull):
        shard.send(message(dedup=b"3"))
    shard.do(TurnClock())
    assert known.due_ms() is None
    shard.send(message(dedup=b"3"))


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
