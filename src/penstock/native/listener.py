"""Native clients at the Kafka port: who is there, and how they are shown out.

A connection begins as one of Kafka's. If its first bytes are the native greeting, it is handed over
to here, and the port's owner asks this object to sweep and to close what it has taken.
"""

import asyncio
import logging

from penstock.core.front_end import FrontEndStatistics
from penstock.core.limits import KAFKA_CONNECTION_IDLE_MS, KAFKA_LANDING_BYTES
from penstock.core.request_times import RequestTimes
from penstock.engine.inspection.limited_log import LimitedLog
from penstock.native.connection import NativeConnection
from penstock.native.context import PROTOCOL
from penstock.native.service import Service
from penstock.wire.frames import MAGIC

log = logging.getLogger("penstock.native")


class NativeConnections:
    """All native connections of a node."""

    magic = MAGIC

    def __init__(
        self, service: Service, *, connection_idle_ms: int = KAFKA_CONNECTION_IDLE_MS
    ) -> None:
        self.service = service
        self.memory = service.memory
        self.complaints = LimitedLog(log, service.clock, "native clients")
        self.connection_idle_ms = connection_idle_ms
        self.landing = memoryview(bytearray(KAFKA_LANDING_BYTES))
        """Where bytes arrive before it is known what they belong to; one for all connections."""
        self.connections: set[NativeConnection] = set()
        self.times = RequestTimes()
        self.adopted = 0
        self.throttled = 0
        """How often a connection was not read from because too much of it was under way."""
        self.bytes_in = 0
        self.requests = 0
        self.refused = 0
        self.faulted = 0
        self._empty = asyncio.Event()
        self._empty.set()

    def __len__(self) -> int:
        return len(self.connections)

    def take_over(self, transport: asyncio.Transport, first: memoryview) -> None:
        """Take over a connection whose first bytes are these."""
        self.adopted += 1
        connection = NativeConnection(self)
        transport.set_protocol(connection)
        self._empty.clear()
        connection.connection_made(transport)
        connection.feed(first)

    def leave(self, connection: NativeConnection) -> None:
        """A connection is lost."""
        self.connections.discard(connection)
        if not self.connections:
            self._empty.set()

    def sweep(self, now_ms: int) -> None:
        """Give up on clients that half say something, and on those that are silent."""
        self.complaints.flush()
        for connection in list(self.connections):
            connection.sweep(now_ms)

    def front_end(self) -> FrontEndStatistics:
        """Counters since the start, and what is under way now."""
        return FrontEndStatistics(
            protocol=PROTOCOL,
            requests=self.times.statistics(),
            connections=len(self.connections),
            accepted=self.adopted,
            faulted=self.faulted,
            throttled=self.throttled,
            bytes_in=self.bytes_in,
            held_bytes=self.memory.held_by(PROTOCOL),
        )

    async def close(self, grace_seconds: float) -> None:
        """Take no more requests, let those under way finish for a while, then close."""
        for connection in list(self.connections):
            connection.retire()
        try:
            async with asyncio.timeout(grace_seconds):
                await self._empty.wait()
        except TimeoutError:
            for connection in list(self.connections):
                connection.abort()
            await self._empty.wait()
