"""`machines.cursor`: what nobody has looked at, and what is passed over."""

import pytest

from penstock.core.types import Offset
from penstock.machines.cursor import Cursor


def make(end: int, position: int = 0, *skips: tuple[int, int]) -> Cursor:
    pairs = [(Offset(first), Offset(last)) for first, last in skips]
    return Cursor(Offset(position), lambda: Offset(end), pairs)


def covered(cursor: Cursor, end: int) -> list[int]:
    return [offset for offset in range(end + 2) if cursor.covers(Offset(offset))]


def test_everything_from_the_cursor_on_waits() -> None:
    cursor = make(5, 2)
    assert (cursor.next, cursor.waiting) == (2, 3)
    assert covered(cursor, 5) == [2, 3, 4]


def test_at_the_end_nothing_waits() -> None:
    cursor = make(5, 5)
    assert (cursor.next, cursor.waiting) == (None, 0)


def test_taking_stops_at_what_is_skipped_and_goes_on_behind_it() -> None:
    cursor = make(10)
    cursor.skip(Offset(3), Offset(5))
    assert covered(cursor, 10) == [0, 1, 2, 5, 6, 7, 8, 9]
    assert cursor.waiting == 8
    assert cursor.take(9) == (0, 3)
    assert cursor.position == 5
    assert cursor.take(2) == (5, 7)
    assert cursor.take(9) == (7, 10)
    assert cursor.next is None


def test_what_is_skipped_at_the_cursor_is_passed_at_once() -> None:
    cursor = make(10)
    cursor.skip(Offset(1), Offset(2))
    cursor.skip(Offset(0), Offset(1))
    assert (cursor.position, cursor.waiting) == (2, 8)
    assert sorted(cursor.copy_skips().items()) == []


def test_neighbours_that_are_skipped_are_one() -> None:
    cursor = make(99)
    for first in (5, 6, 7, 20, 3):
        cursor.skip(Offset(first), Offset(first + 1))
    assert sorted(cursor.copy_skips().items()) == [(3, 4), (5, 8), (20, 21)]
    again = make(99, 0, *sorted(cursor.copy_skips().items()))
    assert (again.waiting, covered(again, 99)) == (cursor.waiting, covered(cursor, 99))


def test_the_next_that_waits_is_found_from_anywhere() -> None:
    cursor = make(12, 2, (3, 4), (5, 7), (7, 8), (10, 12))
    found = [cursor.next_from(Offset(offset)) for offset in range(14)]
    assert found == [2, 2, 2, 4, 4, 8, 8, 8, 8, 9, 12, 12, 12, 12]


def test_nothing_is_skipped_behind_the_cursor() -> None:
    with pytest.raises(AssertionError, match="behind"):
        make(10, 5).skip(Offset(4), Offset(6))


def test_a_jump_to_the_end_leaves_nothing() -> None:
    cursor = make(10)
    cursor.skip(Offset(4), Offset(6))
    cursor.jump_to_end()
    assert (cursor.position, cursor.waiting, sorted(cursor.copy_skips().items())) == (10, 0, [])


def test_stretches_lie_between_skips() -> None:
    assert list(make(9, 1, (3, 5), (7, 9)).stretches()) == [(1, 3), (5, 7)]
    assert list(make(9, 1, (1, 3)).stretches()) == [(3, 9)]
    assert list(make(9, 9).stretches()) == []
