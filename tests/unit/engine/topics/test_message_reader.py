"""Messages come by their offsets, whatever batches they lie in, and batches are read once."""

from random import Random

import pytest

from penstock.core.delivery_headers import UNREADABLE
from penstock.core.errors import LogPoisoned, PenstockError, UnknownPartition
from penstock.core.limits import MESSAGES_READ_BYTES_MAX, MESSAGES_READ_BYTES_MIN
from penstock.core.message import Message, NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.types import Offset, PartitionId
from penstock.engine.topics.message_reader import MessageReader
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.machines.partitions import AppendBatch, HoldsPartitions
from penstock.storage import CompactionPolicy
from tests.batches import build_batch, with_bytes
from tests.unit.engine.places import PARTITION, Cluster, Place, ask, with_partition

NOW = 4_102_444_800_000
OTHER = PartitionId(1)


class Watched:
    """A replica, and what was fetched from it."""

    def __init__(self, cluster: Cluster, place: Place) -> None:
        self.cluster, self.place = cluster, place
        self.fetched: list[tuple[int, int]] = []

    @property
    def machine(self) -> HoldsPartitions:
        return self.place.replica.machine

    def fetch(self, partition: PartitionId, offset: Offset, bytes_max: int) -> bytes:
        self.fetched.append((offset, bytes_max))
        return self.place.replica.fetch(partition, offset, bytes_max)

    def change(self, request: object) -> None:
        answers = ask(self.place, request)
        self.cluster.settle()
        assert not isinstance(answers[0], PenstockError), answers

    def append(self, batch: bytearray, partition: PartitionId = PARTITION) -> None:
        self.change(AppendBatch(partition, batch))

    def put(self, count: int, *, keys: int = 0, size: int = 20) -> None:
        """One batch of messages, each with its offset as value."""
        first = self.machine.bounds(PARTITION).high_watermark
        values = [b"%d " % (first + number) + b"x" * size for number in range(count)]
        made = [NewMessage(value, self._key(value, keys)) for value in values]
        self.append(build_messages(made, NOW))

    @staticmethod
    def _key(value: bytes, keys: int) -> bytes | None:
        """One of so many keys, but every tenth message has one of its own; none without keys."""
        offset = int(value.split()[0])
        return None if not keys else b"%d" % (offset if offset % 10 == 0 else -(offset % keys) - 1)


@pytest.fixture
def watched() -> Watched:
    return Watched(*with_partition(1, snapshot_log_bytes=20_000))


def run(first: int, end: int) -> tuple[Offset, Offset]:
    return Offset(first), Offset(end)


def offsets(messages: list[Message]) -> list[int]:
    """Where they are; each must be what lies there."""
    for message in messages:
        assert message.value is not None
        assert message.value.startswith(b"%d " % message.offset)
    return [message.offset for message in messages]


def test_many_receives_open_a_batch_once(watched: Watched) -> None:
    watched.put(1_000)
    reader = MessageReader()
    found: list[Message] = []
    for first in range(0, 1_000, 10):
        found = reader.read(watched, PARTITION, [run(first, first + 10)])
        assert offsets(found) == list(range(first, first + 10))
    again = reader.read(watched, PARTITION, [run(990, 1_000)])
    assert all(one is other for one, other in zip(found, again, strict=True))
    assert len(watched.fetched) == 1


def test_a_run_over_many_small_batches_is_one_read(watched: Watched) -> None:
    for _ in range(100):
        watched.put(2)
    reader = MessageReader()
    assert offsets(reader.read(watched, PARTITION, [run(1, 199)])) == list(range(1, 199))
    assert offsets(reader.read(watched, PARTITION, [run(150, 152)])) == [150, 151]
    assert len(watched.fetched) == 1


