"""Leases are given back as far as they are still held."""

import asyncio
from pathlib import Path

from penstock.core.message import NewMessage
from penstock.core.verdicts import Verdict
from tests.unit.engine.nodes import Nodes, until


def test_what_is_left_of_a_lease_is_given_back(tmp_path: Path) -> None:
    async def play() -> None:
        nodes = Nodes(tmp_path, [1])
        await nodes.start()
        engine = nodes[1].engine
        delivery = engine.delivery
        topic = await engine.topics.create_topic("orders", 1, {"queue.order": "standard"})
        await until(lambda: bool(engine.topics.catalog.secrets))
        await delivery.send(topic, [NewMessage(b"%d" % number) for number in range(5)])
        got = await delivery.receive(topic, messages_max=5)
        await delivery.settle(topic, [(got[2].receipt, Verdict.ACK, -1, "")])
        await delivery.give_back(one.receipt.leased for one in got)
        again = await delivery.receive(topic, messages_max=5)
        assert [one.message.value for one in again] == [b"0", b"1", b"3", b"4"]
        assert [one.deliveries for one in again] == [1] * 4, "as if they had not been delivered"
        await delivery.give_back((one.receipt.leased for one in again), Verdict.RELEASE)
        last = await delivery.receive(topic, messages_max=5, wait_ms=60_000)
        assert last[0].deliveries == 2, "a release counts"
        await delivery.give_back([])
        await nodes.stop()

    asyncio.run(play())
