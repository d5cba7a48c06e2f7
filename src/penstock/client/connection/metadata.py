"""The metadata cache of a client: the leaders of partitions and the addresses of nodes.

It is asked for when it is needed and kept until something shows that it is out of date: a node says
it does not lead, or does not answer. Many callers that find this out at the same time ask once.
"""

import asyncio
from collections.abc import Callable, Coroutine
from typing import TypeVar

from penstock.client.connection.channel import Channel
from penstock.core.errors import InvalidFrame, PenstockError
from penstock.wire.requests import AskCluster, AskTopic, ClusterInfo, TopicInfo

TOPICS_KEPT_MAX = 10_000

T = TypeVar("T")


class Metadata:
    def __init__(self, channel: Channel) -> None:
        self._channel = channel
        self._topics: dict[str, TopicInfo] = {}
        self.known: Callable[[str], TopicInfo | None] = self._topics.get
        """Return the cached metadata of a topic; None if there is none."""
        self._cluster: ClusterInfo | None = None
        self._router: dict[str, asyncio.Task[object]] = {}

    @property
    def version(self) -> str:
        """The broker's, once it was asked for."""
        return "" if self._cluster is None else self._cluster.version

    async def topic(self, name: str, create: str, timeout: float) -> TopicInfo:
        """A topic; it is made if there is none and `create` says as what."""
        found = self._topics.get(name)
        if found is not None:
            return found
        return await self._once(f"topic {create} {name}", lambda: self._ask(name, create, timeout))

    async def _ask(self, name: str, create: str, timeout: float) -> TopicInfo:
        if self._cluster is None:
            await self.cluster(timeout)
        answer, _ = await self._channel.ask(None, AskTopic(name, create), timeout=timeout)
        if not isinstance(answer, TopicInfo):
            raise InvalidFrame(f"a question about a topic was answered with {answer}")
        self.note(answer)
        return answer

    async def topic_at_controller(self, name: str, timeout: float) -> TopicInfo | None:
        """A topic, as the node that leads the catalog knows it; None if it knows none either, or
        cannot be asked."""
        try:
            cluster = await self.cluster(timeout)
            answer, _ = await self._channel.ask(cluster.controller, AskTopic(name), timeout=timeout)
        except PenstockError:
            return None
        if not isinstance(answer, TopicInfo):
            return None
        self.note(answer)
        return answer

    def note(self, info: TopicInfo) -> None:
        """Cache the metadata of a topic from an answer."""
        if len(self._topics) >= TOPICS_KEPT_MAX:
            self._topics.pop(next(iter(self._topics)))
        self._topics[info.name] = info

    async def cluster(self, timeout: float) -> ClusterInfo:
        """Request the list of nodes."""
        return await self._once("cluster", lambda: self._ask_cluster(timeout))

    async def _ask_cluster(self, timeout: float) -> ClusterInfo:
        answer, _ = await self._channel.ask(None, AskCluster(), timeout=timeout)
        if not isinstance(answer, ClusterInfo):
            raise InvalidFrame(f"a question about the cluster was answered with {answer}")
        self._cluster = answer
        self._channel.learn(answer.nodes)
        return answer

    def forget(self, name: str, info: TopicInfo | None = None) -> None:
        """Drop the metadata of a topic and of the cluster, because it is out of date. With `info`,
        only if that is still the cached metadata of the topic."""
        if info is None or self._topics.get(name) is info:
            self._topics.pop(name, None)
            self._cluster = None

    def _answered(self, key: str, task: "asyncio.Task[object]") -> None:
        self._router.pop(key, None)
        if not task.cancelled():
            task.exception()  # The caller may have gone.

    async def _once(self, key: str, ask: Callable[[], Coroutine[object, object, T]]) -> T:
        """Concurrent calls for the same thing share one request."""
        task = self._router.get(key)
        if task is None:
            task = asyncio.create_task(ask())
            self._router[key] = task
            task.add_done_callback(lambda task: self._answered(key, task))
        result: T = await asyncio.shield(task)  # type: ignore[arg-type]
        return result
