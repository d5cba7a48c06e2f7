"""`machines.recent_ids`: who was first, and for how long that is known."""

import pytest

from penstock.core.types import Offset
from penstock.machines import recent_ids
from penstock.machines.recent_ids import ID_BYTES, RecentIds, make_id

A, B, C = make_id(b"a"), make_id(b"b"), make_id(b"c")


def test_the_first_is_remembered_and_the_second_is_a_duplicate() -> None:
    ids = RecentIds()
    assert ids.note(A, Offset(5), 100)
    assert not ids.note(A, Offset(6), 101)
    assert ids.find(A) == 5
    assert ids.find(B) is None


def test_a_time_ends_when_it_began_however_often_the_id_came_again() -> None:
    ids = RecentIds()
    ids.note(A, Offset(5), 100)
    ids.note(A, Offset(6), 190)
    ids.forget(99)
    assert ids.find(A) == 5
    ids.forget(100)
    assert ids.find(A) is None
    assert ids.note(A, Offset(7), 200)


def test_an_id_can_be_too_old_for_somebody() -> None:
    ids = RecentIds()
    ids.note(A, Offset(5), 100)
    assert ids.find(A, after_ms=99) == 5
    assert ids.find(A, after_ms=100) is None


def test_forgetting_takes_only_the_old() -> None:
    ids = RecentIds()
    for one, stamp_ms in ((A, 100), (B, 150), (C, 150)):
        ids.note(one, Offset(stamp_ms), stamp_ms)
    ids.forget(149)
    assert [ids.find(one) for one in (A, B, C)] == [None, 150, 150]
    assert len(ids) == 2
    ids.clear()
    assert len(ids) == 0


def test_beyond_the_bound_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ids, "DEDUPLICATION_IDS_MAX", 2)
    ids = RecentIds()
    for one in (A, B, C):
        assert ids.note(one, Offset(1), 100)
    assert [ids.find(one) for one in (A, B, C)] == [None, 1, 1]


def test_rows_bring_back_everything_in_order() -> None:
    ids = RecentIds()
    ids.note(B, Offset(1), 100)
    ids.note(A, Offset(2), 200)
    again = RecentIds(ids.rows())
    assert again.rows() == ids.rows() == [(B, 1, 100), (A, 2, 200)]
    again.forget(100)
    assert again.rows() == [(A, 2, 200)]


def test_parts_of_an_id_cannot_be_mistaken_for_each_other() -> None:
    made = {make_id(b"ab", b"c"), make_id(b"a", b"bc"), make_id(b"abc"), make_id(b"abc", b"")}
    assert len(made) == 4
    assert {len(one) for one in made} == {ID_BYTES}
