"""The Kafka port: accepts connections, sweeps out the silent ones, and closes in an orderly way.

A node that hears no leader hangs up on its clients, now and then for as long as that lasts. Clients
ask the broker they talked to last who leads, and this one cannot tell: without a hint, a client of
a leader that was cut off from its peers would stay with it until the network heals, while the
others have long elected another one. Disconnected, the client asks another broker.
"""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.core.front_end import FrontEndStatistics
from penstock.core.memory_budget import MemoryBudget
from penstock.kafka.api import Api
from penstock.kafka.connection import Connection
from penstock.kafka.native_listener import NativeListener
from penstock.kafka.port_state import KafkaSettings, PortState
from penstock.kafka.table import TABLE

if TYPE_CHECKING:
    from penstock.engine.cluster.administration import Cluster
    from penstock.engine.engine import Engine

SWEEP_SECONDS = 0.5
HANG_UP_MS_MIN = 1_000
HANG_UP_MS_MAX = 8_000
"""How long clients are left alone between two hang-ups: first for as long as the others may need to
elect a leader, then twice as long each time, for this may be all that is left of the cluster."""
ACCEPT_BACKLOG = 1_024
RELEASE_SECONDS = 1.0
"""How long messages that share consumers had leased may take to be released when it closes."""


class KafkaListener:
    """One TCP port that speaks Kafka."""

    def __init__(
        self,
        engine: "Engine",
        settings: KafkaSettings | None = None,
        *,
        table: Mapping[int, Api] = TABLE,
        cluster: "Cluster | None" = None,
        native_listener: NativeListener | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        """Without a `cluster`, leaders cannot be elected by request. `memory` is the node's."""
        self._port_state = PortState(
            engine,
            table,
            settings or KafkaSettings(),
            engine.topics.clock,
            cluster,
            native_listener,
            memory,
        )
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None
        self._hang_up_ms = 0
        self._hang_up_wait_ms = HANG_UP_MS_MIN

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 picks a free one. Returns the address that was taken."""
        address = await self.reserve(host, port)
        await self.serve()
        return address

    async def reserve(self, host: str, port: int) -> tuple[str, int]:
        """Take the port and accept no connection yet: the catalog must have the address first, or
        an early client would be answered with a cluster without brokers."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._port_state),
            host,
            port,
            backlog=ACCEPT_BACKLOG,
            start_serving=False,
        )
        address = self._server.sockets[0].getsockname()
        return str(address[0]), int(address[1])

    async def serve(self) -> None:
        """Let clients in."""
        assert self._server is not None, "the port is not reserved"
        await self._server.start_serving()
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_again)

    async def close(self, grace_seconds: float = 5.0) -> None:
        """Accept no more connections, give the requests under way some time, then close."""
        if self._server is not None:
            self._server.close()
        for connection in list(self._port_state.connections):
            connection.retire()
        async with asyncio.TaskGroup() as closing:
            closing.create_task(self._wait_connections(grace_seconds))
            if self._port_state.native_listener is not None:
                closing.create_task(self._port_state.native_listener.close(grace_seconds))
        await self._port_state.share_sessions.finish(RELEASE_SECONDS)
        if self._sweeping is not None:  # Until now it made room for what was under way.
            self._sweeping.cancel()
        if self._server is not None:
            await self._server.wait_closed()

    async def _wait_connections(self, grace_seconds: float) -> None:
        port_state = self._port_state
        try:
            async with asyncio.timeout(grace_seconds):
                await port_state.wait_empty()
        except TimeoutError:
            for connection in list(port_state.connections):
                connection.abort()
            await port_state.wait_empty()

    def sweep(self) -> None:
        """Close the connections that are idle or have been sending one request for too long; all
        of them, when it is time to hang up."""
        now_ms = self._port_state.clock.monotonic_ms()
        self._port_state.complaints.flush()
        self._port_state.memory.sweep(now_ms)
        for connection in list(self._port_state.connections):
            connection.sweep(now_ms)
        self._port_state.share_sessions.sweep(now_ms)
        if self._port_state.native_listener is not None:
            self._port_state.native_listener.sweep(now_ms)
        if not self._port_state.engine.topics.is_cut_off():
            self._hang_up_wait_ms = HANG_UP_MS_MIN
        elif now_ms >= self._hang_up_ms:
            self._hang_up_ms = now_ms + self._hang_up_wait_ms
            self._hang_up_wait_ms = min(2 * self._hang_up_wait_ms, HANG_UP_MS_MAX)
            for connection in list(self._port_state.connections):
                connection.retire()

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_again)

    def front_end(self) -> FrontEndStatistics:
        """Counters since the start, and what is under way."""
        return self._port_state.front_end()
