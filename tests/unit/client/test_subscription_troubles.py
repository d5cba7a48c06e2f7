"""Members read over a bad network: requests do not leave, answers get lost, nodes say they do not
lead. Everything is seen all the same, and nothing that was committed comes back."""

import asyncio
from collections import Counter
from collections.abc import Sequence
from random import Random

import pytest

from penstock import Client, ClientSettings
from penstock.client.connection.channel import Buffer, Late, Make, OnAnswer
from penstock.client.connection.urls import Memory
from penstock.client.reader.positions import TopicPartition
from penstock.client.subscription import Subscription
from penstock.core.errors import (
    IllegalGeneration,
    NotCoordinator,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    RebalanceInProgress,
    Unavailable,
    UnknownMember,
    UnknownTopicId,
)
from penstock.embedded.channel import EmbeddedChannel
from penstock.wire.failures import describe_error
from penstock.wire.group_requests import (
    BeatGroup,
    CommitOffsets,
    JoinGroup,
    LeaveGroup,
    SyncGroup,
)
from penstock.wire.read_requests import Fetch, Fetched, FetchedPart
from penstock.wire.requests import Answer, Append, NodeInfo, Request

pytestmark = pytest.mark.slow

MESSAGES = 1_200
PARTITIONS = 4
PATIENCE_SECONDS = 100
SPARED = (Append, LeaveGroup)
"""Sending is somebody else's test, and who is not heard leaving is waited for."""
OF_ALL_KINDS = {"Unavailable", "OutcomeUnknown", "NotLeader", "UnknownTopicId"}
"""Members go on asking until each of these has happened to them."""
OF_MEMBERS = (BeatGroup, CommitOffsets, JoinGroup, SyncGroup)


class BadNetwork:
    """A channel that fails every so-maniest request, in all the ways there are."""

    def __init__(self, way: EmbeddedChannel, random: Random) -> None:
        self._way = way
        self._random = random
        self.rate = 0.0
        self.on_late: Late = lambda _node, _request, _answer: None
        self.troubles: Counter[str] = Counter()

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        self._way.learn(nodes)

    async def close(self) -> None:
        self.rate = 0.0
        await self._way.close()

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        if isinstance(request, SPARED) or self._random.random() >= self.rate:
            return await self._way.ask(node, request, payload, timeout=timeout)
        error = self._random.choice(self._errors(request))
        self.troubles[type(error).__name__] += 1
        if isinstance(error, OutcomeUnknown):
            await self._way.ask(node, request, payload, timeout=timeout)
        elif isinstance(request, Fetch) and isinstance(error, NotLeader | UnknownTopicId):
            answer, data = await self._way.ask(node, request, payload, timeout=timeout)
            assert isinstance(answer, Fetched)
            return self._fail_one(answer, data, error)
        raise error

    def begin(self, node: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        return self._way.begin(node, make, ended, at_once=at_once)

    def _errors(self, request: Request) -> list[PenstockError]:
        errors: list[PenstockError] = [Unavailable("not now"), OutcomeUnknown("nobody knows")]
        if isinstance(request, OF_MEMBERS):
            errors.append(NotCoordinator("somewhere else"))
        if isinstance(request, BeatGroup):
            errors += [RebalanceInProgress("anew"), IllegalGeneration("late"), UnknownMember("?")]
        if isinstance(request, CommitOffsets):
            errors += [RebalanceInProgress("anew"), IllegalGeneration("late")]
        if isinstance(request, Fetch):
            errors += [NotLeader("another leads"), UnknownTopicId("never heard")]
        return errors

    def _fail_one(
        self, answer: Fetched, data: Buffer, error: PenstockError
    ) -> tuple[Fetched, Buffer]:
        """Let one partition of an answer fail, and the others be."""
        victim = self._random.randrange(len(answer.parts))
        rows, kept, at = [], b"", 0
        for number, row in enumerate(answer.parts):
            if number == victim:
                failure = describe_error(error)
                rows.append(FetchedPart(row.topic_id, row.index, -1, -1, 0, failure))
            else:
                rows.append(row)
                kept += bytes(data[at : at + row.size])
            at += row.size
        return Fetched(tuple(rows)), kept


class Reader:
    """A member that notes what it sees, and what it may not see again."""

    def __init__(self, floor: dict[TopicPartition, int]) -> None:
        self._floor = floor
        self.seen: set[tuple[TopicPartition, int]] = set()
        self.last: dict[TopicPartition, int] = {}

    async def read(self, subscription: Subscription[str]) -> None:
        async for record in subscription:
            place, offset = record.place, record.offset
            assert offset >= self._floor.get(place, 0), f"{record} was committed"
            self.seen.add((place, offset))
            if len(self.seen) % 20 == 0:
                positions = subscription.positions()
                if await subscription.commit():
                    for part, position in positions.items():
                        self._floor[part] = max(self._floor.get(part, 0), position)


async def play(seed: int, rate: float) -> None:
    random = Random(seed)
    networks: list[BadNetwork] = []

    async def open_channel() -> BadNetwork:
        way = await EmbeddedChannel.open(Memory(f"troubles-{seed}"))
        networks.append(BadNetwork(way, random))
        return networks[-1]

    settings = ClientSettings(seed=seed, timeout=30.0, attempt_timeout=1.0)
    async with Client(open_channel, url="memory:", settings=settings) as client:
        await client.create_topic("orders", partitions=PARTITIONS)
        networks[0].rate = rate  # From here on.
        floor: dict[TopicPartition, int] = {}
        readers = [Reader(floor) for _ in range(3)]
        subscriptions = [
            client.subscribe(
                "orders", group="g", codec=str, heartbeat_interval=0.02, fetch_wait=0.05,
                commit_interval=0.05, session_timeout=6.0, rebalance_timeout=2.0,
            )
            for _ in readers
        ]  # fmt: skip
        tasks = [
            asyncio.create_task(reader.read(subscription))
            for reader, subscription in zip(readers, subscriptions, strict=True)
        ]
        topic = client.topic("orders", codec=str)
        for number in range(0, MESSAGES, 40):
            bodies = map(str, range(number, number + 40))
            await topic.send_many(bodies, partition=number // 40 % PARTITIONS)
        wanted = {
            (TopicPartition("orders", index), offset)
            for index, end in (await topic.ends()).items()
            for offset in range(end)
        }
        assert len(wanted) == MESSAGES
        async with asyncio.timeout(PATIENCE_SECONDS):
            while (
                set().union(*(reader.seen for reader in readers)) != wanted
                or not networks[0].troubles.keys() >= OF_ALL_KINDS
            ):
                for task in tasks:
                    if task.done():
                        task.result()
                await asyncio.sleep(0)
        for subscription in subscriptions:
            await subscription.close()
        await asyncio.gather(*tasks)


@pytest.mark.parametrize("seed", [1, pytest.param(2, marks=pytest.mark.long)])
def test_everything_is_seen_and_nothing_committed_comes_back(seed: int) -> None:
    asyncio.run(play(seed, rate=0.1))
