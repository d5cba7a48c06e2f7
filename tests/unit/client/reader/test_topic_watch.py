"""What is believed of topics: a node that has just begun may not know what the others know."""

import asyncio
import re

import pytest

from penstock.client.reader.topic_watch import TopicSight, TopicWatch
from penstock.core.errors import UnknownTopic
from penstock.wire.requests import AskTopics, TopicInfo, TopicRow, TopicRows
from tests.manual_loop import run_manually
from tests.unit.client.played_channel import PlayedChannel, asking_through, topic_info


class Forgetful(PlayedChannel):
    """A cluster whose nodes do not always know the topic."""

    def _topic(self) -> TopicInfo:
        if self.topic is None:
            raise UnknownTopic("there is no topic orders")
        return self.topic


def sight(partitions: int, topic_id: bytes = b"1") -> dict[str, TopicSight]:
    return {"orders": TopicSight(topic_id * 16, partitions)}


@pytest.mark.parametrize("patience", [0.0, 60.0])
def test_a_topic_is_gone_when_it_has_been_missing_for_a_while(patience: float) -> None:
    async def play() -> None:
        channel = Forgetful(topic_info(1, 1))
        watch = TopicWatch(asking_through(channel), "orders", patience=patience)
        deadline = asyncio.get_running_loop().time() + 10
        assert await watch.look(deadline) == sight(2)
        channel.topic = None
        assert await watch.look(deadline) == (sight(2) if patience else {})
        assert await watch.names(deadline) == {"orders"}  # Whether it is there or not.
        channel.topic = topic_info(1, topic_id=b"2")
        assert await watch.look(deadline) == sight(1, b"2")

    run_manually(play())


def test_a_topic_never_shrinks() -> None:
    async def play() -> None:
        channel = PlayedChannel(topic_info(1, 1, 1))
        router = asking_through(channel)
        watch = TopicWatch(router, ["orders"], patience=0.0)
        deadline = asyncio.get_running_loop().time() + 10
        assert await watch.look(deadline) == sight(3)
        channel.topic = topic_info(1, 1)  # Told by a node that has not heard of the third yet.
        assert await watch.look(deadline) == sight(3)
        known = router.metadata.known("orders")
        assert known is not None
        assert known.leaders == (1, 1)

    run_manually(play())


def test_a_pattern_is_for_whole_names() -> None:
    async def play() -> None:
        rows = [TopicRow(name, b"1" * 16, 1, False) for name in ("orders", "orders.old", "jobs")]
        rows.insert(0, TopicRow("__audit", b"2" * 16, 1, False))
        channel = PlayedChannel()
        channel.replies[AskTopics] = lambda _node, _request: TopicRows(tuple(rows))
        watch = TopicWatch(
            asking_through(channel), re.compile("__audit|orders|jobs"), patience=60.0
        )
        deadline = asyncio.get_running_loop().time() + 10
        assert await watch.names(deadline) == {"orders", "jobs"}
        assert watch.only_name is None
        rows.pop()
        assert await watch.names(deadline) == {"orders", "jobs"}  # For a while.

    run_manually(play())
