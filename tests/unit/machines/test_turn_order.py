"""`machines.turn_order`: who is next."""

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from random import Random

import pytest

from penstock.core.queue_rules import DEFAULT_PRIORITY, PRIORITIES, Priorities
from penstock.core.types import Offset
from penstock.machines.run import Run, State
from penstock.machines.turn_order import FifoOrder, Turns, UnorderedTurns, make_order

STARVED_TURNS_MAX = 303
"""Credits add up to nothing and none is below -55, so whoever waits overtakes all by then."""


class Hall:
    """An order, and the runs it is about; as a work group would use it."""

    def __init__(self, *, fifo: bool = False) -> None:
        self.runs: dict[Offset, Run] = {}
        self.fifo = fifo
        self.order = make_order(self.runs, fifo=fifo)

    def add(self, first: int, length: int = 1, **fields: object) -> Run:
        run = Run(Offset(first), length, State.READY, **fields)  # type: ignore[arg-type]
        self.runs[run.first] = run
        self.order.came(run)
        return run

    def take(self, level: int = DEFAULT_PRIORITY, most: int = 10) -> list[int]:
        taken = self.order.take(level, most, None)
        assert taken is not None
        for run in taken:
            run.state = State.LEASED
            self.order.leased(run)
        return [run.first for run in taken]

    def take_all(self, most: int = 10) -> list[int]:
        taken: list[int] = []
        while levels := self.order.levels(None):
            taken += self.take(levels[0], most)
        return taken

    def give_back(self, *firsts: int) -> None:
        for first in firsts:
            run = self.runs[Offset(first)]
            run.state = State.READY
            self.order.returned(run)
            self.order.readied(run)

    def finish(self, *firsts: int) -> None:
        for first in firsts:
            run = self.runs[Offset(first)]
            if run.state is State.LEASED:
                self.order.returned(run)
            del self.runs[run.first]
            self.order.left(run)

    def delay(self, first: int) -> None:
        self.runs[Offset(first)].state = State.DELAYED


# Standard queues.


def test_without_groups_the_lowest_offset_is_next() -> None:
    hall = Hall()
    for first in (7, 3, 5):
        hall.add(first)
    assert hall.take_all() == [3, 5, 7]


def test_the_highest_level_is_named_first() -> None:
    hall = Hall()
    for first, level in ((1, 2), (2, 9), (3, DEFAULT_PRIORITY)):
        hall.add(first, level=level)
    assert hall.order.levels(None) == [9, DEFAULT_PRIORITY, 2]
    assert hall.take_all() == [2, 3, 1]


def test_the_cursor_stands_at_the_default_level() -> None:
    order = Hall().order
    assert order.levels(Offset(5)) == [DEFAULT_PRIORITY]
    assert order.levels(None) == []
    hall = Hall()
    hall.add(1, level=9)
    hall.add(2, level=0)
    assert hall.order.levels(Offset(5)) == [9, DEFAULT_PRIORITY, 0]


def test_the_cursor_takes_its_turn_by_offset() -> None:
    hall = Hall()
    hall.add(3)
    hall.add(8)
    assert hall.order.take(DEFAULT_PRIORITY, 1, Offset(1)) is None
    assert hall.order.take(DEFAULT_PRIORITY, 1, Offset(5)) == [hall.runs[Offset(3)]]


def test_a_run_that_was_given_back_is_next_again() -> None:
    hall = Hall()
    hall.add(1)
    hall.add(2)
    assert hall.take() == [1]
    hall.give_back(1)
    assert hall.take_all() == [1, 2]


def test_whoever_left_is_passed_over() -> None:
    hall = Hall()
    for first in (1, 2, 3):
        hall.add(first)
    hall.finish(1)
    hall.delay(2)
    assert hall.take_all() == [3]


def test_the_rest_of_a_split_run_keeps_its_place() -> None:
    hall = Hall()
    run = hall.add(1, 5)
    hall.add(9)
    rest = run.split_off(Offset(3))
    hall.runs[rest.first] = rest
    hall.order.was_split(run, rest)
    assert hall.take_all() == [1, 3, 9]


def test_tenants_take_turns() -> None:
    hall = Hall()
    for first in range(6):
        hall.add(first, message_group=b"busy")
    hall.add(6, message_group=b"calm")
    hall.add(7, message_group=b"calm")
    assert hall.take_all() == [0, 6, 1, 7, 2, 3, 4, 5]


