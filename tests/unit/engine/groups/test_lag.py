"""The lag of a group is the same whichever node is asked."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.groups.lag import GroupLag
from penstock.engine.groups.requests import CommitOffsets, OffsetToCommit
from tests.unit.engine.nodes import Nodes, until

pytestmark = pytest.mark.slow


async def _commit(nodes: Nodes, topic: Topic, offsets: list[int]) -> None:
    request = CommitOffsets(
        group="readers",
        offsets=tuple(
            OffsetToCommit(topic.topic_id, index, Offset(offset))
            for index, offset in enumerate(offsets)
        ),
    )
    while True:
        for node in nodes.running.values():
            try:
                await node.engine.groups.coordinator("readers").commit_offsets(request)
            except PenstockError:
                await asyncio.sleep(0)
            else:
                return


async def _lags(nodes: Nodes) -> list[GroupLag]:
    return [await node.lag.group("readers") for node in nodes.running.values()]


def test_the_lag_of_a_group_is_known_to_every_node(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
        for index, count in ((0, 5), (1, 2)):
            for _ in range(count):
                await nodes.produce(topic, index, b"v")
        await _commit(nodes, topic, [3, 2])
        await until(lambda: all(node.engine.topics.catalog.topic("orders") == topic
                                for node in nodes.running.values()))  # fmt: skip
        lags = await _lags(nodes)
        # A follower hears of an end a heartbeat late.
        while any([row.end for row in lag.partitions] != [5, 2] for lag in lags):
            lags = await _lags(nodes)
        first, *others = lags
        assert all(other == first for other in others)
        assert [(row.committed, row.lag) for row in first.partitions] == [(3, 2), (2, 0)]
        assert first.lag == 2
        for node in nodes.running.values():
            assert [line.group for line in await node.lag.groups()] == ["readers"]
        await nodes.stop()

    asyncio.run(story())
