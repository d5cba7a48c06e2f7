"""Partitioners: by key the same choice as Kafka's clients, and without a key an even one."""

from collections import Counter
from random import Random

import pytest
from aiokafka.partitioner import DefaultPartitioner as AiokafkaPartitioner
from confluent_kafka.cimpl import murmur2 as librdkafka_partition
from kafka.partitioner.default import DefaultPartitioner as KafkaPythonPartitioner

from penstock.client.producer import partitioners
from penstock.client.producer.partitioners import (
    HASHES_REMEMBERED,
    REMEMBERED_KEY_BYTES_MAX,
    HashPartitioner,
    Partitioner,
    RangePartitioner,
    RoundRobinPartitioner,
    StickyPartitioner,
    partitioner_for,
)
from penstock.core.errors import InvalidPartitions, InvalidRequest

OURS: list[Partitioner] = [
    HashPartitioner(),
    RoundRobinPartitioner(),
    StickyPartitioner(),
    RangePartitioner(["K"]),
    partitioner_for(lambda key, partitions: 0),
]


def random_keys(count: int) -> list[bytes]:
    random = Random(11)
    return [random.randbytes(random.choice((1, 3, 8, 20, 36, 64, 65, 200))) for _ in range(count)]


class OneTopic:
    """What kafka-python's partitioner asks of its picture of the cluster."""

    def __init__(self, partitions: int) -> None:
        self._partitions = set(range(partitions))

    def topics(self) -> set[str]:
        return {"topic"}

    def partitions_for_topic(self, topic: str) -> set[int]:
        return self._partitions

    available_partitions_for_topic = partitions_for_topic


@pytest.mark.parametrize("partitions", [1, 2, 3, 16, 1_000])
def test_keys_go_where_kafkas_clients_send_them(partitions: int) -> None:
    indexes = list(range(partitions))
    kafka_python, aiokafka, cluster = (
        KafkaPythonPartitioner(),
        AiokafkaPartitioner(),
        OneTopic(partitions),
    )
    for key in random_keys(1_000):
        chosen = HashPartitioner().choose(key, partitions)
        assert chosen == StickyPartitioner().choose(key, partitions)
        assert chosen == kafka_python.partition("topic", key, key, None, None, cluster), key
        assert chosen == aiokafka(key, indexes, indexes), key
        assert chosen == librdkafka_partition(key, partitions), key


def test_a_hash_comes_out_the_same_the_second_time_and_the_memory_is_bounded() -> None:
    hashed = HashPartitioner()
    keys = [b"key-%d" % n for n in range(2 * HASHES_REMEMBERED)]
    first = [hashed.choose(key, 7) for key in keys]
    assert [hashed.choose(key, 7) for key in keys] == first
    assert partitioners._remembered_hash.cache_info().currsize <= HASHES_REMEMBERED
    long = bytes(REMEMBERED_KEY_BYTES_MAX + 1)
    before = partitioners._remembered_hash.cache_info()
    hashed.choose(long, 7)
    assert partitioners._remembered_hash.cache_info() == before


def test_keys_spread_over_all_partitions() -> None:
    counts = Counter(HashPartitioner().choose(b"user-%d" % n, 8) for n in range(8_000))
    assert set(counts) == set(range(8))
    assert min(counts.values()) > 800


def test_without_keys_the_hash_partitioner_takes_turns() -> None:
    hashed = HashPartitioner(start=2)
    assert [hashed.choose(None, 3) for _ in range(5)] == [2, 0, 1, 2, 0]


def test_round_robin_takes_turns_whatever_the_key() -> None:
    turns = RoundRobinPartitioner()
    assert [turns.choose(b"same", 3) for _ in range(4)] == [0, 1, 2, 0]


def test_turns_go_on_when_partitions_are_added() -> None:
    turns = RoundRobinPartitioner()
    assert [turns.choose(None, 2) for _ in range(3)] == [0, 1, 0]
    assert [turns.choose(None, 4) for _ in range(4)] == [1, 2, 3, 0]


def test_the_sticky_one_stays_until_its_batch_is_full_and_reaches_every_partition() -> None:
    sticky = StickyPartitioner(random=Random(3))
    seen: list[int] = []
    for _ in range(4):
        here = {sticky.choose(None, 4) for _ in range(100)}
        assert len(here) == 1
        seen += here
        sticky.batch_full(seen[-1])
    assert sorted(seen) == [0, 1, 2, 3]
    assert sticky.choose(None, 4) == seen[0]


def test_a_full_batch_of_another_partition_does_not_move_the_sticky_one() -> None:
    sticky = StickyPartitioner(random=Random(3))
    here = sticky.choose(None, 4)
    sticky.batch_full((here + 1) % 4)
    assert sticky.choose(None, 4) == here


def test_many_sticky_senders_begin_in_many_places() -> None:
    assert len({StickyPartitioner().choose(None, 1_000) for _ in range(100)}) > 50


def test_ranges_are_intervals_of_keys() -> None:
    ranges = RangePartitioner(["K", "T"])
    places = {
        key: ranges.choose(key.encode(), 3) for key in ("", "Adams", "Jones", "K", "Smith", "T")
    }
    assert places == {"": 0, "Adams": 0, "Jones": 0, "K": 1, "Smith": 1, "T": 2}
    assert ranges.choose(b"Zeno", 5) == 2


def test_ranges_refuse_what_they_cannot_place() -> None:
    ranges = RangePartitioner(["K", "T"])
    with pytest.raises(InvalidRequest, match="give it a key"):
        ranges.choose(None, 3)
    with pytest.raises(InvalidPartitions, match="3 ranges of keys need as many partitions"):
        ranges.choose(b"A", 2)
    with pytest.raises(InvalidRequest, match="must rise"):
        RangePartitioner(["T", "K"])
    with pytest.raises(InvalidRequest, match="bounds"):
        RangePartitioner([])


def test_a_function_of_ones_own_is_asked_and_checked() -> None:
    own = partitioner_for(lambda key, partitions: len(key or b"") - 1)
    assert own.choose(b"abc", 4) == 2
    for key in (None, b"abcde"):
        with pytest.raises(InvalidPartitions, match="numbered 0 to 3"):
            own.choose(key, 4)


def test_nothing_chosen_is_the_sticky_one_and_an_object_is_itself() -> None:
    assert isinstance(partitioner_for(None), StickyPartitioner)
    ranges = RangePartitioner(["K"])
    assert partitioner_for(ranges) is ranges


def test_what_is_no_partitioner_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="is no partitioner"):
        partitioner_for("hash")  # type: ignore[arg-type]
    with pytest.raises(InvalidRequest, match=r"HashPartitioner\(…\)"):
        partitioner_for(HashPartitioner)  # type: ignore[arg-type]


@pytest.mark.parametrize("ours", OURS, ids=lambda one: type(one).__name__)
def test_each_of_ours_is_a_partitioner(ours: Partitioner) -> None:
    assert isinstance(ours, Partitioner)
    assert ours.choose(b"A", 4) in range(4)
    ours.batch_full(0)
    assert ours.sticky is isinstance(ours, StickyPartitioner)
