"""The partition a key goes to is the one that Kafka's clients choose."""

from collections import Counter

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2

from penstock.engine.partitioning import Partitioner, murmur2


@pytest.mark.parametrize(
    "key", [b"", b"a", b"ab", b"abc", b"abcd", b"order-17", bytes(range(256)), "größe".encode()]
)
def test_the_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_a_key_always_goes_to_the_same_partition() -> None:
    partitioner = Partitioner()
    assert len({partitioner.choose(b"customer-1", 16) for _ in range(10)}) == 1


def test_messages_without_a_key_take_turns() -> None:
    partitioner = Partitioner()
    assert Counter(partitioner.choose(None, 4) for _ in range(40)) == dict.fromkeys(range(4), 10)
