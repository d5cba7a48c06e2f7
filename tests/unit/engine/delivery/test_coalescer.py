"""What many clients ask in one turn of the loop is carried out as one, and told to each.

Time stands still: how long a batch is held is not for the speed of the machine to decide.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.core.errors import InvalidRequest, NotLeader, OutcomeUnknown, PenstockError
from penstock.core.topic import Topic
from penstock.core.types import PartitionId, TopicId
from penstock.engine.delivery import coalescer as coalescing
from penstock.engine.delivery.coalescer import HELD_SECONDS, Coalescer, CoalescingGate
from tests.manual_loop import manual_loop, run_manually

Told = list[Sequence[str] | PenstockError]


def topic(number: int) -> Topic:
    return Topic(
        name=f"topic-{number}",
        topic_id=TopicId(bytes([number]) * 16),
        partitions=(PartitionId(number),),
        configs={},
        created_ms=0,
    )


class Broker:
    """Answers each item with itself in capitals; knows what was asked of it, and may refuse."""

    def __init__(self, gate: CoalescingGate | None = None) -> None:
        self.asked: list[tuple[str, int, list[str]]] = []
        self.refuses: Callable[[Sequence[str]], PenstockError | None] = lambda _items: None
        self.coalescer: Coalescer[str, str] = Coalescer(self._carry, gate)
        self.busy = asyncio.Event()
        self.busy.set()
        """Until it is set, nothing that is asked is done."""

    async def _carry(self, about: Topic, index: int, items: Sequence[str]) -> list[str]:
        self.asked.append((about.name, index, list(items)))
        refusal = self.refuses(items)
        await asyncio.sleep(0)
        await self.busy.wait()
        if refusal is not None:
            raise refusal
        return [item.upper() for item in items]

    def ask(self, items: str, *, about: Topic | None = None, index: int = 0, room: int = 9) -> Told:
        told: Told = []
        self.coalescer.add(
            about or topic(1), index, list(items), told.append, size=len(items), room=room
        )
        assert not told, "told before the call has returned"
        return told


def play(story: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(Broker())

    run_manually(run())


async def until(condition: Callable[[], object]) -> None:
    while not condition():  # noqa: ASYNC110 - what it waits for has no event
        await asyncio.sleep(0)


async def turn(times: int = 8) -> None:
    for _ in range(times):
        await asyncio.sleep(0)


def test_one_turns_requests_are_one() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        told = [broker.ask(items, about=one) for items in ("a", "bc", "d")]
        await turn()
        assert broker.asked == [("topic-1", 0, ["a", "b", "c", "d"])]
        assert told == [[["A"]], [["B", "C"]], [["D"]]]
        later = broker.ask("e", about=one)
        await turn()
        assert broker.asked[1:] == [("topic-1", 0, ["e"])]
        assert later == [["E"]]

    play(story)


def test_other_partitions_and_topics_have_batches_of_their_own() -> None:
    async def story(broker: Broker) -> None:
        one, two = topic(1), topic(2)
        broker.ask("a", about=one)
        broker.ask("b", about=two)
        broker.ask("c", about=one, index=1)
        broker.ask("d", about=one)
        await turn()
        assert broker.asked == [
            ("topic-1", 0, ["a", "d"]),
            ("topic-2", 0, ["b"]),
            ("topic-1", 1, ["c"]),
        ]

    play(story)


def test_a_bag_has_only_so_much_room() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        told = [broker.ask(items, about=one, room=3) for items in ("ab", "c", "d", "efg")]
        await turn()
        assert [items for _, _, items in broker.asked] == [["a", "b", "c"], ["d"], ["e", "f", "g"]]
        assert told == [[["A", "B"]], [["C"]], [["D"]], [["E", "F", "G"]]]

    play(story)


def test_a_topic_that_has_changed_meanwhile_is_another() -> None:
    async def story(broker: Broker) -> None:
        broker.ask("a", about=topic(1))
        broker.ask("b", about=topic(1))
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["b"]]

    play(story)


@pytest.mark.parametrize("error", [NotLeader("try again"), OutcomeUnknown("who knows")])
def test_what_says_nothing_about_the_requests_is_told_to_all(error: PenstockError) -> None:
    async def story(broker: Broker) -> None:
        broker.refuses = lambda _items: error
        one = topic(1)
        told = [broker.ask(items, about=one) for items in ("a", "b")]
        await turn()
        assert len(broker.asked) == 1, "what may have happened is not done twice"
        assert told == [[error], [error]]

    play(story)


def test_a_refusal_is_for_those_who_deserve_it() -> None:
    async def story(broker: Broker) -> None:
        error = InvalidRequest("not this one")
        broker.refuses = lambda items: error if "b" in items else None
        one = topic(1)
        told = [broker.ask(items, about=one) for items in ("a", "bc", "d")]
        await turn(20)
        assert [items for _, _, items in broker.asked] == [
            ["a", "b", "c", "d"],
            ["a"],
            ["b", "c"],
            ["d"],
        ]
        assert told == [[["A"]], [error], [["D"]]]

    play(story)


def test_who_waits_when_the_broker_stops_is_told_so() -> None:
    told: list[Told] = []

    async def story(broker: Broker) -> None:
        told.append(broker.ask("a"))
        await asyncio.sleep(0)

    play(story)
    ((outcome,),) = told
    assert isinstance(outcome, OutcomeUnknown)


def test_what_comes_while_a_bag_is_under_way_is_one_bag_more() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        broker.busy.clear()
        told = [broker.ask("a", about=one)]
        for items in ("b", "c"):
            await turn(2)
            told.append(broker.ask(items, about=one))
        other = broker.ask("x", about=topic(2))
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["x"]]
        assert told == [[], [], []]
        broker.busy.set()
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["x"], ["b", "c"]]
        assert [*told, other] == [[["A"]], [["B"]], [["C"]], [["X"]]]

    play(story)


def test_batches_of_all_kinds_wait_for_each_other_and_go_together() -> None:
    async def run() -> None:
        gate = CoalescingGate()
        one, two, about = Broker(gate), Broker(gate), topic(1)
        one.busy.clear()
        one.ask("a", about=about)
        await turn()
        two.ask("b", about=about)
        one.ask("c", about=about)
        await turn()
        assert not two.asked
        one.busy.set()
        await turn()
        assert two.asked == [("topic-1", 0, ["b"])]
        assert one.asked == [("topic-1", 0, ["a"]), ("topic-1", 0, ["c"])]

    run_manually(run())


def test_a_full_bag_does_not_wait() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        broker.busy.clear()
        broker.ask("a", about=one, room=3)
        await turn()
        for items in ("bc", "de"):
            broker.ask(items, about=one, room=3)
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["b", "c"]]
        broker.busy.set()
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["b", "c"], ["d", "e"]]

    play(story)


def test_no_batch_waits_for_long() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        broker.busy.clear()
        told = [broker.ask("a", about=one)]
        await turn()
        told.append(broker.ask("b", about=one))
        manual_loop().advance(HELD_SECONDS / 2)
        await turn()
        assert len(broker.asked) == 1
        manual_loop().advance(HELD_SECONDS)
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["b"]]
        broker.busy.set()
        await turn()
        assert told == [[["A"]], [["B"]]]
        broker.ask("c", about=one)
        await turn()
        assert [items for _, _, items in broker.asked] == [["a"], ["b"], ["c"]]

    play(story)


def test_those_who_were_there_before_are_waited_for_but_not_for_ever() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)

        async def ask(items: str, turns: int) -> None:
            """Ask again, so many turns after the answer."""
            told = broker.ask(items, about=one)
            await until(lambda: told)
            await turn(turns)
            broker.ask(items.upper(), about=one)

        async with asyncio.TaskGroup() as group:
            for items, turns in (("a", 1), ("b", 2), ("c", 2), ("d", 3), ("e", 40)):
                group.create_task(ask(items, turns))
        await turn()
        assert [items for _, _, items in broker.asked] == [
            ["a", "b", "c", "d", "e"],
            ["A", "B", "C", "D"],
            ["E"],
        ]

    play(story)


def test_where_many_wait_they_begin_before_the_others_are_told(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(coalescing, "ENOUGH", 4)

    async def story(broker: Broker) -> None:
        one = topic(1)
        broker.busy.clear()
        first = broker.ask("a", about=one)
        await turn()
        others = [broker.ask(items, about=one) for items in "bcde"]
        seen: list[bool] = []
        broker.refuses = lambda _items: seen.append(bool(first))
        broker.busy.set()
        await turn(20)
        assert seen == [False]
        assert [first, *others] == [[[item]] for item in "ABCDE"]

    play(story)


def test_what_is_not_of_one_kind_is_not_in_one_bag() -> None:
    async def story(broker: Broker) -> None:
        one = topic(1)
        told: Told = []
        for items, kind in (("a", 1), ("b", 2), ("c", 1)):
            broker.coalescer.add(one, 0, list(items), told.append, size=1, room=9, kind=kind)
        await turn()
        assert [items for _, _, items in broker.asked] == [["a", "c"], ["b"]]

    play(story)


def test_who_waits_for_others_when_the_broker_stops_is_told_so() -> None:
    told: list[Told] = []

    async def story(broker: Broker) -> None:
        one = topic(1)

        def refuses(items: Sequence[str]) -> PenstockError | None:
            if list(items) == ["b"]:
                broker.busy.clear()
            return InvalidRequest("no") if len(items) > 1 else None

        broker.refuses = refuses
        told.extend(broker.ask(items, about=one) for items in "abc")
        await until(lambda: not broker.busy.is_set())

    play(story)
    assert told[0] == [["A"]]
    for (outcome,) in told[1:]:
        assert isinstance(outcome, OutcomeUnknown)