def test_a_message_far_from_others_is_read_by_itself(watched: Watched) -> None:
    watched.put(5_000)
    watched.put(5_000)
    reader = MessageReader()
    for first in (4_000, 200, 9_999, 7_123, 0, 150, 4_990):
        wanted = list(range(first, min(first + 15, 10_000)))
        assert offsets(reader.read(watched, PARTITION, [run(first, first + 15)])) == wanted
    assert reader.bytes < 4 * 10_000 * 50, "those in between were read, too"
    assert offsets(reader.read(watched, PARTITION, [run(0, 10_000)])) == list(range(10_000))


def test_a_group_that_lies_in_many_batches_finds_its_messages_again(watched: Watched) -> None:
    for _ in range(20):
        watched.put(1_000)
    # One batch at a time is kept.
    reader = MessageReader(bytes_max=60_000)
    chance = Random(1)
    for _ in range(200):
        wanted = sorted(chance.sample(range(20_000), 10))
        found = reader.read(watched, PARTITION, [run(one, one + 1) for one in wanted])
        assert offsets(found) == wanted


def test_of_a_large_batch_only_what_was_unpacked_is_kept(watched: Watched) -> None:
    watched.put(5_000)
    reader = MessageReader()
    assert offsets(reader.read(watched, PARTITION, [run(4_000, 4_001)])) == [4_000]
    size = len(watched.fetch(PARTITION, Offset(0), 1))
    assert size < reader.bytes < 1.5 * size
    assert offsets(reader.read(watched, PARTITION, [run(10, 12), run(4_999, 5_000)])) == [
        10,
        11,
        4_999,
    ]


def test_runs_may_lie_anywhere(watched: Watched) -> None:
    for count in (3, 1, 10, 1, 5):
        watched.put(count)
    runs = [run(0, 1), run(2, 5), run(7, 7), run(13, 16), run(19, 40), run(40, 50)]
    assert offsets(MessageReader().read(watched, PARTITION, runs)) == [0, 2, 3, 4, 13, 14, 15, 19]
    assert MessageReader().read(watched, PARTITION, []) == []


def test_what_was_appended_after_a_read_is_found(watched: Watched) -> None:
    reader = MessageReader()
    for first in range(0, 60, 3):
        assert reader.read(watched, PARTITION, [run(first, first + 3)]) == []
        watched.put(3)
        found = reader.read(watched, PARTITION, [run(first, first + 3)])
        assert offsets(found) == [first, first + 1, first + 2]


def test_what_is_below_the_start_is_not_found_though_it_is_kept(watched: Watched) -> None:
    for _ in range(4):
        watched.put(5)
    reader = MessageReader()
    assert len(reader.read(watched, PARTITION, [run(0, 20)])) == 20
    watched.change(TrimPartition(partition=PARTITION, before=Offset(12)))
    assert offsets(reader.read(watched, PARTITION, [run(0, 20)])) == list(range(12, 20))
    assert offsets(MessageReader().read(watched, PARTITION, [run(3, 14)])) == [12, 13]


def test_who_reads_on_reads_more_at_once_and_who_jumps_begins_anew(watched: Watched) -> None:
    for _ in range(60):
        watched.put(2, size=7_000)
    reader = MessageReader()
    for first in range(0, 100, 5):
        assert len(reader.read(watched, PARTITION, [run(first, first + 5)])) == 5
    rooms = [room for _, room in watched.fetched]
    smallest, largest = MESSAGES_READ_BYTES_MIN, MESSAGES_READ_BYTES_MAX
    assert rooms == [smallest, 4 * smallest, largest, largest, largest]
    reader.forget(PARTITION)
    watched.fetched.clear()
    reader.read(watched, PARTITION, [run(70, 71), run(10, 11)])
    assert watched.fetched == [(70, smallest), (10, smallest)]


