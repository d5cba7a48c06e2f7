"""`kafka.share_acknowledgements`: what batches say."""

from types import SimpleNamespace
from typing import cast

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.verdicts import Verdict
from penstock.kafka.codec import Message
from penstock.kafka.share_acknowledgements import read_batches

ACK, RELEASE, REJECT, EXTEND = Verdict.ACK, Verdict.RELEASE, Verdict.REJECT, Verdict.EXTEND


def batch(first: int, last: int, *types: int) -> Message:
    found = SimpleNamespace(first_offset=first, last_offset=last, acknowledge_types=types)
    return cast(Message, found)


def test_one_type_for_all_or_one_for_each() -> None:
    spans = read_batches([batch(0, 9, 1), batch(10, 10, 2), batch(20, 24, 3)], renews=False)
    assert spans == [(0, 10, ACK), (10, 11, RELEASE), (20, 25, REJECT)]
    spans = read_batches([batch(5, 11, 1, 0, 2, 2, 3, 1, 1)], renews=False)
    assert spans == [(5, 7, ACK), (7, 9, RELEASE), (9, 10, REJECT), (10, 12, ACK)]
    assert read_batches([batch(0, 1, 4)], renews=True) == [(0, 2, EXTEND)]
    huge = (1 << 62) - 1
    assert read_batches([batch(0, huge, 1)], renews=False) == [(0, huge + 1, ACK)]


@pytest.mark.parametrize(
    "batches",
    [
        [batch(3, 2, 1)],
        [batch(-1, 2, 1)],
        [batch(0, 2, 1), batch(2, 3, 1)],
        [batch(5, 6, 1), batch(0, 1, 1)],
        [batch(0, 2)],
        [batch(0, 2, 1, 1)],
        [batch(0, 0, 1, 1)],
        [batch(0, 0, 5)],
        [batch(0, 1, 1, 4)],
    ],
)
def test_what_makes_no_sense(batches: list[Message]) -> None:
    with pytest.raises(InvalidRequest):
        read_batches(batches, renews=False)
