"""The state that the parts of one client share: the router, the metadata cache and the counters."""

import asyncio
from typing import Protocol
from weakref import WeakSet

from penstock.client.connection.channel import Channel
from penstock.client.connection.metadata import Metadata
from penstock.client.connection.request_router import RequestRouter
from penstock.client.producer.sender import PartitionSenders
from penstock.client.settings import ClientSettings
from penstock.client.statistics import Counters
from penstock.client.worker.settler import Settler
from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.core.verdicts import Verdict
from penstock.wire.requests import Answer, ReceiveRequest, ReceiveResponse, Request, Settle

CLOSE_SECONDS = 5.0


class Closeable(Protocol):
    """A background part of a client, which runs until it is closed."""

    async def close(self) -> None: ...


class ClientCore:
    """See the top of this module; closed once, by the client."""

    def __init__(self, channel: Channel, settings: ClientSettings, clock: Clock) -> None:
        self.channel = channel
        self.settings = settings
        self.clock = clock
        self.counters = Counters()
        self.metadata = Metadata(channel)
        self.router = RequestRouter(channel, self.metadata, settings)
        self.senders = PartitionSenders(self.router, clock, self.counters)
        self.settler = Settler(self.router, self.counters)
        self.readers: WeakSet[Closeable] = WeakSet()
        """Consumers and subscriptions that have to be closed with the client; those that were
        closed before are forgotten by themselves."""
        self._tasks: set[asyncio.Task[object]] = set()
        channel.on_late = self._return_late

    def _return_late(self, node: int, request: Request, answer: Answer) -> None:
        """Messages were leased for a caller that had stopped waiting: they go back, uncounted."""
        if not isinstance(request, ReceiveRequest) or not isinstance(answer, ReceiveResponse):
            return
        for part in answer.parts:
            settlements = tuple(
                (first, end, part.epoch, int(Verdict.RETURN), -1, "")
                for first, end, _, _ in part.runs
            )
            back = Settle(request.topic_id, part.index, request.group, settlements)
            task = asyncio.create_task(self._ask_once(node, back))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _ask_once(self, node: int, request: Request) -> None:
        try:
            await self.channel.ask(node, request, timeout=self.settings.attempt_timeout)
        except PenstockError:
            return  # Then the lease ends by itself.

    async def close(self) -> None:
        """Send the waiting messages, release prefetched ones, and close everything."""
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                closing = (reader.close() for reader in list(self.readers))
                await asyncio.gather(*closing, return_exceptions=True)
                await self.senders.flush()
                await self.settler.flush()
                await asyncio.gather(*self._tasks, return_exceptions=True)
        except TimeoutError:
            pass  # Waiting calls fail: the client is closed.
        await self.senders.close()
        await self.settler.close()
        for task in list(self._tasks):
            task.cancel()
        await self.channel.close()
