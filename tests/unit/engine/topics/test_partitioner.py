"""A key always goes to one partition, and messages without one take turns."""

from collections import Counter

from penstock.core.murmur2 import partition_of
from penstock.engine.topics.partitioner import Partitioner


def test_a_key_always_goes_to_the_same_partition() -> None:
    partitioner = Partitioner()
    assert {partitioner.choose(b"customer-1", 16) for _ in range(10)} == {
        partition_of(b"customer-1", 16)
    }


def test_messages_without_a_key_take_turns() -> None:
    partitioner = Partitioner()
    assert Counter(partitioner.choose(None, 4) for _ in range(40)) == dict.fromkeys(range(4), 10)
