"""Pools cover everything, and belong to levels."""

from collections.abc import Mapping

import pytest

from penstock.core.errors import InvalidRequest
from penstock.workers.pools import Layout, Pool, level_of


def test_levels() -> None:
    levels = [level_of(index, priority) for index in (0, 1) for priority in range(9, -1, -1)]
    assert levels == list(range(20))


def test_the_first_pool_that_takes_it_is_its_home() -> None:
    layout = Layout(
        ["q"], {"high": Pool(priorities=range(7, 10), workers=4), "rest": Pool(workers=2)}
    )
    assert layout.home_of(level_of(0, 8)) == "high"
    assert layout.home_of(level_of(0, 6)) == "rest"
    assert layout.accepts("rest", level_of(0, 8)), "it may help"
    assert not layout.accepts("high", level_of(0, 6)), "it is reserved"
    assert layout.homes_of(0) == ["high", "rest"]


def test_pools_of_queues() -> None:
    layout = Layout(
        ["now", "soon"], {"now": Pool(queues=["now"], workers=1), "any": Pool(workers=2)}
    )
    assert layout.homes_of(0) == ["now"]
    assert layout.homes_of(1) == ["any"]


@pytest.mark.parametrize(
    ("pools", "problem"),
    [
        ({"high": Pool(priorities=range(7, 10), workers=4)}, "no pool takes messages of priority"),
        ({"none": Pool(workers=0)}, "cannot have 0 workers"),
        ({"other": Pool(queues=["r"], workers=1)}, "names queue r"),
        ({}, "no pool takes"),
    ],
)
def test_what_cannot_be(pools: Mapping[str, Pool], problem: str) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        Layout(["q"], pools)