def test_a_tenant_with_much_leased_comes_last() -> None:
    hall = Hall()
    for first in range(4):
        hall.add(first, message_group=b"busy")
    assert hall.take_all() == [0, 1, 2, 3]
    hall.add(4, message_group=b"busy")
    hall.add(5, message_group=b"new")
    hall.add(6)
    assert hall.take_all() == [5, 6, 4], "whoever names no group is a tenant, too"


def test_a_tenant_whose_work_is_done_is_not_held_up() -> None:
    hall = Hall()
    for first in (0, 1, 2):
        hall.add(first, message_group=b"a")
    assert hall.take_all() == [0, 1, 2]
    hall.finish(0, 1)
    for first, message_group in ((3, b"a"), (4, b"b"), (5, b"b"), (6, b"b")):
        hall.add(first, message_group=message_group)
    assert hall.take_all() == [4, 3, 5, 6]


def test_a_tenant_whose_message_was_taken_and_not_leased_is_not_forgotten() -> None:
    """It expired on the way; the next one is not held up by it."""
    hall = Hall()
    hall.add(0, message_group=b"a")
    hall.add(1, message_group=b"a")
    taken = hall.order.take(DEFAULT_PRIORITY, 1, None)
    assert taken == [hall.runs[Offset(0)]]
    hall.finish(0)
    assert hall.take_all() == [1]


def test_a_tenant_whose_message_was_taken_and_not_leased_keeps_his_turn() -> None:
    """As one would have it whose order is made anew, of the same runs."""
    hall = Hall()
    for first, message_group in enumerate([b"a", b"a", b"b"]):
        hall.add(first, message_group=message_group)
    assert hall.order.take(DEFAULT_PRIORITY, 1, None) == [hall.runs[Offset(0)]]
    hall.finish(0)
    assert hall.take_all() == [1, 2]


@pytest.mark.parametrize("fifo", [False, True])
def test_what_nobody_looks_at_does_not_pile_up(fifo: bool) -> None:
    """Messages come and expire, and no worker ever asks."""
    hall = Hall(fifo=fifo)
    for first in range(5_000):
        hall.add(first, message_group=b"%d" % (first % 7) if first % 2 or fifo else None)
        if first >= 10:
            hall.finish(first - 10)
    order = hall.order
    if isinstance(order, UnorderedTurns):
        kept = sum(len(heap) for heaps in order._heaps for heap in heaps.values())
        kept += sum(map(len, order._choices))
    else:
        assert isinstance(order, FifoOrder)
        kept = sum(map(len, order._heads))
    assert kept < 200
    assert sorted(hall.take_all()) == list(range(4_990, 5_000))


@pytest.mark.parametrize("fifo", [False, True])
@pytest.mark.parametrize("seed", range(8))
def test_the_order_follows_from_the_runs_alone(fifo: bool, seed: int) -> None:
    """However it came about: one that is made anew from the same runs chooses the same."""
    random = Random(seed)
    hall = Hall(fifo=fifo)
    for number in range(400):
        leased = [run.first for run in hall.runs.values() if run.state is State.LEASED]
        match random.randrange(4):
            case 0:
                hall.add(
                    number,
                    message_group=random.choice([b"a", b"b", b"c"] + [None] * (not fifo)),
                    level=random.choice([2, 4, 6]),
                )
            case 1 if levels := hall.order.levels(None):
                hall.take(random.choice(levels), random.randrange(1, 4))
            case 2 if leased:
                hall.give_back(random.choice(leased))
            case 3 if hall.runs:
                hall.finish(random.choice(list(hall.runs)))
            case _:
                pass
    other = Hall(fifo=fifo)
    for run in sorted(hall.runs.values(), key=lambda run: run.first):
        other.runs[run.first] = Run(
            run.first, 1, run.state, message_group=run.message_group, level=run.level
        )
    other.order = make_order(other.runs, fifo=fifo)
    assert hall.take_all() == other.take_all()


# Lines.


def line(hall: Hall, message_group: bytes, firsts: Sequence[int]) -> None:
    for first in firsts:
        hall.add(first, message_group=message_group)


def test_a_line_moves_in_order_and_as_a_whole() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 4, 5])
    line(hall, b"b", [2, 3])
    assert hall.take(most=2) == [1, 4]
    assert hall.take(most=10) == [2, 3]
    assert hall.order.levels(None) == [], "5 waits for those before it"


