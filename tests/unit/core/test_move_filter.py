"""Filters: every condition alone, all together, and headers that anybody may have written."""

import pytest

from penstock.core.errors import InvalidRequest
from penstock.core.limits import MOVE_FILTER_CHARACTERS_MAX, MOVE_FILTER_PLACES_MAX
from penstock.core.message import Message
from penstock.core.message_id import message_id
from penstock.core.move_filter import EVERYTHING, MoveFilter, id_of
from penstock.core.types import Offset, TopicId

DEAD = TopicId(b"orders_dlq".ljust(16, b"."))
LETTER = Message(
    Offset(7),
    1_000,
    b"customer-5",
    b'{"amount": 12}',
    (
        ("trace", b"abc-1"),
        ("trace", b"xyz-2"),
        ("penstock-dead-topic", b"orders"),
        ("penstock-dead-group", b"billing"),
        ("penstock-dead-reason", "no such café".encode()),
        ("penstock-dead-ms", b"5000"),
        ("penstock-message-id", b"the-first-id"),
    ),
)
PLAIN = Message(Offset(8), 1_000, None, None)

MEANT = [
    MoveFilter(),
    MoveFilter(reason="such café"),
    MoveFilter(topic="orders", group="billing"),
    MoveFilter(from_ms=5_000, until_ms=5_001),
    MoveFilter(ids=("other", "the-first-id")),
    MoveFilter(places=((2, Offset(6)), (2, Offset(7)))),
    MoveFilter(key="mer-5"),
    MoveFilter(header="trace"),
    MoveFilter(header="trace", header_value="xyz"),
    MoveFilter(body='amount": 1'),
]
NOT_MEANT = [
    MoveFilter(reason="Such"),
    MoveFilter(topic="order"),
    MoveFilter(topic="orders", group="bill"),
    MoveFilter(from_ms=5_001),
    MoveFilter(until_ms=5_000),
    MoveFilter(ids=(message_id(DEAD, 2, Offset(7)),)),
    MoveFilter(places=((1, Offset(7)), (2, Offset(8)))),
    MoveFilter(key="customer-55"),
    MoveFilter(header="Trace"),
    MoveFilter(header="trace", header_value="abc-2"),
    MoveFilter(body="amount: 1"),
    MoveFilter(topic="orders", body="nothing"),
]


@pytest.mark.parametrize("wanted", MEANT)
def test_what_every_condition_holds_for_is_meant(wanted: MoveFilter) -> None:
    assert wanted.matches(DEAD, 2, LETTER)


@pytest.mark.parametrize("wanted", NOT_MEANT)
def test_what_one_condition_does_not_hold_for_is_not(wanted: MoveFilter) -> None:
    assert not wanted.matches(DEAD, 2, LETTER)


def test_a_message_that_says_nothing_is_everything_or_nothing() -> None:
    assert EVERYTHING.matches(DEAD, 0, PLAIN)
    for wanted in MEANT[1:]:
        assert not wanted.matches(DEAD, 0, PLAIN)
    assert MoveFilter(ids=(message_id(DEAD, 0, Offset(8)),)).matches(DEAD, 0, PLAIN)
    assert MoveFilter(from_ms=1_000).matches(DEAD, 0, PLAIN), "it never died, it was sent then"


@pytest.mark.parametrize("said", [b"", b"soon", b"-5", b"9" * 5_000, None, "²".encode()])
def test_a_time_of_death_that_is_none_counts_as_not_said(said: bytes | None) -> None:
    message = Message(Offset(1), 1_000, None, b"", (("penstock-dead-ms", said),))
    assert MoveFilter(from_ms=1_000, until_ms=1_001).matches(DEAD, 0, message)


def test_the_id_of_a_moved_message_is_the_one_it_had() -> None:
    assert id_of(DEAD, 2, LETTER) == "the-first-id"
    assert id_of(DEAD, 2, PLAIN) == message_id(DEAD, 2, Offset(8))


def test_named_places_bound_where_to_look() -> None:
    named = MoveFilter(places=((0, Offset(5)), (0, Offset(9)), (2, Offset(3))))
    assert named.span(0, Offset(100)) == (5, 10)
    assert named.span(0, Offset(7)) == (5, 7)
    assert named.span(1, Offset(100)) == (0, 0)
    assert EVERYTHING.span(1, Offset(100)) == (0, 100)


def test_a_filter_has_bounds() -> None:
    MoveFilter(body="x" * MOVE_FILTER_CHARACTERS_MAX).check()
    places = tuple((0, Offset(number)) for number in range(MOVE_FILTER_PLACES_MAX))
    MoveFilter(places=places).check()
    with pytest.raises(InvalidRequest, match="characters"):
        MoveFilter(body="x" * (MOVE_FILTER_CHARACTERS_MAX + 1)).check()
    with pytest.raises(InvalidRequest, match="one by one"):
        MoveFilter(places=places, ids=("one",)).check()
