"""The options of a queue as a source, and how a micro-batch is bounded."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.spark.queues.queue_reader import _admit, _bound, queue_options

URL = {"url": "penstock://127.0.0.1:9092"}


def test_a_queue_and_its_group() -> None:
    found = queue_options({**URL, "queue": "orders", "maxOffsetsPerTrigger": "7"}, is_stream=True)
    assert (found.queue, found.group, found.beginning) == ("orders", "queue", "earliest")
    assert found.reading.topics == ("orders",)
    assert found.reading.trigger_offsets_max == 7
    given = {**URL, "queue": "orders", "workGroup": "spark", "startingOffsets": "LATEST"}
    found = queue_options(given, is_stream=True)
    assert (found.group, found.beginning) == ("spark", "latest")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"queue": ""}, "name one queue"),
        ({"queue": "a,b"}, "name one queue"),
        ({"queue": "a", "workGroup": " "}, "workGroup is empty"),
        ({"queue": "a", "subscribe": "b"}, "subscribe is for topics"),
        ({"queue": "a", "maxBytesPerTrigger": "1m"}, "maxBytesPerTrigger is for topics"),
        ({"queue": "a", "startingOffsets": "7"}, "earliest or latest"),
        ({"queue": "a", "workGruop": "b"}, "perhaps workGroup"),
    ],
)
def test_what_cannot_be_meant_is_refused(given: dict[str, str], message: str) -> None:
    with pytest.raises(InvalidRequest, match=message):
        queue_options({**URL, **given}, is_stream=True)


def test_a_batch_is_bounded_in_proportion() -> None:
    starts, ends = {0: 10, 1: 0, 2: 5}, {0: 100, 1: 10, 2: 5}
    assert _admit(starts, ends, 1_000) == ends
    assert _admit(starts, ends, 10) == {0: 19, 1: 1, 2: 5}
    assert _admit(starts, ends, 1) == {0: 11, 1: 1, 2: 5}


def test_what_came_again_is_bounded_too() -> None:
    again = {0: ((1, 3), (7, 9)), 1: ((0, 5),)}
    assert _bound(again, 100) == (again, 91)
    assert _bound(again, 5) == ({0: ((1, 3), (7, 9)), 1: ((0, 1),)}, 0)
    assert _bound(again, 3) == ({0: ((1, 3), (7, 8))}, 0)
    assert _admit({0: 9}, {0: 12}, 0) == {0: 9}
