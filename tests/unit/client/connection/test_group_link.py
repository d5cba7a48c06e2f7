"""The way to a coordinator that moves."""

import asyncio

import pytest

from penstock.client.connection.group_link import GroupLink
from penstock.core.errors import (
    DeadlinePassed,
    NotCoordinator,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    Unavailable,
)
from penstock.core.types import NodeId
from penstock.wire.group_requests import AskCoordinator, BeatGroup, CoordinatorInfo
from penstock.wire.requests import Answer, AskCluster, Done, Request
from tests.unit.client.played_channel import PlayedChannel, asking_through

BEAT = BeatGroup("g", "me", None, 1)


class Moving(PlayedChannel):
    """A group that is looked after by one node after the other."""

    def __init__(self, *coordinators: int) -> None:
        super().__init__()
        self.coordinators = list(coordinators)
        self.troubles: list[PenstockError] = []
        self.replies[AskCoordinator] = lambda _node, _request: CoordinatorInfo(self._next())
        self.replies[BeatGroup] = self._beat

    def _next(self) -> int:
        return self.coordinators.pop(0) if len(self.coordinators) > 1 else self.coordinators[0]

    def _beat(self, _node: int | None, _request: Request) -> Answer:
        if self.troubles:
            raise self.troubles.pop(0)
        return Done()

    def beats(self) -> list[int | None]:
        return [node for node, request in self.asked if isinstance(request, BeatGroup)]

    def count(self, kind: type[Request]) -> int:
        return sum(isinstance(request, kind) for _, request in self.asked)


def test_the_coordinator_is_looked_for_once() -> None:
    async def play() -> None:
        channel = Moving(2)
        link = GroupLink(asking_through(channel), "g")
        for _ in range(3):
            await link.ask(BEAT, Done)
        assert channel.beats() == [2, 2, 2]
        assert channel.count(AskCoordinator) == 1

    asyncio.run(play())


def test_one_that_names_another_is_believed() -> None:
    async def play() -> None:
        channel = Moving(2)
        channel.troubles = [NotCoordinator("node 3 does", leader=NodeId(3))]
        link = GroupLink(asking_through(channel), "g")
        with pytest.raises(NotCoordinator):
            await link.ask(BEAT, Done)
        await link.ask(BEAT, Done)
        assert channel.beats() == [2, 3]
        assert channel.count(AskCoordinator) == 1

    asyncio.run(play())


@pytest.mark.parametrize("trouble", [Unavailable("gone"), OutcomeUnknown("silent")])
def test_one_that_does_not_answer_is_looked_for_anew(trouble: PenstockError) -> None:
    async def play() -> None:
        channel = Moving(2, 3)
        channel.troubles = [trouble]
        link = GroupLink(asking_through(channel), "g")
        await link.ask_until(BEAT, Done, deadline=link.router.deadline(10))
        assert channel.beats() == [2, 3]
        assert channel.count(AskCluster) == 1  # Nodes may have moved, too.

    asyncio.run(play())


def test_a_group_without_a_coordinator_is_waited_for_until_the_deadline() -> None:
    async def play() -> None:
        channel = Moving(0, 0, 2)
        link = GroupLink(asking_through(channel), "g")
        await link.ask_until(BEAT, Done, deadline=link.router.deadline(10))
        assert channel.beats() == [2]
        nobody = GroupLink(asking_through(Moving(0)), "g")
        with pytest.raises(DeadlinePassed, match="coordinator of group g"):
            await nobody.ask_until(BEAT, Done, deadline=nobody.router.deadline(0.1))

    asyncio.run(play())


def test_a_rebalance_is_an_answer() -> None:
    async def play() -> None:
        channel = Moving(2)
        channel.troubles = [RebalanceInProgress("anew")]
        link = GroupLink(asking_through(channel), "g")
        with pytest.raises(RebalanceInProgress):
            await link.ask_until(BEAT, Done, deadline=link.router.deadline(10))
        await link.ask(BEAT, Done)
        assert channel.beats() == [2, 2]

    asyncio.run(play())
