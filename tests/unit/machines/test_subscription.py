"""`machines.subscription`: topics out of bytes that only clients understand."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.machines.subscription import read_topics
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
