"""Clients publish numbered batches over several topics while whoever leads is killed or frozen.

Two clients publish for each application, each batch of it: the second finds that it is there, or
does what the first has not done. In the end every batch is in every partition once, whole, and in
order, whoever has died in between.
"""

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import penstock
from penstock import Client, ClientSettings
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

TOPICS = {"orders": 4, "bills": 2}
APPLICATIONS = ("import", "audit")
FAULTS = ("kill", "freeze")
PROGRESS_BATCHES = 3
PROGRESS_WITHIN_SECONDS = 60.0
MESSAGES = 5
"""Of each batch in each partition."""


@dataclass
class Books:
    """What clients were told."""

    published: Counter[str] = field(default_factory=Counter)
    """By application: how many batches are known to be there."""
    decided: Counter[tuple[str, int]] = field(default_factory=Counter)
    """How often somebody was told that he has decided a batch."""
    stop: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    def note(self, outcome: penstock.Publication) -> None:
        application, batch = outcome.application, outcome.batch
        self.decided[application, batch] += outcome.is_new
        self.published[application] = max(self.published[application], batch + 1)
        self.news.set()

    async def progress(self) -> None:
        """Wait until every application has published some more."""
        goal = {name: self.published[name] + PROGRESS_BATCHES for name in APPLICATIONS}
        async with asyncio.timeout(PROGRESS_WITHIN_SECONDS):
            while any(self.published[name] < count for name, count in goal.items()):
                self.news.clear()
                await self.news.wait()


def messages(application: str, batch: int) -> list[str]:
    return [f"{application} {batch} {number}" for number in range(MESSAGES)]


async def keep_publishing(client: Client, application: str, books: Books) -> None:
    while not books.stop:
        batch = books.published[application]
        stage = client.open_stage()
        for topic, partitions in TOPICS.items():
            for index in range(partitions):
                await stage.send_many(topic, messages(application, batch), partition=index)
        books.note(await client.publish(application, batch, [await stage.close()]))


async def harm(cluster: Cluster, client: Client, books: Books) -> None:
    """Kill or freeze whoever leads, see that work goes on, and undo it."""
    for number, fault in enumerate(FAULTS):
        described = await client.describe_topic("orders")
        leaders = [one.leader for one in described.partitions if one.leader in cluster.running()]
        victim = leaders[number % len(leaders)]
        await asyncio.to_thread(cluster.kill if fault == "kill" else cluster.freeze, victim)
        await books.progress()
        await asyncio.to_thread(cluster.restart if fault == "kill" else cluster.thaw, victim)
        await books.progress()


async def scenario(cluster: Cluster, books: Books) -> None:
    settings = ClientSettings(timeout=60.0)
    url = f"penstock://{cluster.bootstrap}"
    async with (
        penstock.connect(url, settings=settings) as client,
        penstock.connect(url, settings=settings) as second,
    ):
        for topic, partitions in TOPICS.items():
            await client.create_topic(topic, partitions=partitions)
        async with asyncio.TaskGroup() as group:
            for application in APPLICATIONS:
                for one in (client, second):
                    group.create_task(keep_publishing(one, application, books))
            await books.progress()
            await harm(cluster, client, books)
            books.stop = True
        for application in APPLICATIONS:
            assert await client.last_published(application) == books.published[application] - 1
        for topic, partitions in TOPICS.items():
            for index in range(partitions):
                await check_partition(client, topic, index, books)


async def check_partition(client: Client, topic: str, index: int, books: Books) -> None:
    """Every batch is there once, whole, and in order."""
    found: dict[str, list[str]] = {application: [] for application in APPLICATIONS}
    async for record in client.read(topic, codec=str, partitions=[index]):
        found[record.body.split()[0]].append(record.body)
    for application in APPLICATIONS:
        count = books.published[application]
        expected = [body for batch in range(count) for body in messages(application, batch)]
        assert found[application] == expected, f"{topic} {index}"


def test_each_batch_is_everywhere_once_and_in_order(tmp_path: Path) -> None:
    books = Books()
    with Cluster(tmp_path, nodes=3) as cluster:
        cluster.start()
        asyncio.run(scenario(cluster, books))
        assert cluster.complaints() == []
    assert max(books.decided.values()) == 1, "nobody is told twice that he has decided it"
    assert all(books.published[name] >= len(FAULTS) * PROGRESS_BATCHES for name in APPLICATIONS)
    print(f"{dict(books.published)} batches, {sum(books.decided.values())} decided as told")
