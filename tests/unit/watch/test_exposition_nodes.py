"""Several nodes: what each exports is its own, and sums over all of them are right."""

import asyncio
from pathlib import Path

import pytest

from penstock.core.message import NewMessage
from penstock.core.topic import Topic
from penstock.core.types import NodeId, ShardId
from penstock.core.verdicts import Verdict
from penstock.engine.cluster.node import Node
from penstock.machines.secrets import RECEIPTS
from penstock.watch.exposition import Exposition
from tests.unit.engine.nodes import Nodes, until
from tests.unit.watch.scraped import Scraped

pytestmark = pytest.mark.slow
NUMBERS = (1, 2, 3)


class Cluster:
    """Three nodes, each with a page."""

    def __init__(self, nodes: Nodes) -> None:
        self.nodes = nodes
        self._pages = {number: Exposition(nodes[number], list) for number in NUMBERS}

    async def scrape(self) -> list[Scraped]:
        """All pages, made anew."""
        found = []
        for number, exposed in self._pages.items():
            await self.nodes[number].sampler.here(fresh=True)
            exposed.forget()
            found.append(Scraped((await exposed.page())[0].decode()))
        return found

    async def work_off(self, topic: Topic, count: int) -> None:
        """Sent through one node, received through another, settled through a third."""
        sender, receiver, settler = (self.nodes[number] for number in NUMBERS)
        messages = [NewMessage(b"work", b"%d" % number) for number in range(count)]
        await sender.delivery.send(topic, messages, protocol="http")
        done = 0
        while done < count:
            leased = await receiver.delivery.receive(topic, messages_max=count, wait_ms=5_000)
            verdicts = [(one.receipt, Verdict.ACK, -1, "") for one in leased]
            await settler.delivery.settle(topic, verdicts)
            done += len(leased)


def total(pages: list[Scraped], name: str, **labels: str) -> float:
    return sum(page.total(name, **labels) for page in pages)


async def transfer(nodes: Nodes, shard: int) -> None:
    """Let another node lead."""
    leader = nodes[1].engine.topics.leader(ShardId(shard)).node
    heir = next(number for number in NUMBERS if number != leader)
    await nodes[leader].cluster.transfer(ShardId(shard), NodeId(heir))

    def has_moved(node: Node) -> bool:
        return node.engine.topics.leader(ShardId(shard)).node == heir

    await until(lambda: all(has_moved(nodes[number]) for number in NUMBERS))
    await nodes.ready()


def test_sums_over_all_nodes_are_right_and_stay_so_when_leaders_change(tmp_path: Path) -> None:
    async def story() -> None:
        nodes = Nodes(tmp_path, NUMBERS)
        await nodes.start()
        await until(
            lambda: all(RECEIPTS in nodes[one].engine.topics.catalog.secrets for one in NUMBERS)
        )
        topic = await nodes[1].engine.topics.create_topic(
            "orders", 4, {"queue.message.headers": "true"}
        )
        await until(
            lambda: all(nodes[one].engine.topics.catalog.topic("orders") for one in NUMBERS)
        )
        cluster = Cluster(nodes)
        await cluster.work_off(topic, 40)
        await nodes[1].delivery.send(topic, [NewMessage(b"left", b"%d" % one) for one in range(9)])
        pages = await cluster.scrape()
        assert total(pages, "penstock_messages_produced_total", protocol="http") == 40
        assert total(pages, "penstock_messages_acked_total", destination="orders") == 40
        assert total(pages, "penstock_queue_messages", queue="orders", state="ready") == 9
        assert total(pages, "queue_depth") == 9
        assert total(pages, "penstock_raft_leader") == 3, "each shard, the catalog's too, has one"
        assert total(pages, "kafka_topic_partitions", topic="orders") == 4
        ends = total(pages, "kafka_topic_partition_current_offset", topic="orders")
        assert ends == 49
        followers = sum("penstock_raft_follower_lag_entries" in page.names for page in pages)
        assert followers >= 1
        for shard in (1, 2):
            await transfer(nodes, shard)
        after = await cluster.scrape()
        for before, now in zip(pages, after, strict=True):
            for name in ("penstock_messages_acked_total", "penstock_messages_produced_total"):
                assert now.total(name) >= before.total(name), "a counter never falls"
        assert total(after, "penstock_messages_acked_total", destination="orders") == 40
        assert total(after, "penstock_queue_messages", queue="orders", state="ready") == 9
        await cluster.work_off(topic, 20)
        last = await cluster.scrape()
        assert total(last, "penstock_messages_acked_total", destination="orders") == 60
        assert total(last, "penstock_messages_produced_total", destination="orders") == 69
        await nodes.stop()

    asyncio.run(story())
