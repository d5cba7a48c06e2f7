"""A standard queue becomes a FIFO queue while there are messages in it, and some of them are under
way: from then on each stands in the line of its key, whatever became of it before."""

from penstock.core.queue_rules import QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.machines.queue_commands import CumulativeAck, Recall, RequeueDead
from penstock.machines.queues import QueueChanged
from tests.unit.machines.queue_shard import GROUP, ONE, QueueShard, message

FIFO = QueueRules(fifo=True)
LEASE_MS = 30_000


def with_keys(*keys: bytes) -> QueueShard:
    """A standard queue with these messages."""
    shard = QueueShard()
    shard.send(*[message(key=key) for key in keys])
    return shard


def recall(shard: QueueShard, first: int, *keys: bytes, fifo: bool = True) -> bool:
    """Tell of messages from `first` on what their keys are."""
    delivery_headers = tuple(
        (Offset(first + place), 4, key, -1, -1) for place, key in enumerate(keys)
    )
    command = Recall(
        partition=ONE,
        group=GROUP,
        first=Offset(first),
        end=Offset(first + len(keys)),
        delivery_headers=delivery_headers,
        fifo=fifo,
    )
    reply = shard.do(command)
    assert isinstance(reply, QueueChanged)
    return bool(reply.count)


def test_a_message_that_failed_before_goes_first_in_its_line() -> None:
    shard = with_keys(b"a", b"b", b"a")
    shard.release(shard.acquire(1))
    shard.configure(FIFO)
    assert shard.offsets(9) == [], "the lines are not known yet"
    assert recall(shard, 0, b"a", b"b", b"a")
    shard.restart()
    assert shard.offsets(1) == [0]
    assert shard.offsets(9) == [1], "2 waits for 0"


def test_a_message_that_somebody_has_holds_up_its_line() -> None:
    shard = with_keys(b"a", b"b", b"a")
    lease = shard.acquire(1)
    shard.configure(FIFO)
    assert recall(shard, 0, b"a", b"b", b"a")
    shard.restart()
    assert shard.offsets(9) == [1]
    shard.ack(lease, 0)
    assert shard.offsets(9) == [2]


def test_those_that_one_worker_has_stand_in_lines_of_their_own() -> None:
    shard = with_keys(b"a", b"b", b"a", b"b", b"c")
    lease = shard.acquire(4)
    shard.configure(FIFO)
    assert recall(shard, 0, b"a", b"b", b"a", b"b", b"c")
    shard.send(message(key=b"a"), message(key=b"b"))
    shard.ack(lease, 1, 3)
    assert shard.offsets(9) == [4, 6]
    shard.ack(lease, 2)
    assert shard.offsets(9) == [], "0 is leased"
    shard.wait(LEASE_MS)
    assert shard.offsets(9) == [0, 5, 4, 6]


def test_one_that_was_dead_comes_back_into_its_line() -> None:
    shard = with_keys(b"a", b"b", b"a")
    shard.reject(shard.acquire(1))
    shard.configure(FIFO)
    assert recall(shard, 0, b"a", b"b", b"a")
    shard.restart()
    shard.do(RequeueDead(partition=ONE, group=GROUP))
    assert shard.offsets(9) == [0, 2, 1]


def test_one_that_died_before_it_was_told_of_comes_back_into_its_line() -> None:
    """Whoever reads the log itself does not wait for lines."""
    shard = QueueShard(FIFO, work=None)
    shard.send(message(key=b"a"), message(key=b"b"), message(key=b"a"))
    shard.open(WorkRules())
    none = Offset(0)
    shard.do(CumulativeAck(partition=ONE, group=GROUP, first=none, end=none, dead=((none, "bad"),)))
    assert recall(shard, 0, b"a", b"b", b"a")
    assert shard.work.dead == 1, "to be told of it does not bring it back"
    shard.do(RequeueDead(partition=ONE, group=GROUP))
    assert shard.offsets(9) == [0, 2, 1]


def test_what_is_dealt_with_need_not_be_told_of() -> None:
    shard = with_keys(*[b"a"] * 9)
    lease = shard.acquire(7)
    shard.ack(lease, 0, 1, 3, 4, 5)
    shard.configure(FIFO)
    assert shard.work.recalled == 2
    assert recall(shard, 2, b"a")
    assert shard.work.recalled == 6
    assert recall(shard, 6, b"a")
    shard.restart()
    assert shard.work.recalled == 7
    assert recall(shard, 7, b"a", b"a")
    assert not shard.work.is_recalling
    assert shard.offsets(9) == []
    shard.ack(lease, 2, 6)
    assert shard.offsets(9) == [7, 8]


def test_what_was_read_for_other_rules_is_read_once_more() -> None:
    """The rules changed while messages were read for those of before, which knew no lines."""
    shard = QueueShard(QueueRules(delivery_headers=True), work=None)
    shard.send(message(key=b"a"), message(key=b"b"), message(key=b"a"))
    shard.open(WorkRules())
    shard.configure(FIFO)
    assert shard.work.recalled == 0, "the same place as before"
    assert not recall(shard, 0, b"", b"", b"", fifo=False)
    assert recall(shard, 0, b"a", b"b", b"a")
    assert shard.offsets(9) == [0, 2, 1]
