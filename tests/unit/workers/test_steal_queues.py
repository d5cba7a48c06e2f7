"""Shares: stealing, levels, lanes that stay in one hand, and nothing lost whatever happens."""

from random import Random

import pytest

from penstock.workers.steal_queues import StealQueues, Stolen


def filled(workers: int, items: int) -> StealQueues[int]:
    shares: StealQueues[int] = StealQueues()
    for worker in range(workers):
        shares.join(worker)
    for item in range(items):
        shares.put(item)
    return shares


def items(taken: Stolen[str] | None) -> list[str]:
    return [] if taken is None else [taken.item]


def test_idle_workers_are_given_something_first() -> None:
    shares: StealQueues[str] = StealQueues()
    for worker in range(3):
        shares.join(worker)
    woken = [shares.put(item) for item in "abc"]
    assert woken == [0, 1, 2]
    assert shares.idle == 0
    assert [items(shares.take(worker)) for worker in range(3)] == [["a"], ["b"], ["c"]]


def test_a_fast_worker_steals_from_the_longest_share() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0)
    for item in ("a1", "a2", "a3"):
        shares.put(item)
    shares.join(1)
    shares.put("b1")
    taken = shares.take(1)
    assert taken is not None
    assert (taken.item, taken.stolen) == ("b1", False)
    stolen = shares.take(1)
    assert stolen is not None
    assert (stolen.item, stolen.stolen) == ("a3", True), "from the back, where it hurts least"
    own = shares.take(0)
    assert own is not None
    assert (own.item, own.stolen) == ("a1", False)


def test_stealing_ends_when_there_is_nothing() -> None:
    shares = filled(2, 3)
    assert {shares.take(0).item for _ in range(3)} == {0, 1, 2}  # type: ignore[union-attr]
    assert shares.take(0) is None
    assert shares.take(1) is None
    assert shares.idle == 2


def test_the_lowest_level_comes_first_even_if_it_must_be_stolen() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0)
    shares.put("urgent", level=1)
    shares.join(1)
    shares.put("later", level=5)
    taken = shares.take(1)
    assert taken is not None
    assert (taken.item, taken.stolen) == ("urgent", True)


def test_a_reserved_worker_takes_nothing_else() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0, lambda level: level < 3)
    shares.join(1)
    for number in range(4):
        shares.put(f"bulk{number}", level=7)
    assert shares.take(0) is None
    assert shares.waiting(lambda level: level == 7) == 4
    assert shares.put("high", level=0) == 0
    taken = shares.take(0)
    assert taken is not None
    assert taken.item == "high"


def test_a_lane_is_never_in_two_hands() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0)
    shares.join(1)
    for number in (1, 2, 3):
        shares.put(f"x{number}", message_group="x")
    first = shares.take(0)
    assert first is not None
    assert first.item == "x1"
    assert shares.take(1) is None, "the rest of the lane waits for the first"
    assert shares.finish(0) == 0
    second = shares.take(1)
    assert second is not None
    assert (second.item, second.stolen) == ("x2", True)
    assert shares.take(0) is None
    shares.put("x4", message_group="x")
    assert shares.take(0) is None, "what comes later joins its lane"
    shares.finish(1)
    assert shares.take(1).item == "x3"  # type: ignore[union-attr]
    shares.finish(1)
    assert shares.take(0).item == "x4"  # type: ignore[union-attr]
    assert shares.finish(0) is None
    assert shares.put("x5", message_group="x") is not None, (
        "the group was forgotten and starts again"
    )


def test_the_rest_of_a_lane_can_be_taken_away() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0)
    for item in ("x1", "x2", "x3"):
        shares.put(item, message_group="x")
    shares.put("y1", message_group="y")
    assert shares.take(0).item == "x1"  # type: ignore[union-attr]
    assert shares.take_message_group("x") == ["x2", "x3"]
    assert shares.finish(0) is None
    assert shares.take_message_group("y") == ["y1"]
    assert shares.take_message_group("z") == []
    assert shares.take(0) is None
    assert shares.waiting() == 0


def test_whoever_leaves_leaves_its_share() -> None:
    shares = filled(3, 9)
    assert len(shares.leave(1)) == 3
    found = [shares.take(worker) for worker in (0, 2) * 5]
    assert sorted(one.item for one in found if one is not None) == list(range(9))
    with pytest.raises(KeyError):
        shares.take(1)


def test_everything_can_be_taken_back_but_what_is_in_hand() -> None:
    shares: StealQueues[str] = StealQueues()
    shares.join(0)
    shares.join(1)
    for item in ("x1", "x2", "x3"):
        shares.put(item, message_group="x")
    shares.put("a")
    assert shares.take(0).item == "x1"  # type: ignore[union-attr]
    assert sorted(shares.take_all()) == ["a", "x2", "x3"]
    assert shares.waiting() == 0
    shares.put("x4", message_group="x")
    assert shares.take(1) is None, "x1 is still in a hand"
    shares.finish(0)
    assert shares.take(1).item == "x4"  # type: ignore[union-attr]


@pytest.mark.parametrize("seed", range(30))
def test_nothing_is_lost_and_lanes_keep_their_order(seed: int) -> None:
    """Random workers, messages and lanes: everything is done once, each lane in its order."""
    chance = Random(seed)
    shares: StealQueues[tuple[str | None, int]] = StealQueues()
    workers = list(range(4))
    for worker in workers:
        shares.join(worker)
    next_worker, number = 4, 0
    busy: dict[int, str | None] = {}
    done: list[tuple[str | None, int]] = []
    for _ in range(600):
        match chance.randrange(6):
            case 0 | 1:
                message_group = chance.choice([None, "a", "b", "c"])
                shares.put(
                    (message_group, number), level=chance.randrange(3), message_group=message_group
                )
                number += 1
            case 2 | 3:
                worker = chance.choice(workers)
                if worker not in busy and (taken := shares.take(worker)) is not None:
                    message_group, _ = taken.item
                    assert message_group is None or message_group not in busy.values(), "two hands"
                    busy[worker] = message_group
                    done.append(taken.item)
            case 4:
                if busy:
                    worker = chance.choice(list(busy))
                    del busy[worker]
                    shares.finish(worker)
            case 5:
                idle = [worker for worker in workers if worker not in busy]
                if len(workers) > 2 and idle and chance.random() < 0.5:
                    workers.remove(idle[0])
                    shares.leave(idle[0])
                elif len(workers) < 8:
                    workers.append(next_worker)
                    shares.join(next_worker)
                    next_worker += 1
    assert shares.waiting() == number - len(done)
    rest = shares.take_all()
    assert sorted(item for _, item in [*done, *rest]) == list(range(number))
    for message_group in "abc":
        of_lane = [item for name, item in done if name == message_group]
        assert of_lane == sorted(of_lane)
