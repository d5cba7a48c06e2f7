"""Where work groups stand is the same whichever node is asked."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.errors import UnknownWork
from penstock.core.message import NewMessage
from penstock.core.types import Offset
from penstock.engine.delivery.requests import QueuePlace
from tests.batches import TODAY_MS
from tests.unit.engine.nodes import Nodes, until

pytestmark = pytest.mark.slow


def test_work_groups_are_known_to_every_node(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        topic = await nodes[1].engine.topics.create_topic("orders", 2, {})
        await nodes[1].engine.topics.create_topic("quiet", 2, {})
        await until(lambda: all(node.engine.topics.catalog.topic("orders") == topic
                                for node in nodes.running.values()))  # fmt: skip
        messages = [NewMessage(b"v", timestamp_ms=TODAY_MS + number * 1_000) for number in range(4)]
        await nodes[2].delivery.send(topic, messages, index=0)
        await nodes[3].delivery.open(topic, "workers")
        (delivery,) = await nodes[3].delivery.receive(topic, group="workers")
        assert delivery.message.offset == 0
        open_groups = {partition: ["workers"] for partition in topic.partitions}
        first, second = topic.partitions
        for node in nodes.running.values():
            assert await node.survey.groups() == open_groups
            places = await node.survey.places(topic.partitions, time_ms=TODAY_MS + 1_500)
            start, end = Offset(0), Offset(4)
            workers = {"workers": start}
            assert places[first] == QueuePlace(start, end, workers, at_time=Offset(2))
            assert places[second] == QueuePlace(start, start, workers, at_time=start)
            await node.survey.require(topic, "workers")
            with pytest.raises(UnknownWork, match="orders has no work group idlers"):
                await node.survey.require(topic, "idlers")
        await nodes.stop(1, 2)
        known = await nodes[3].survey.groups()
        assert known.items() <= open_groups.items()
        await nodes.stop()

    asyncio.run(story())
