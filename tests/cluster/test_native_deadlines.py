"""A deadline holds, and says which of the two it is: nothing happened, or nobody can know."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import pytest

import penstock
from penstock import Client, ClientSettings
from penstock.core.errors import DeadlinePassed, OutcomeUnknown, Unavailable
from tests.cluster.processes import Cluster

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

NODE = 1
SLACK_SECONDS = 2.0
"""How much later than at its deadline a call may come back on a busy machine."""
PATIENCE_SECONDS = 60.0
QUEUE = "orders"


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(tmp_path, nodes=1) as one:
        one.start()
        yield one


def run(
    cluster: Cluster,
    scene: Callable[[Client], Awaitable[None]],
    settings: ClientSettings | None = None,
) -> None:
    async def whole() -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            url = f"penstock://{cluster.bootstrap}"
            async with penstock.connect(url, settings=settings or ClientSettings()) as client:
                await scene(client)

    asyncio.run(whole())


async def in_time(call: Awaitable[object], seconds: float) -> None:
    began = time.monotonic()
    try:
        await call
    finally:
        assert time.monotonic() - began < seconds + SLACK_SECONDS


def test_a_broker_that_took_the_bytes_and_stopped_leaves_the_outcome_unknown(
    cluster: Cluster,
) -> None:
    async def scene(client: Client) -> None:
        queue = client.queue(QUEUE, codec=str)
        await queue.create(partitions=1)
        await queue.send("before")
        cluster.freeze(NODE)
        with pytest.raises(OutcomeUnknown):
            await in_time(queue.send("perhaps", timeout=1.0), 1.0)
        cluster.thaw(NODE)
        await queue.send("after")
        bodies = [message.body for message in await queue.receive(10, wait=5)]
        assert bodies in (["before", "after"], ["before", "perhaps", "after"])

    run(cluster, scene)


def test_an_id_makes_it_safe_to_send_again_what_nobody_knows_of(cluster: Cluster) -> None:
    async def scene(client: Client) -> None:
        queue = client.queue(QUEUE, codec=str)
        await queue.create(partitions=4, deduplication="id")
        await queue.send("before", dedup_id="0", partition=0)
        cluster.freeze(NODE)
        with pytest.raises(OutcomeUnknown):
            await in_time(queue.send("payment", dedup_id="1", timeout=1.0), 1.0)
        cluster.thaw(NODE)
        sent = [await queue.send("payment", dedup_id="1") for _ in range(3)]
        assert len({(one.partition, one.offset) for one in sent}) == 1
        assert sent[1].duplicate
        bodies: list[str] = []
        while messages := await queue.receive(10):
            bodies += [message.body for message in messages]
        assert sorted(bodies) == ["before", "payment"]

    run(cluster, scene)


def test_nobody_there_is_a_deadline_that_passed(cluster: Cluster) -> None:
    async def scene(client: Client) -> None:
        await client.create_queue(QUEUE)
        await client.send(QUEUE, "before")
        (message,) = await client.receive(QUEUE, wait=5)
        cluster.kill(NODE)
        # The first call may find out that the connection is lost, and then it cannot know.
        with pytest.raises((DeadlinePassed, OutcomeUnknown)):
            await in_time(client.send(QUEUE, "x", timeout=0.5), 0.5)
        with pytest.raises(DeadlinePassed):
            await in_time(client.send(QUEUE, "x", timeout=1.0), 1.0)
        with pytest.raises(DeadlinePassed):
            await in_time(client.send_many(QUEUE, ["x"] * 10, timeout=1.0), 1.0)
        with pytest.raises((DeadlinePassed, OutcomeUnknown)):
            await in_time(message.ack(), 3.0)
        with pytest.raises(Unavailable):
            await in_time(client.topics(), 3.0)
        cluster.restart(NODE)
        await client.send(QUEUE, "after")

    run(cluster, scene, ClientSettings(timeout=3.0))


def test_connecting_to_nobody_ends_at_the_deadline(cluster: Cluster) -> None:
    async def scene(client: Client) -> None:
        await client.topics()

    cluster.freeze(NODE)
    began = time.monotonic()
    with pytest.raises(Unavailable):
        run(cluster, scene, ClientSettings(timeout=1.0))
    assert time.monotonic() - began < 1.0 + SLACK_SECONDS
    cluster.thaw(NODE)
    run(cluster, scene)


def test_a_frozen_broker_is_waited_for_if_there_is_time(cluster: Cluster) -> None:
    async def scene(client: Client) -> None:
        await client.create_queue(QUEUE)
        await client.send(QUEUE, "before")
        cluster.freeze(NODE)
        sending = [asyncio.create_task(client.send(QUEUE, f"{n}")) for n in range(20)]
        done, _ = await asyncio.wait(sending, timeout=1.0)
        assert not done
        cluster.thaw(NODE)
        await asyncio.gather(*sending)
        bodies: list[str] = []
        while len(bodies) < 21:
            bodies += [one.body for one in await client.receive(QUEUE, 100, wait=5)]
        assert sorted(bodies) == sorted(["before", *(f"{n}" for n in range(20))])

    run(cluster, scene, ClientSettings(attempt_timeout=0.5))