def test_a_line_waits_until_nobody_has_a_message_of_it() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 2, 3])
    assert hall.take(most=2) == [1, 2]
    hall.finish(1)
    assert hall.take_all() == []
    hall.finish(2)
    assert hall.take_all() == [3]


def test_a_message_that_was_given_back_is_first_in_its_line() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 2, 3])
    hall.take(most=2)
    hall.give_back(2)
    assert hall.take_all() == []
    hall.give_back(1)
    assert hall.take(most=10) == [1, 2, 3]


def test_a_delayed_head_holds_up_its_line_and_no_other() -> None:
    hall = Hall(fifo=True)
    hall.runs[Offset(1)] = run = Run(Offset(1), 1, State.DELAYED, 99, message_group=b"a")
    hall.order.came(run)
    line(hall, b"a", [2])
    line(hall, b"b", [3])
    assert hall.take_all() == [3]
    run.state = State.READY
    hall.order.readied(run)
    assert hall.take_all() == [1, 2]


def test_a_delayed_message_ends_what_is_taken_from_a_line() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 2, 3])
    hall.delay(2)
    assert hall.take(most=10) == [1]


def test_a_head_that_leaves_lets_the_line_move() -> None:
    hall = Hall(fifo=True)
    hall.runs[Offset(1)] = run = Run(Offset(1), 1, State.DELAYED, 99, message_group=b"a")
    hall.order.came(run)
    line(hall, b"a", [2])
    hall.finish(1)
    assert hall.take_all() == [2]


def test_one_who_comes_back_from_the_dead_stands_where_it_stood() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 2, 3])
    for first in (1, 2):
        hall.finish(first)
    hall.add(2, message_group=b"a")
    hall.add(1, message_group=b"a")
    assert hall.take(most=10) == [1, 2, 3]


def test_a_line_has_the_priority_of_its_head() -> None:
    hall = Hall(fifo=True)
    hall.add(1, message_group=b"a", level=1)
    hall.add(2, message_group=b"a", level=9)
    hall.add(3, message_group=b"b", level=5)
    assert hall.order.levels(None) == [5, 1]
    assert hall.take_all() == [3, 1, 2]


def test_nobody_may_have_one_of_a_line_in_which_another_is_held() -> None:
    hall = Hall(fifo=True)
    line(hall, b"a", [1, 2])
    hall.take(most=1)
    assert hall.order.is_held(hall.runs[Offset(2)])
    hall.finish(1)
    assert not hall.order.is_held(hall.runs[Offset(2)])


# Turns.


def test_strict_means_the_highest_always() -> None:
    turns = Turns()
    assert {turns.choose([9, 4, 0], Priorities.STRICT) for _ in range(50)} == {9}
    assert turns.credits == [0] * PRIORITIES


def test_weighted_means_as_often_as_the_weight_says() -> None:
    turns = Turns()
    levels = list(range(PRIORITIES - 1, -1, -1))
    shares = sum(level + 1 for level in levels)
    chosen = Counter(turns.choose(levels, Priorities.WEIGHTED) for _ in range(shares * 3))
    assert chosen == {level: 3 * (level + 1) for level in levels}


def test_weighted_turns_are_spread_out() -> None:
    turns = Turns()
    chosen = [turns.choose([9, 0], Priorities.WEIGHTED) for _ in range(33)]
    served = [number for number, level in enumerate(chosen) if level == 0]
    assert [b - a for a, b in pairwise(served)] == [11, 11]


@pytest.mark.parametrize("seed", range(10))
def test_nobody_is_never_served(seed: int) -> None:
    """The lowest waits all the time, and whoever else is there changes all the time."""
    random = Random(seed)
    turns = Turns()
    waited = 0
    for _ in range(5_000):
        others = random.sample(range(1, PRIORITIES), random.randrange(1, PRIORITIES))
        chosen = turns.choose([*sorted(others, reverse=True), 0], Priorities.WEIGHTED)
        waited = 0 if chosen == 0 else waited + 1
        assert waited <= STARVED_TURNS_MAX
        assert sum(turns.credits) == 0


def test_what_was_owed_is_owed_after_a_restart() -> None:
    turns = Turns()
    for _ in range(7):
        turns.choose([9, 4, 0], Priorities.WEIGHTED)
    again = Turns(list(turns.credits))
    for _ in range(30):
        levels = [9, 4, 0]
        assert again.choose(levels, Priorities.WEIGHTED) == turns.choose(
            levels, Priorities.WEIGHTED
        )
