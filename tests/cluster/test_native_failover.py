"""A client of three nodes sends and receives while whoever leads is killed or frozen, repeatedly.

Nothing of that reaches the caller: no exception, since every deadline is longer than an election;
and nothing is lost, since what was acknowledged is on a majority of disks. Each message is stored
once, however often it had to be sent; it may be delivered twice, as at-least-once has it.
"""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

import penstock
from penstock import Client, ClientSettings
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

QUEUE = "orders"
PARTITIONS = 4
FAULTS = ("kill", "freeze")
PROGRESS_MESSAGES = 200
"""So many messages must be acknowledged and so many received after each fault."""
PROGRESS_WITHIN_SECONDS = 60.0
UNDER_WAY_MAX = 2_000
"""Senders wait for receivers, so that the end is not a long one."""
CHUNK = 50


@dataclass
class Ledger:
    """What clients were told."""

    acked: set[str] = field(default_factory=set)
    received: Counter[str] = field(default_factory=Counter)
    stored: Counter[str] = field(default_factory=Counter)
    """What is in the log in the end."""
    missing: set[str] = field(default_factory=set)
    """Acknowledged and not received yet."""
    stop: bool = False
    news: asyncio.Event = field(default_factory=asyncio.Event)

    async def until(self, condition: Callable[[], bool]) -> None:
        """Look whenever something was noted; whoever calls has the deadline."""
        while not condition():
            self.news.clear()
            await self.news.wait()

    def note_end(self) -> None:
        self.stop = True
        self.news.set()

    def note_acked(self, bodies: list[str]) -> None:
        self.acked.update(bodies)
        self.missing.update(body for body in bodies if body not in self.received)
        self.news.set()

    def note_received(self, bodies: list[str]) -> None:
        self.received.update(bodies)
        self.missing.difference_update(bodies)
        self.news.set()

    async def pause(self) -> None:
        """Let the receivers catch up."""
        await self.until(lambda: len(self.missing) <= UNDER_WAY_MAX or self.stop)


async def send_one_by_one(client: Client, ledger: Ledger) -> None:
    queue = client.queue(QUEUE, codec=str)
    number = 0
    while not ledger.stop:
        await ledger.pause()
        bodies = [f"one {number + step}" for step in range(10)]
        await asyncio.gather(*[queue.send(body, key=body) for body in bodies])
        ledger.note_acked(bodies)
        number += len(bodies)


async def send_many(client: Client, ledger: Ledger) -> None:
    queue = client.queue(QUEUE, codec=str)
    number = 0
    while not ledger.stop:
        await ledger.pause()
        bodies = [f"many {number + step}" for step in range(CHUNK)]
        assert len(await queue.send_many(bodies)) == CHUNK
        ledger.note_acked(bodies)
        number += CHUNK


async def receive_and_ack(client: Client, ledger: Ledger) -> None:
    queue = client.queue(QUEUE, codec=str)
    while not (ledger.stop and not ledger.missing):
        messages = await queue.receive(CHUNK, wait=0.5)
        ledger.note_received([message.body for message in messages])
        if messages:
            await queue.ack(messages)


async def iterate_and_ack(client: Client, ledger: Ledger) -> None:
    async with client.queue(QUEUE, codec=str).consume(prefetch=20) as consumer:
        while not (ledger.stop and not ledger.missing):
            for message in await consumer.receive(10, wait=0.5):
                ledger.note_received([message.body])
                await message.ack()


async def harm(cluster: Cluster, client: Client, ledger: Ledger) -> None:
    """Kill or freeze whoever leads the queue's partitions, see that work goes on, and undo it."""
    for number, fault in enumerate(FAULTS):
        described = await client.describe_topic(QUEUE)
        leaders = [one.leader for one in described.partitions if one.leader in cluster.running()]
        victim = leaders[number % len(leaders)]
        await asyncio.to_thread(cluster.kill if fault == "kill" else cluster.freeze, victim)
        await progress(ledger)
        await asyncio.to_thread(cluster.restart if fault == "kill" else cluster.thaw, victim)
        await progress(ledger)


async def progress(ledger: Ledger) -> None:
    """Wait until messages have been acknowledged and received since now."""
    acked, received = len(ledger.acked), ledger.received.total()
    async with asyncio.timeout(PROGRESS_WITHIN_SECONDS):
        await ledger.until(
            lambda: (
                len(ledger.acked) >= acked + PROGRESS_MESSAGES
                and ledger.received.total() >= received + PROGRESS_MESSAGES
            )
        )


async def scenario(cluster: Cluster, ledger: Ledger) -> None:
    settings = ClientSettings(timeout=60.0)
    url = f"penstock://{cluster.bootstrap}"
    async with penstock.connect(url, settings=settings) as client:
        await client.create_queue(
            QUEUE,
            partitions=PARTITIONS,
            lease=5,
            deliveries_max=0,
            retry="none",
            settings={"queue.delete.acked": "false"},
        )
        async with asyncio.TaskGroup() as group:
            for work in (send_one_by_one, send_many, receive_and_ack, iterate_and_ack):
                group.create_task(work(client, ledger))
            await progress(ledger)
            await harm(cluster, client, ledger)
            ledger.note_end()
        async for record in client.read(QUEUE, codec=str):
            ledger.stored[record.body] += 1


def test_no_exception_reaches_the_caller_and_nothing_is_lost(tmp_path: Path) -> None:
    ledger = Ledger()
    with Cluster(tmp_path, nodes=3) as cluster:
        cluster.start()
        asyncio.run(scenario(cluster, ledger))
        assert cluster.complaints() == []
    assert ledger.missing == set()
    assert ledger.stored.keys() == ledger.acked
    assert set(ledger.stored.values()) == {1}, "what was sent again was stored again"
    assert len(ledger.acked) >= len(FAULTS) * 2 * PROGRESS_MESSAGES
    again = sum(count - 1 for count in ledger.received.values())
    print(f"{len(ledger.acked)} sent, {again} delivered more than once")
