"""What many clients ask in one turn of the loop is carried out as one, and told to each."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pytest

from penstock.core.errors import InvalidRequest, NotLeader, OutcomeUnknown, PenstockError
from penstock.core.types import PartitionId, TopicId
from penstock.engine.gathering import Gathering
from penstock.machines.catalog import Topic

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

    def __init__(self) -> None:
        self.asked: list[tuple[str, int, list[str]]] = []
        self.refuses: Callable[[Sequence[str]], PenstockError | None] = lambda _items: None
        self.gathering: Gathering[str, str] = Gathering(self._carry)
        self.told: dict[str, Told] = {}

    async def _carry(self, about: Topic, index: int, items: Sequence[str]) -> list[str]:
        self.asked.append((about.name, index, list(items)))
        refusal = self.refuses(items)
        await asyncio.sleep(0)
        if refusal is not None:
            raise refusal
        return [item.upper() for item in items]

    def ask(self, items: str, *, about: Topic | None = None, index: int = 0, room: int = 9) -> Told:
        told: Told = []
        self.gathering.add(
            about or topic(1), index, list(items), told.append, size=len(items), room=room
        )
        assert not told, "told before the call has returned"
        return told


def play(story: Callable[[Broker], Coroutine[Any, Any, None]]) -> None:
    async def run() -> None:
        await story(Broker())

    asyncio.run(run())


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


def test_other_partitions_and_topics_have_bags_of_their_own() -> None:
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
