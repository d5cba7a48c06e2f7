"""One queue as a crew uses it: it receives on request, and extends the leases of what it received.

Nothing is prefetched. A consumer that fetches ahead would hold messages the crew does not know of,
and work that runs alone, or in order, must know of every message this process has (see
`exclusive_slot`); messages that no worker has begun lie in the steal queues. So messages are
requested when there is capacity, by one request at a time, and `hold` withdraws it.

Message groups. In a FIFO queue a message's group is its message group id, or else its key, as at
the broker. All leased messages of a group came in one answer, because the broker delivers no more
of a group while one of its messages is leased.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from typing import Any

from penstock.client.client import Client
from penstock.client.codecs import Codec
from penstock.client.descriptions import QueueDescription, QueueStats
from penstock.client.message import Message
from penstock.client.queue import Queue
from penstock.client.worker.lease_keeper import LeaseKeeper
from penstock.client.worker.settler import Settler
from penstock.core.errors import UnknownPartition, UnknownTopic
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.retries import LEADER, Retrier
from penstock.workers.task import Task

LEASE_SECONDS = 30.0
"""The default lease of a queue."""
WAIT_SECONDS = 10.0
"""The duration of one long poll."""
OPEN_SECONDS_MAX = 2.5
"""A queue that is being made has its name before it has its partitions."""


class Source:
    """See the top of this module; `open` before anything else."""

    def __init__(
        self, client: Client, name: str, task: Task[Callable[..., object]], retrier: Retrier
    ) -> None:
        self.name = name
        self._client = client
        self._retrier = retrier
        self._lease = task.options.lease
        codec: Codec[Any] | type[Any] | None = task.codec  # type: ignore[assignment]
        self._queue: Queue[Any] = client.queue(name, codec=codec, group=task.options.group)
        self._keeper: LeaseKeeper | None = None
        self._receive: asyncio.Future[list[Message[Any]]] | None = None
        self._quiet = asyncio.Event()
        """No request for messages is under way."""
        self._quiet.set()
        self._open = asyncio.Event()
        """Set while messages may be received."""
        self._open.set()
        self.is_fifo = False
        self.retries = False
        """The work group has a retry policy, its own or the queue's."""
        self.lease_seconds = LEASE_SECONDS

    async def open(self) -> None:
        """Look at the queue. Raises if there is none and it cannot be made."""
        configs = (await self._describe()).configs
        self.is_fifo = configs.get("queue.order") == "fifo"
        if self._queue.group != DEFAULT_WORK_GROUP:
            settings = await self._queue.group_settings()
            configs = {name: one.value for name, one in settings.items()}
        self.retries = configs.get("queue.retry.policy", "none") != "none"
        self.lease_seconds = int(configs.get("queue.lease.ms", LEASE_SECONDS * 1_000)) / 1_000
        if self._lease is not None:
            self.lease_seconds = self._lease

    async def _describe(self) -> QueueDescription:
        retries = self._retrier.within(OPEN_SECONDS_MAX, LEADER)
        while True:
            try:
                return await self._queue.describe()
            except UnknownTopic:
                if not self._client.settings.auto_create:
                    raise
                with contextlib.suppress(UnknownPartition):
                    return await self._queue.create(exist_ok=True)
            except UnknownPartition:
                pass  # Another client is creating the queue right now.
            if not await retries.pause():
                return await self._queue.describe()

    async def take(self, most: int) -> list[Message[Any]]:
        """Receive up to `most` messages, perhaps none, and extend their leases until they are
        settled. Wait while receiving is paused."""
        await self._open.wait()
        self._quiet.clear()
        self._receive = asyncio.ensure_future(
            self._queue.receive(most, wait=WAIT_SECONDS, lease=self._lease)
        )
        try:
            await asyncio.wait([self._receive])
            if self._receive.cancelled():
                return []
            messages = self._receive.result()
            if messages:
                self._keep(messages)
            return messages
        finally:
            self._receive.cancel()
            self._quiet.set()

    def _keep(self, messages: Sequence[Message[Any]]) -> None:
        if self._keeper is None:
            self._keeper = LeaseKeeper(_settler(messages[0]))
        self._keeper.keep(messages)

    async def give_back(self, messages: Sequence[Message[Any]]) -> None:
        """Release messages that were not started; the delivery is not counted."""
        if messages:
            await self._queue.give_back(messages)

    def let_go(self, message: Message[Any]) -> None:
        """Let the lease of one message run out."""
        if self._keeper is not None:
            self._keeper.give_up(message)

    async def hold(self) -> None:
        """Ask for nothing more; returns when nothing is being asked for. A request that waits for
        messages is withdrawn, or it would get those that are given back now."""
        self._open.clear()
        if self._receive is not None:
            self._receive.cancel()
        await self._quiet.wait()

    def resume(self) -> None:
        """Continue after a pause."""
        self._open.set()

    async def close(self) -> None:
        """End; leases of messages that are still in a hand run out."""
        if self._keeper is not None:
            await self._keeper.close()

    async def stats(self) -> QueueStats:
        """Return the state counts of the queue."""
        return await self._queue.stats()

    def message_group_of(self, message: Message[Any]) -> object | None:
        """The message group that the message must keep its order in; None if there is none."""
        if not self.is_fifo:
            return None
        group = message.message_group
        message_group = group.encode() if group is not None else (message.key or b"")
        return (self.name, message.partition, message_group)


def _settler(message: Message[Any]) -> Settler:
    """Carries verdicts on this message, and extends its lease."""
    settler = message.lease.settling
    assert isinstance(settler, Settler), "leases come from a client"
    return settler
