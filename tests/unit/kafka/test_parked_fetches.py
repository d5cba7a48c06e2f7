"""Fetches that wait: the oldest of each connection is woken."""

from typing import cast

from penstock.kafka.connection import Connection
from penstock.kafka.parked_fetches import ParkedFetches


class Parked:
    def __init__(self) -> None:
        self.leads = 0

    def lead(self) -> None:
        self.leads += 1


ONE, OTHER = cast(Connection, "one"), cast(Connection, "other")


def test_the_next_fetch_leads_when_the_oldest_is_answered() -> None:
    parked = ParkedFetches()
    first, second, third, alone = Parked(), Parked(), Parked(), Parked()
    assert parked.park(ONE, first)
    assert not parked.park(ONE, second)
    assert not parked.park(ONE, third)
    assert parked.park(OTHER, alone)
    parked.leave(ONE, second)
    assert [one.leads for one in (first, second, third, alone)] == [0, 0, 0, 0]
    parked.leave(ONE, first)
    assert [one.leads for one in (first, second, third, alone)] == [0, 0, 1, 0]
    parked.leave(ONE, third)
    parked.leave(OTHER, alone)
    assert len(parked) == 0
    assert parked.park(ONE, first)
