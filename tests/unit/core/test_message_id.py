"""Ids of messages: in the form of a UUID, stable, and no two alike."""

from uuid import RFC_4122, UUID

from penstock.core.message_id import message_id
from penstock.core.types import Offset, TopicId

ORDERS = TopicId(b"orders".ljust(16, b"."))
BILLS = TopicId(b"bills".ljust(16, b"."))


def test_an_id_is_a_uuid_of_our_own_making() -> None:
    made = UUID(message_id(ORDERS, 3, Offset(70_000)))
    assert (made.version, made.variant) == (8, RFC_4122)
    assert str(made) == message_id(ORDERS, 3, Offset(70_000))


def test_an_id_never_changes() -> None:
    """It is kept by clients, and in headers: another build must say the same."""
    assert message_id(ORDERS, 0, Offset(0)) == "f2ea0432-4a89-8288-b864-4c5146680580"


def test_no_two_messages_have_the_same() -> None:
    offsets = (*range(50), 1 << 40, (1 << 63) - 1)
    ids = [
        message_id(topic, index, Offset(offset))
        for topic in (ORDERS, BILLS)
        for index in range(20)
        for offset in offsets
    ]
    assert len(set(ids)) == len(ids)
