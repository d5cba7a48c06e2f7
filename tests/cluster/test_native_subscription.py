"""Three members of a group read while the nodes they need are taken away, one after the other."""

import asyncio
from collections.abc import Callable
from pathlib import Path

import pytest

import penstock
from penstock.client.client import Client
from penstock.client.connection.group_link import GroupLink
from penstock.client.reader.positions import TopicPartition
from penstock.client.record import Record
from penstock.client.subscription import Subscription
from tests.cluster.processes import Cluster
from tests.cluster.waiting import pass_time

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

MESSAGES = 20_000
PORTION = 200
PARTITIONS = 6
PATIENCE_SECONDS = 120
EVERY_SECONDS = 0.02
COMMIT_EVERY = 50
HEARTBEATS_SECONDS = 1.0


class Story:
    """What was sent, what was seen, and how far it was certainly committed."""

    def __init__(self) -> None:
        self.sent: set[str] = set()
        self.seen: set[str] = set()
        self.records = 0
        self.by_member: dict[str, int] = {}
        self.floor: dict[TopicPartition, int] = {}
        self.went_back: list[str] = []

    def note(self, member: str, record: Record[str]) -> None:
        self.seen.add(record.body)
        self.records += 1
        self.by_member[member] = self.by_member.get(member, 0) + 1
        floor = self.floor.get(record.place, 0)
        if record.offset < floor:
            self.went_back.append(f"{member} got {record}, and {floor} was committed")

    def committed(self, positions: dict[TopicPartition, int]) -> None:
        for part, offset in positions.items():
            self.floor[part] = max(self.floor.get(part, 0), offset)


async def send(client: Client, story: Story) -> None:
    """Portions with keys, so that all partitions get some."""
    topic = client.topic("orders", codec=str)
    for first in range(0, MESSAGES, PORTION):
        bodies = [f"order-{number}" for number in range(first, first + PORTION)]
        await topic.send_many(
            [penstock.Outgoing(body, key=body) for body in bodies], timeout=PATIENCE_SECONDS
        )
        story.sent.update(bodies)


async def read(name: str, url: str, story: Story) -> None:
    async with penstock.connect(url) as client:
        subscription: Subscription[str] = client.subscribe(
            "orders", group="readers", codec=str, heartbeat_interval=0.2, client_id=name
        )
        async with subscription:
            count = 0
            async for record in subscription:
                story.note(name, record)
                count += 1
                if count % COMMIT_EVERY == 0:
                    positions = subscription.positions()
                    if await subscription.commit():
                        story.committed(positions)


class Watch:
    """Waits for something to come true; whoever fails meanwhile ends it."""

    def __init__(self, story: Story, tasks: list[asyncio.Task[None]]) -> None:
        self._story = story
        self._tasks = tasks

    async def until_seen(self, count: int, what: str) -> None:
        await self.until(lambda: len(self._story.seen) >= min(count, MESSAGES), what)

    async def until(self, holds: Callable[[], bool], what: str) -> None:
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                while not holds():
                    for task in self._tasks:
                        if task.done():
                            task.result()
                    await asyncio.sleep(EVERY_SECONDS)
        except TimeoutError:
            told = f"{len(self._story.seen)} of {len(self._story.sent)} were read"
            raise AssertionError(f"{what}: not within {PATIENCE_SECONDS} s; {told}") from None


async def coordinator(client: Client) -> int:
    link = GroupLink(client._core.router, "readers")
    return await link._find(10.0)


async def leader(client: Client, partition: int) -> int:
    return (await client.describe_topic("orders")).partitions[partition].leader


def strike(cluster: Cluster, victim: int, harm: str) -> None:
    """Take a node away: at once, in good order, or without anybody being told."""
    if harm == "freeze":
        cluster.freeze(victim)
    elif harm == "stop":
        assert cluster.terminate(victim) == 0
    else:
        cluster.kill(victim)


def mend(cluster: Cluster, victim: int, harm: str) -> None:
    if harm == "freeze":
        cluster.thaw(victim)
    else:
        cluster.restart(victim)


async def play(cluster: Cluster, harm: str) -> Story:
    url = f"penstock://{cluster.bootstrap}"
    story = Story()
    async with penstock.connect(url) as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        names = ("anna", "bert", "cleo")
        readers = [asyncio.create_task(read(name, url, story)) for name in names]
        sending = asyncio.create_task(send(client, story))
        watch = Watch(story, readers)
        try:
            for number, share in enumerate((0.15, 0.35, 0.55, 0.75)):
                await watch.until_seen(int(MESSAGES * share), "some is read")
                victim = await (coordinator(client) if number % 2 else leader(client, number))
                await asyncio.to_thread(strike, cluster, victim, harm)
                more = len(story.seen) + 500
                await watch.until_seen(more, f"reading goes on without node {victim}")
                await asyncio.to_thread(mend, cluster, victim, harm)
            await watch.until(sending.done, "everything is sent")
            await sending
            await watch.until(lambda: story.seen >= story.sent, "everything is read")
            assert (await client.describe_topic("orders")).messages == MESSAGES
        finally:
            for task in (*readers, sending):
                task.cancel()
            await asyncio.gather(*readers, sending, return_exceptions=True)
    return story


HARMS = ["kill", *(pytest.param(harm, marks=pytest.mark.soak) for harm in ("freeze", "stop"))]


@pytest.mark.parametrize("harm", HARMS)
def test_members_read_everything_while_leaders_and_the_coordinator_are_taken_away(
    tmp_path: Path, harm: str
) -> None:
    with Cluster(tmp_path) as cluster:
        cluster.start()
        story = asyncio.run(play(cluster, harm))
        assert cluster.complaints() == []
    assert story.seen == {f"order-{number}" for number in range(MESSAGES)}
    assert story.went_back == []
    assert set(story.by_member) == {"anna", "bert", "cleo"}
    # What is repeated is what was read after the last commit before a node died, at most.
    assert story.records < 1.5 * MESSAGES


def test_what_is_committed_can_be_read_while_the_majority_is_lost(tmp_path: Path) -> None:
    async def scene(cluster: Cluster) -> None:
        async with penstock.connect(f"penstock://{cluster.bootstrap}") as client:
            await client.create_topic("orders", partitions=PARTITIONS)
            topic = client.topic("orders", codec=str)
            for index in range(PARTITIONS):
                await topic.send_many(map(str, range(100)), partition=index)
            # A heartbeat tells the followers what is committed.
            await asyncio.to_thread(pass_time, HEARTBEATS_SECONDS)
            for victim in (2, 3):
                await asyncio.to_thread(cluster.kill, victim)
            count = 0
            async for _ in topic.read():
                count += 1
            assert count == 100 * PARTITIONS
            async with client.subscribe("orders", codec=str) as subscription:
                while count < 200 * PARTITIONS:
                    count += len(await subscription.fetch(wait=1))
                for node in (2, 3):
                    await asyncio.to_thread(cluster.restart, node)
                await topic.send("at last", timeout=PATIENCE_SECONDS)
                (last,) = await subscription.fetch(wait=PATIENCE_SECONDS)
                assert last.body == "at last"

    with Cluster(tmp_path) as cluster:
        cluster.start()
        asyncio.run(asyncio.wait_for(scene(cluster), 2 * PATIENCE_SECONDS))
        assert cluster.complaints() == []