def test_what_compaction_removed_is_left_out(watched: Watched) -> None:
    replica = watched.place.replica
    replica.compaction.set_policy(PARTITION, CompactionPolicy(dirty_ratio=0.1))
    for number in range(80):
        watched.put(1 + number % 3, keys=7, size=300)
    end = watched.machine.bounds(PARTITION).high_watermark
    warm = MessageReader()
    assert offsets(warm.read(watched, PARTITION, [run(0, end)])) == list(range(end))
    watched.cluster.tick(200)
    assert replica.log.statistics().compaction_rounds > 0
    there = offsets(MessageReader().read(watched, PARTITION, [run(0, end)]))
    assert 7 <= len(there) < end * 3 // 4
    assert len([o for o in there if o < 60]) in range(3, 30), "there are holes"
    random = Random(1)
    for bytes_max in (1 << 20, 3_000):
        reader = MessageReader(bytes_max=bytes_max)
        for _ in range(300):
            first = random.randrange(end)
            after = first + random.randrange(30)
            found = offsets(reader.read(watched, PARTITION, [run(first, after)]))
            assert found == [offset for offset in there if first <= offset < after]


def test_a_batch_that_cannot_be_opened_gives_messages_that_say_so(watched: Watched) -> None:
    watched.put(2)
    nonsense = with_bytes(build_batch(3, value=b"xyz", timestamp=NOW), 21, (4).to_bytes(2, "big"))
    watched.append(nonsense)
    watched.put(1)
    found = MessageReader().read(watched, PARTITION, [run(1, 4), run(4, 6)])
    assert offsets([found[0], found[-1]]) == [1, 5]
    mark = ((UNREADABLE, b"1"),)
    assert found[1:-1] == [Message(Offset(n), NOW + 2, None, None, mark) for n in (2, 3, 4)]


@pytest.mark.parametrize("at_once", [True, False])
def test_what_comes_before_a_wrong_record_is_delivered(watched: Watched, at_once: bool) -> None:
    batch = build_messages([NewMessage(b"%d " % n, None, (("a", b"b"),)) for n in range(5)], NOW)
    wrong = batch.index(b"3 ") - 1
    watched.append(with_bytes(batch, wrong, b"\x7e"))
    reader = MessageReader()
    runs = [run(0, 5)] if at_once else [run(n, n + 1) for n in range(5)]
    found = [message for one in runs for message in reader.read(watched, PARTITION, [one])]
    assert offsets(found[:3]) == [0, 1, 2]
    assert [(m.offset, m.header(UNREADABLE)) for m in found[3:]] == [(3, b"1"), (4, b"1")]
    assert reader.read(watched, PARTITION, [run(2, 5)]) == found[2:]


def test_what_is_kept_has_a_bound_and_reads_are_right_nonetheless(watched: Watched) -> None:
    watched.change(CreatePartition(partition=OTHER))
    random = Random(2)
    for _ in range(40):
        watched.put(random.choice([1, 1, 2, 30]), size=random.choice([10, 2_000]))
        watched.append(build_batch(2), OTHER)
    end = watched.machine.bounds(PARTITION).high_watermark
    reader = MessageReader(bytes_max=200_000)
    largest = 0
    for _ in range(400):
        first = random.randrange(end)
        after = min(first + random.choice([1, 1, 5, 40]), end)
        found = reader.read(watched, PARTITION, [run(first, after)])
        assert offsets(found) == list(range(first, after))
        other = reader.read(watched, OTHER, [run(first % 80, first % 80 + 1)])
        assert [message.value for message in other] == [b"a message"]
        largest = max(largest, reader.bytes)
    assert 100_000 < largest < 300_000, "one stretch may be above the bound"
    assert len(watched.fetched) > 10
    reader.forget(PARTITION)
    reader.forget(OTHER)
    reader.forget(OTHER)
    assert reader.bytes == 0


def test_what_forbids_a_read_is_told(watched: Watched) -> None:
    watched.put(1)
    reader = MessageReader()
    with pytest.raises(UnknownPartition):
        reader.read(watched, PartitionId(9), [run(0, 1)])
    watched.place.replica.stop()
    with pytest.raises(LogPoisoned):
        reader.read(watched, PARTITION, [run(0, 1)])
