"""`machines.recent_ids`: who was first, and for how long that is known."""

import msgspec
import pytest

from penstock.core.types import Offset
from penstock.machines import recent_ids
from penstock.machines.recent_ids import ID_BYTES, NO_IDS, IdColumns, RecentIds, make_id
from penstock.machines.state_bytes import ByteCount

ALL = 1 << 60
A, B, C = make_id(b"a"), make_id(b"b"), make_id(b"c")


def columns(ids: RecentIds) -> IdColumns:
    return msgspec.msgpack.decode(b"".join(ids.view().pieces()), type=IdColumns)


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
    ids.forget(99, ALL)
    assert ids.find(A) == 5
    ids.forget(100, ALL)
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
    ids.forget(149, ALL)
    assert [ids.find(one) for one in (A, B, C)] == [None, 150, 150]
    assert len(ids) == 2
    ids.clear()
    assert len(ids) == 0


def test_so_many_are_forgotten_and_no_more() -> None:
    ids = RecentIds()
    for number in range(5):
        ids.note(make_id(b"%d" % number), Offset(number), 100 + number)
    assert ids.oldest_ms == 100
    assert ids.forget(103, 3) == 3
    assert ids.oldest_ms == 103
    assert ids.forget(103, 3) == 1
    assert ids.forget(103, 3) == 0
    assert len(ids) == 1
    assert ids.forget(1_000, 3) == 1
    assert ids.oldest_ms is None


def test_an_id_that_counts_no_more_is_new_although_it_is_not_forgotten() -> None:
    total = ByteCount()
    ids = RecentIds(total=total)
    ids.note(A, Offset(5), 100)
    ids.note(B, Offset(6), 100)
    assert not ids.note(A, Offset(7), 150, after_ms=99)
    assert ids.note(A, Offset(8), 150, after_ms=100)
    assert (ids.find(A), ids.find(A, after_ms=100)) == (8, 8)
    assert (len(ids), total.bytes) == (3, 90)
    again = RecentIds(columns(ids), total)
    assert total.bytes == 180
    for one in (ids, again):
        assert one.forget(100, ALL) == 2
        assert (one.find(A), one.find(B)) == (8, None)
        assert not one.note(A, Offset(9), 160, after_ms=100)
        one.clear()
    assert total.bytes == 0


def test_beyond_the_bound_the_oldest_goes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recent_ids, "DEDUPLICATION_IDS_MAX", 2)
    ids = RecentIds()
    for one in (A, B, C):
        assert ids.note(one, Offset(1), 100)
    assert [ids.find(one) for one in (A, B, C)] == [None, 1, 1]
    assert ids.note(B, Offset(2), 200, after_ms=100)
    assert (len(ids), ids.find(B)) == (2, 2)


def test_columns_bring_back_everything_in_order() -> None:
    ids = RecentIds()
    ids.note(B, Offset(1 << 61), 1 << 47)
    ids.note(A, Offset(2), (1 << 48) - 1)
    assert columns(ids).ids == B + A
    again = RecentIds(columns(ids))
    assert columns(again) == columns(ids)
    assert (again.find(B), again.find(A)) == (1 << 61, 2)
    again.forget(1 << 47, ALL)
    assert (again.find(B), again.find(A)) == (None, 2)
    assert not again.note(A, Offset(3), 1 << 48)


def test_columns_are_as_they_are_written_on_disk() -> None:
    ids = RecentIds()
    ids.note(A, Offset(258), 3)
    assert columns(ids).places == b"\x03" + bytes(5) + b"\x02\x01" + bytes(6)


def test_none_are_none() -> None:
    assert columns(RecentIds()) == NO_IDS
    assert len(RecentIds(NO_IDS)) == 0


def test_parts_of_an_id_cannot_be_mistaken_for_each_other() -> None:
    made = {make_id(b"ab", b"c"), make_id(b"a", b"bc"), make_id(b"abc"), make_id(b"abc", b"")}
    assert len(made) == 4
    assert {len(one) for one in made} == {ID_BYTES}


def test_a_view_shows_its_moment_whatever_comes_and_goes() -> None:
    ids = RecentIds()
    for number in range(10_000):
        ids.note(make_id(b"%d" % number), Offset(number), number)
    ids.forget(100, ALL)
    before, view = columns(ids), ids.view()
    ids.forget(9_000, ALL)
    ids.note(A, Offset(10_000), 10_000)
    assert msgspec.msgpack.decode(b"".join(view.pieces()), type=IdColumns) == before
    assert len(columns(ids).ids) == len(ids) * ID_BYTES


def test_bytes_are_counted_over_all_tables() -> None:
    total = ByteCount()
    one, other = RecentIds(total=total), RecentIds(total=total)
    for number in range(5_000):
        one.note(make_id(b"%d" % number), Offset(number), number)
    other.note(A, Offset(0), 0)
    assert total.bytes == 5_001 * 30
    one.forget(1_999, ALL)
    assert total.bytes == 3_001 * 30
    one.clear()
    again = RecentIds(columns(other), total)
    assert total.bytes == 60
    assert len(again) == 1
