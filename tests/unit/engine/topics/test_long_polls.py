"""Long polls are woken for what they wait for, and for nothing after they have gone."""

from penstock.core.types import PartitionId
from penstock.engine.topics.long_polls import LongPolls, Watch


def test_only_those_who_wait_for_it_are_woken() -> None:
    waiting = LongPolls()
    woken: list[str] = []
    waiting.watch([PartitionId(1), PartitionId(2)], lambda: woken.append("both"))
    waiting.watch([PartitionId(2)], lambda: woken.append("second"))
    waiting.wake(PartitionId(1))
    assert woken == ["both"]
    waiting.wake(PartitionId(3))
    assert woken == ["both"]


def test_everybody_is_woken_once() -> None:
    waiting = LongPolls()
    woken: list[str] = []
    waiting.watch([PartitionId(1), PartitionId(2)], lambda: woken.append("both"))
    waiting.watch([PartitionId(3)], lambda: woken.append("third"))
    waiting.wake_all()
    assert sorted(woken) == ["both", "third"]


def test_a_cancelled_watch_leaves_nothing_behind() -> None:
    waiting = LongPolls()
    woken: list[str] = []
    watch = waiting.watch([PartitionId(1)], lambda: woken.append("one"))
    watch.cancel()
    watch.cancel()
    waiting.wake(PartitionId(1))
    assert woken == []
    assert len(waiting) == 0


def test_a_watch_may_cancel_others_while_it_is_woken() -> None:
    waiting = LongPolls()
    watches: list[Watch] = []

    def cancel_all() -> None:
        for watch in watches:
            watch.cancel()

    watches += [waiting.watch([PartitionId(1)], cancel_all) for _ in range(2)]
    waiting.wake(PartitionId(1))
    assert len(waiting) == 0
