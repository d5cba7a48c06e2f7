"""One queue as a crew sees it: messages come, leases last, and what is not wanted goes back.

It is a `Consumer` with what a crew needs to know about the queue besides: whether order counts,
whether the queue has a retry policy of its own, and how long a lease lasts.

Lanes. In a FIFO queue a message's lane is its message group, or else its key, as at the broker. All
leased messages of a lane came in one answer, because the broker gives no more of a lane while one
of its messages is leased. So when one of them fails, what is behind it is in the crew's hands or in
the consumer's buffer, and `hold` followed by `resume` gets rid of the latter.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from penstock.client.client import Client
from penstock.client.codecs import Codec
from penstock.client.consumer import Consumer
from penstock.client.descriptions import QueueDescription, QueueStats
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.client.settler import Settler
from penstock.core.errors import UnknownPartition, UnknownTopic
from penstock.workers.task import Task

LEASE_SECONDS = 30.0
"""Of a queue that says nothing else."""
OPEN_ATTEMPTS = 50
OPEN_PAUSE_SECONDS = 0.05
"""A queue that is being made has its name before it has its partitions."""


class Source:
    """See the top of this module; `open` before anything else."""

    def __init__(self, client: Client, name: str, task: Task[Callable[..., object]]) -> None:
        self.name = name
        self._client = client
        self._options = task.options
        codec: Codec[Any] | type[Any] | None = task.codec  # type: ignore[assignment]
        self._queue: Queue[Any] = client.queue(name, codec=codec, group=task.options.group)
        self._consumer: Consumer[Any] | None = None
        self.is_fifo = False
        self.retries = False
        """The queue says itself how long a message that failed waits."""
        self.lease_seconds = LEASE_SECONDS

    async def open(self) -> None:
        """Begin to receive. Raises if there is no such queue and it cannot be made."""
        configs = (await self._describe()).configs
        self.is_fifo = configs.get("queue.order") == "fifo"
        self.retries = configs.get("queue.retry.policy", "none") != "none"
        lease = self._options.lease
        if lease is None:
            lease = int(configs.get("queue.lease.ms", LEASE_SECONDS * 1_000)) / 1_000
        self.lease_seconds = lease
        self._consumer = self._queue.consume(
            prefetch=self._options.buffered, lease=self._options.lease, extend_leases=True
        )
        await self._consumer.__aenter__()

    async def _describe(self) -> QueueDescription:
        for _ in range(OPEN_ATTEMPTS):
            try:
                return await self._queue.describe()
            except UnknownTopic:
                if not self._client.settings.auto_create:
                    raise
                with contextlib.suppress(UnknownPartition):
                    return await self._queue.create(exist_ok=True)
            except UnknownPartition:
                pass  # Somebody makes the queue in this moment.
            await asyncio.sleep(OPEN_PAUSE_SECONDS)
        return await self._queue.describe()

    @property
    def _open(self) -> Consumer[Any]:
        assert self._consumer is not None, f"{self.name} is open"
        return self._consumer

    async def take(self, most: int, wait: float) -> list[Message[Any]]:
        """Up to so many messages. It may be cancelled: what has not been handed out stays."""
        return await self._open.receive(most, wait=wait)

    async def give_back(self, messages: Sequence[Message[Any]]) -> None:
        """Nobody has done anything with them: they go back, uncounted."""
        for message in messages:
            settler = message.lease.settling
            assert isinstance(settler, Settler), "leases come from a client"
            break
        else:
            return
        await settler.give_back(messages)

    def let_go(self, message: Message[Any]) -> None:
        """Let the lease of one message run out."""
        self._open.give_up(message)

    async def hold(self) -> None:
        """Receive nothing more, and give back what nobody has taken yet."""
        if self._consumer is not None:
            await self._consumer.pause()

    def resume(self) -> None:
        """Receive again."""
        self._open.resume()

    async def close(self) -> None:
        """End; leases of messages that are still in a hand run out."""
        if self._consumer is not None:
            await self._consumer.close()

    async def stats(self) -> QueueStats:
        """How much there is to do."""
        return await self._queue.stats()

    def lane_of(self, message: Message[Any]) -> object | None:
        """What the message has to stay in order with; None: nothing."""
        if not self.is_fifo:
            return None
        group = message.message_group
        lane = group.encode() if group is not None else (message.key or b"")
        return (self.name, message.partition, lane)
