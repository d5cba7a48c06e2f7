"""The hash is the one of Kafka's clients, for keys of every length."""

from random import Random

import pytest
from aiokafka.partitioner import murmur2 as aiokafka_murmur2
from kafka.partitioner.default import murmur2 as kafka_python_murmur2

from penstock.core.murmur2 import murmur2, partition_of


@pytest.mark.parametrize(
    "key", [b"", b"a", b"ab", b"abc", b"abcd", b"order-17", bytes(range(256)), "größe".encode()]
)
def test_the_hash_is_kafkas(key: bytes) -> None:
    assert murmur2(key) == aiokafka_murmur2(key) & 0xFFFFFFFF


def test_the_hash_is_kafkas_for_keys_of_every_length() -> None:
    random = Random(7)
    for length in [*range(300), 1_000, 1_001, 1_002, 1_003]:
        key = random.randbytes(length)
        assert murmur2(key) == kafka_python_murmur2(key) & 0xFFFFFFFF, key


def test_the_sign_is_dropped_and_not_turned() -> None:
    # 0xD0…-like hashes are negative in Java, which masks them instead of taking the absolute.
    negative = next(key for key in (b"%d" % n for n in range(100)) if murmur2(key) >> 31)
    assert partition_of(negative, 1_000) == (murmur2(negative) - (1 << 31)) % 1_000
