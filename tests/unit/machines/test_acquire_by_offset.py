"""Leasing messages by name, as moves do: these and no others, and it is no delivery."""

from collections.abc import Iterable, Sequence

import pytest

from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages
from penstock.core.queue_rules import Deduplication, QueueRules, WorkRules
from penstock.core.types import Offset
from penstock.core.verdicts import Outcome, Verdict
from penstock.machines.queue_commands import Settlement
from penstock.machines.queue_headers import read_delivery_headers
from penstock.machines.run import Run, State
from penstock.machines.work import WorkGroup

LEASE_MS = 1_000


class Worked:
    """A work group on a partition of ten messages."""

    def __init__(
        self,
        queue: QueueRules | None = None,
        rules: WorkRules | None = None,
        runs: Sequence[Run] = (),
    ) -> None:
        self.end = Offset(0 if runs else 10)
        self.work = WorkGroup(
            Offset(0), rules or WorkRules(), queue or QueueRules(), lambda: self.end
        )
        self.end = Offset(10)
        self.work.add(runs, ())

    def claim(self, *offsets: int, now_ms: int = 0) -> list[int]:
        """The offsets that were leased."""
        wanted = tuple(map(Offset, offsets))
        _, granted = self.work.acquire(len(wanted), LEASE_MS, now_ms, wanted)
        return _offsets(granted)

    def acquire(self, most: int, now_ms: int = 0) -> list[int]:
        return _offsets(self.work.acquire(most, LEASE_MS, now_ms)[1])

    def settle(self, offset: int, verdict: Verdict, now_ms: int = 0) -> Outcome:
        run = self.work.run_at(Offset(offset))
        assert run is not None
        one = Settlement(Offset(offset), Offset(offset + 1), run.epoch, verdict, 0)
        outcome = self.work.settle(one, now_ms)
        self.check()
        return outcome

    def check(self) -> None:
        work = self.work
        parts = (work.ready, work.leased, work.delayed, work.dead, work.tally.total)
        assert work.sent == sum(parts) == 10


def _offsets(granted: Iterable[tuple[int, int, int, int]]) -> list[int]:
    return [offset for first, end, *_ in granted for offset in range(first, end)]


def line(*offsets: int, message_group: bytes = b"g") -> list[Run]:
    return [Run(Offset(offset), 1, State.READY, message_group=message_group) for offset in offsets]


def test_these_and_no_others_are_leased() -> None:
    worked = Worked()
    assert worked.claim(7, 2, 3, 20) == [7, 2, 3]
    worked.check()
    assert worked.claim(2, 4) == [4], "nobody gets what somebody has"
    assert worked.acquire(10) == [0, 1, 5, 6, 8, 9]
    assert [worked.settle(offset, Verdict.ACK) for offset in (7, 2)] == [0, 0]
    assert worked.claim(7, 2) == [], "nor what is done"
    assert worked.work.start == 0


def test_what_is_at_the_cursor_moves_it() -> None:
    worked = Worked()
    assert worked.claim(0, 1) == [0, 1]
    assert (worked.work.cursor, worked.work.start) == (2, 0)
    worked.settle(0, Verdict.ACK)
    worked.settle(1, Verdict.ACK)
    assert worked.work.start == 2


def test_it_is_no_delivery() -> None:
    worked = Worked(rules=WorkRules(deliveries_max=1))
    for _ in range(3):
        assert worked.claim(4) == [4]
        assert worked.settle(4, Verdict.RELEASE) is Outcome.DONE
    assert worked.work.dead == 0
    worked.work.acquire(1, LEASE_MS, 5, (Offset(5),))
    run = worked.work.run_at(Offset(5))
    assert run is not None
    assert (run.deliveries, run.first_ms) == (0, 5)


def test_what_was_released_or_lost_is_delivered_in_its_order() -> None:
    worked = Worked()
    worked.claim(3, 4)
    worked.settle(4, Verdict.RELEASE)
    assert worked.work.turn(LEASE_MS) == (1, True)
    assert worked.acquire(6, now_ms=LEASE_MS) == [0, 1, 2, 3, 4, 5]


def test_a_paused_queue_can_be_moved_and_bounds_hold() -> None:
    worked = Worked(QueueRules(paused=True), WorkRules(in_flight_max=2))
    assert worked.acquire(1) == []
    assert worked.claim(5, 6, 7) == [5, 6]
    assert worked.claim(8) == []


@pytest.mark.parametrize("delayed", [True, False])
def test_one_that_waits_for_its_time_can_be_leased(delayed: bool) -> None:
    at_ms, state = (500, State.DELAYED) if delayed else (-1, State.READY)
    worked = Worked(runs=[Run(Offset(2), 3, state, at_ms)])
    assert worked.claim(3) == [3]
    worked.check()
    worked.settle(3, Verdict.ACK)
    worked.work.turn(500)
    assert worked.acquire(10, now_ms=500) == [0, 1, 2, 4, 5, 6, 7, 8, 9]


def test_a_line_is_in_one_hand() -> None:
    runs = [*line(*range(6)), *line(*range(6, 10), message_group=b"h")]
    worked = Worked(QueueRules(fifo=True), runs=runs)
    assert worked.acquire(1) == [0]
    assert worked.claim(2, 7, 8) == [7, 8], "somebody has the head of the first line"
    worked.settle(0, Verdict.ACK)
    assert worked.claim(3, 1) == [3, 1], "nobody has anything of it now"
    assert worked.acquire(10) == []
    worked.settle(3, Verdict.ACK)
    assert worked.acquire(10) == [], "the line is still in one hand"
    worked.settle(1, Verdict.RELEASE)
    assert worked.acquire(10) == [1, 2, 4, 5]


def test_a_moved_message_is_told_apart_by_its_origin_alone() -> None:
    """One that died goes back to where it was sent: that its body was seen there means nothing."""
    rules = QueueRules(delivery_headers=True, deduplication=Deduplication.CONTENT)
    origin = (("penstock-origin", b"there"),)
    batch = bytes(build_messages([NewMessage(b"v"), NewMessage(b"v", headers=origin)], 0))
    plain, moved = read_delivery_headers(batch, Offset(0), 2, rules, 0)
    assert plain.dedup is not None
    assert (moved.dedup, moved.origin is None) == (None, False)
