"""A cluster that is played by a test: for each kind of request a function that answers it."""

import asyncio
from collections.abc import Callable, Sequence

from penstock import ClientSettings
from penstock.client.connection.channel import Buffer, Late, Make, OnAnswer
from penstock.client.connection.metadata import Metadata
from penstock.client.connection.request_router import RequestRouter
from penstock.wire.requests import (
    Answer,
    AskCluster,
    AskTopic,
    ClusterInfo,
    NodeInfo,
    Request,
    TopicInfo,
)

Reply = Callable[[int | None, Request], Answer]


class PlayedChannel:
    """Answers as it is told; knows nodes and a topic from the beginning."""

    def __init__(self, topic: TopicInfo | None = None) -> None:
        self.on_late: Late = lambda _node, _request, _answer: None
        self.topic = topic
        self.asked: list[tuple[int | None, Request]] = []
        self.replies: dict[type[Request], Reply] = {
            AskCluster: lambda _node, _request: ClusterInfo("c", 1, 1, "1", ()),
            AskTopic: lambda _node, _request: self._topic(),
        }

    def _topic(self) -> TopicInfo:
        assert self.topic is not None
        return self.topic

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """Nodes are where they always are."""

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        await asyncio.sleep(0)
        self.asked.append((node, request))
        return self.replies[type(request)](node, request), b""

    def begin(self, node: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        """Everything is asked by a task."""
        return False

    async def close(self) -> None:
        """There is nothing to let go of."""


def asking_through(channel: PlayedChannel) -> RequestRouter:
    """What the parts of a client ask with."""
    return RequestRouter(channel, Metadata(channel), ClientSettings(seed=1))


def topic_info(*leaders: int, name: str = "orders", topic_id: bytes = b"1") -> TopicInfo:
    """A topic whose partitions are led by these nodes."""
    return TopicInfo(
        name=name,
        topic_id=topic_id * 16,
        leaders=leaders,
        is_queue=False,
        fifo=False,
        remembers_ids=False,
        reads_headers=False,
        batch_bytes_max=1_000_000,
        configs={},
        created_ms=0,
    )
