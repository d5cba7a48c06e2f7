"""A work group is opened at its first use, on all partitions, once."""

import asyncio
from pathlib import Path

from penstock.core.message import NewMessage
from penstock.engine.delivery.acquisition import AcquireLimits
from penstock.machines.queue_commands import OpenWork
from tests.unit.engine.nodes import Nodes, until


def test_receivers_that_come_together_open_a_group_once(tmp_path: Path) -> None:
    async def play() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        delivery = engine.delivery
        topic = await engine.topics.create_topic("orders", 3, {})
        await until(lambda: bool(engine.topics.catalog.secrets))
        await until(lambda: len(delivery.led(topic)) == 3)
        await delivery.send(topic, [NewMessage(b"x") for _ in range(4)], index=2)
        opened: list[int] = []
        change = delivery._first_use._forwarder.change

        async def note(shard: object, request: object, **more: object) -> object:
            if isinstance(request, OpenWork):
                opened.append(request.partition)
            return await change(shard, request, **more)  # type: ignore[arg-type]

        delivery._first_use._forwarder.change = note  # type: ignore[assignment, method-assign]
        limits = AcquireLimits(1, wait_ms=60_000)
        found = await asyncio.gather(
            *(delivery.acquisition(topic, "audit", limits, "").run() for _ in range(4))
        )
        delivery._first_use._forwarder.change = change  # type: ignore[method-assign]
        assert all(leases and leases[0].index == 2 for leases in found)
        assert sorted(opened) == sorted(topic.partitions)
        await nodes.stop()

    asyncio.run(play())


def test_a_group_is_open_where_nothing_was_received_yet(tmp_path: Path) -> None:
    """Else what another group is done with would be deleted there before this one has seen it."""

    async def play() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        delivery = engine.delivery
        topic = await engine.topics.create_topic("orders", 3, {"queue.delete.acked": "true"})
        await until(lambda: bool(engine.topics.catalog.secrets))
        await until(lambda: len(delivery.led(topic)) == 3)
        for index in range(3):
            await delivery.send(topic, [NewMessage(b"x")], index=index)
        assert len(await delivery.receive(topic, group="audit", wait_ms=60_000)) == 1
        assert all(delivery.work(topic, index, "audit") is not None for index in range(3))
        await nodes.stop()

    asyncio.run(play())
