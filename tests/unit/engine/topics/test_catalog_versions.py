"""The catalog uses a new version when it is first needed and every node knows it, not before."""

import asyncio
from itertools import pairwise
from pathlib import Path

import pytest

from penstock.core import delivery_headers
from penstock.core.errors import Unavailable, UnsupportedVersion
from penstock.core.verdicts import Verdict
from penstock.engine.topics.catalog_versions import CATALOG_VERSION
from tests.unit.engine.letters import letters
from tests.unit.engine.nodes import PATIENCE_SECONDS, Nodes, until

pytestmark = pytest.mark.slow

LEASE = "queue.lease.ms"
QUEUE = {"queue.deliveries.max": "3"}


def test_the_first_setting_of_a_work_group_raises_the_version(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        node = nodes[1]
        topic = await node.topics.create_topic("orders", 1, QUEUE)
        await node.groups.configure_group("g", {"share.delivery.count.limit": "4"})
        assert node.topics.catalog.version == 1, "release 0.1 knows all of this"
        await node.groups.configure_group("g", {LEASE: "9000"}, validate_only=True)
        assert node.topics.catalog.version == 1, "nothing was to change"
        await node.groups.configure_work_group(topic, "g", {LEASE: "8000"})
        everyone = list(nodes.running.values())
        await until(lambda: all(one.groups.work_configs(topic, "g") for one in everyone))
        assert {one.topics.catalog.version for one in everyone} == {2}
        for one in nodes.running.values():
            rules = one.topics.catalog.work_settings(topic, "g").rules
            assert (rules.lease_ms, rules.deliveries_max) == (8_000, 4)
        await nodes.stop()
        await nodes.start()
        await until(lambda: nodes[2].groups.work_configs(topic, "g") == {LEASE: "8000"})
        await nodes.stop()

    asyncio.run(story())


def test_a_node_that_does_not_know_the_version_keeps_it_out_of_use(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        node = nodes[1]
        topic = await node.topics.create_topic("orders", 1, QUEUE)
        known = nodes[2].calls._served.pop(CATALOG_VERSION.name)  # As a node of release 0.1.
        with pytest.raises(UnsupportedVersion, match="node 2 runs an older version"):
            await node.groups.configure_work_group(topic, "g", {LEASE: "8000"})
        with pytest.raises(UnsupportedVersion, match="node 2 runs an older version"):
            await node.groups.configure_group("g", {LEASE: "8000"})
        assert {one.topics.catalog.version for one in nodes.running.values()} == {1}
        nodes[2].calls._served[CATALOG_VERSION.name] = known
        await nodes.stop(3)
        await until(lambda: 3 not in node.topics.alive())
        with pytest.raises(Unavailable, match="node 3 cannot be asked"):
            await node.groups.configure_work_group(topic, "g", {LEASE: "8000"})
        await nodes.start(3)
        await until(lambda: 3 in node.topics.alive())
        await node.groups.configure_work_group(topic, "g", {LEASE: "8000"})
        assert node.groups.work_configs(topic, "g") == {LEASE: "8000"}
        await nodes.stop()

    asyncio.run(story())


def test_a_group_keeps_its_settings_and_its_dead_letters_after_a_failover(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, [1, 2, 3])
        await nodes.start()
        configs = {
            "queue.deliveries.max": "3",
            "queue.retry.policy": "fixed",
            "queue.retry.delay.ms": "1000",
            "queue.dead.letter.topic": "failed",
        }
        topic = await nodes[1].topics.create_topic("orders", 1, configs)
        await nodes[1].delivery.open(topic, "emails")
        await nodes.produce(topic, 0, b"body")
        shard = nodes[1].topics.shard_of(topic.partitions[0])
        times: list[int] = []
        for delivery in (1, 2, 3):
            node = next(iter(nodes.running.values()))
            (one,) = await node.delivery.receive(topic, group="emails", wait_ms=30_000)
            assert one.deliveries == delivery
            times.append(node.topics.clock.monotonic_ms())
            await node.delivery.settle(topic, [(one.receipt, Verdict.RELEASE, -1, "")])
            if delivery == 1:
                await nodes.stop(node.topics.leader(shard).node)
        assert all(later - sooner >= 1_000 for sooner, later in pairwise(times))
        node = next(iter(nodes.running.values()))
        async with asyncio.timeout(PATIENCE_SECONDS):
            while True:
                if (await node.delivery.counts(topic, "emails")).moved:
                    break
                await asyncio.sleep(0)
        await until(lambda: node.topics.catalog.topic("failed") is not None)
        (letter,) = await letters(node, "failed")
        assert letter.header(delivery_headers.DEAD_GROUP) == b"emails"
        assert letter.header(delivery_headers.DEAD_DELIVERIES) == b"3"
        assert letter.header(delivery_headers.DEAD_REASON) == b"too many deliveries"
        assert letter.header(delivery_headers.DEAD_OFFSET) == b"0"
        await nodes.stop()

    asyncio.run(story())
