"""`machines.subscription`: topics out of bytes that only clients understand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.reader.assignors import encode_assignment
from penstock.client.reader.positions import TopicPartition
from penstock.machines.subscription import read_assignment, read_topics
from tests.groups import subscription


def test_the_topics_are_read_and_the_rest_is_left_alone() -> None:
    metadata = subscription("orders", "käse", rest=b"\x00\x00\x00\x03abc")
    assert read_topics(metadata) == frozenset({"orders", "käse"})
    assert read_topics(subscription()) == frozenset()


@pytest.mark.parametrize(
    "metadata",
    [
        b"",
        b"\x00\x01\x00\x00",
        b"\xff\xff\x00\x00\x00\x00",
        b"\x00\x01\xff\xff\xff\xff",
        b"\x00\x01\x7f\xff\xff\xff",
        b"\x00\x01\x00\x00\x00\x01\x00\x05abc",
        b"\x00\x01\x00\x00\x00\x01\xff\xfeabc",
        b"\x00\x01\x00\x00\x00\x02\x00\x02ab\x00",
        b"\x00\x01\x00\x00\x00\x01\x00\x01\xff",
    ],
)
def test_other_bytes_are_not_topics(metadata: bytes) -> None:
    assert read_topics(metadata) is None


@given(st.binary(max_size=40))
def test_noise_never_breaks_it(noise: bytes) -> None:
    topics = read_topics(noise)
    assert topics is None or all(isinstance(topic, str) for topic in topics)


def test_an_assignment_is_read_and_the_user_data_is_left_alone() -> None:
    parts = (TopicPartition("käse", 0), TopicPartition("orders", 1), TopicPartition("orders", 7))
    data = encode_assignment(parts)
    assert read_assignment(data) == parts
    assert read_assignment(data[:-4] + b"\x00\x00\x00\x03abc") == parts
    for end in range(len(data) - 4):
        assert read_assignment(data[:end]) == ()


@given(st.binary(max_size=40))
def test_noise_is_no_assignment(noise: bytes) -> None:
    assert all(isinstance(topic, str) for topic, _ in read_assignment(noise))
