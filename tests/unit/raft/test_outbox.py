"""Promises wait for the disk, messages do not."""

import pytest

from penstock.core.types import NodeId, Term
from penstock.raft.messages import TimeoutNow
from penstock.raft.outbox import Outbox


def note(term: int) -> TimeoutNow:
    return TimeoutNow(source=NodeId(1), target=NodeId(2), term=Term(term))


def test_a_promise_rides_with_what_it_depends_on() -> None:
    outbox = Outbox()
    outbox.send(note(1))
    outbox.promise(note(2))
    assert outbox.take(must_persist=True) == ((note(1),), (note(2),))
    assert outbox.sequence == 1
    assert outbox.empty


def test_a_promise_is_held_while_an_earlier_write_is_under_way() -> None:
    outbox = Outbox()
    outbox.take(must_persist=True)
    outbox.take(must_persist=True)
    outbox.promise(note(1))
    assert outbox.take(must_persist=False) == ((), ())
    outbox.persisted(1)
    assert outbox.empty
    outbox.persisted(2)
    assert outbox.take(must_persist=False) == ((note(1),), ())


def test_a_promise_with_nothing_under_way_is_a_message() -> None:
    outbox = Outbox()
    outbox.take(must_persist=True)
    outbox.persisted(1)
    outbox.promise(note(1))
    assert outbox.take(must_persist=False) == ((note(1),), ())


def test_only_what_was_issued_can_be_persisted_and_only_once() -> None:
    outbox = Outbox()
    outbox.take(must_persist=True)
    with pytest.raises(AssertionError):
        outbox.persisted(2)
    outbox.persisted(1)
    with pytest.raises(AssertionError):
        outbox.persisted(1)
