"""`kafka.share_leases`: ranges that are added, found and dropped."""

import random
from itertools import pairwise

import pytest

from penstock.core.types import Offset
from penstock.kafka import share_leases
from penstock.kafka.share_leases import LATE_MS, Lease, Leases


def lease(first: int, end: int, epoch: int = 1, until_ms: int = 1_000) -> Lease:
    return Lease(Offset(first), Offset(end), epoch, until_ms)


def leases(*ranges: tuple[int, int, int]) -> Leases:
    made = Leases()
    for first, end, epoch in ranges:
        made.add(lease(first, end, epoch), 0)
    return made


def ranges(found: list[Lease] | None) -> list[tuple[int, int, int]] | None:
    return None if found is None else [(one.first, one.end, one.epoch) for one in found]


def test_what_is_leased_is_found_in_pieces() -> None:
    held = leases((10, 20, 2), (0, 10, 1), (30, 40, 3))
    assert ranges(held.find(Offset(5), Offset(15))) == [(5, 10, 1), (10, 15, 2)]
    assert ranges(held.find(Offset(0), Offset(20))) == [(0, 10, 1), (10, 20, 2)]
    for first, end in ((15, 25), (20, 21), (25, 35), (39, 41), (40, 50), (0, 40)):
        assert held.find(Offset(first), Offset(end)) is None
    assert Leases().find(Offset(0), Offset(1)) is None


def test_the_newer_lease_counts() -> None:
    held = leases((0, 10, 1), (3, 5, 2))
    assert ranges(held.all()) == [(0, 3, 1), (3, 5, 2), (5, 10, 1)]
    held.add(lease(0, 10, 3), 0)
    assert ranges(held.all()) == [(0, 10, 3)]


def test_what_is_dropped_leaves_the_rest() -> None:
    held = leases((0, 10, 1), (10, 20, 2), (30, 40, 3))
    held.drop(Offset(5), Offset(12))
    held.drop(Offset(25), Offset(31))
    held.drop(Offset(33), Offset(34))
    assert ranges(held.all()) == [(0, 5, 1), (12, 20, 2), (31, 33, 3), (34, 40, 3)]
    held.drop(Offset(0), Offset(100))
    assert (len(held), held.all()) == (0, [])


def test_it_is_as_a_table_of_offsets_would_be() -> None:
    chance = random.Random(7)
    held, table = Leases(), dict[int, int]()
    for epoch in range(1, 2_000):
        first = chance.randrange(60)
        end = first + chance.randrange(1, 12)
        if chance.random() < 0.5:
            held.add(lease(first, end, epoch), 0)
            table.update(dict.fromkeys(range(first, end), epoch))
        else:
            held.drop(Offset(first), Offset(end))
            for offset in range(first, end):
                table.pop(offset, None)
        found = held.all()
        assert {at: one.epoch for one in found for at in range(one.first, one.end)} == table
        assert all(one.end <= two.first for one, two in pairwise(found))
        whole = held.find(Offset(first), Offset(end))
        assert (whole is not None) == all(offset in table for offset in range(first, end))


def test_what_is_long_over_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(share_leases, "SHARE_SESSION_RANGES_MAX", 4)
    held = Leases()
    for number in range(4):
        held.add(lease(10 * number, 10 * number + 1, 1, until_ms=1_000 * number), 0)
    held.add(lease(100, 101), now_ms=LATE_MS + 1_500)
    assert [one.first for one in held.all()] == [20, 30, 100]
    for number in range(10):
        held.add(lease(200 + 2 * number, 201 + 2 * number, until_ms=1 << 60), 0)
    assert len(held) == 4, "never more than so many, over or not"
