"""The Kafka port: accepts connections, sweeps out the silent ones, and closes in an orderly way."""

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING

from penstock.kafka.api import Api
from penstock.kafka.connection import Connection
from penstock.kafka.switchboard import KafkaSettings, KafkaStatistics, Switchboard
from penstock.kafka.table import TABLE

if TYPE_CHECKING:
    from penstock.engine.cluster import Cluster
    from penstock.engine.engine import Engine

SWEEP_SECONDS = 1.0
ACCEPT_BACKLOG = 1_024


class KafkaListener:
    """One TCP port that speaks Kafka."""

    def __init__(
        self,
        engine: "Engine",
        settings: KafkaSettings | None = None,
        *,
        table: Mapping[int, Api] = TABLE,
        cluster: "Cluster | None" = None,
    ) -> None:
        """Without a `cluster`, leaders cannot be elected by request."""
        self._board = Switchboard(engine, table, settings or KafkaSettings(), engine.clock, cluster)
        self._server: asyncio.Server | None = None
        self._sweeping: asyncio.TimerHandle | None = None

    async def start(self, host: str, port: int) -> tuple[str, int]:
        """Listen; port 0 picks a free one. Returns the address that was taken."""
        address = await self.reserve(host, port)
        await self.serve()
        return address

    async def reserve(self, host: str, port: int) -> tuple[str, int]:
        """Take the port and let nobody in yet: the cluster must be told of it before clients are,
        and a client that comes before would be told of a cluster without brokers."""
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(
            lambda: Connection(self._board),
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
        """Accept nobody, let the requests under way finish for a while, then close."""
        if self._sweeping is not None:
            self._sweeping.cancel()
        if self._server is not None:
            self._server.close()
        board = self._board
        for connection in list(board.connections):
            connection.retire()
        try:
            async with asyncio.timeout(grace_seconds):
                await board.wait_empty()
        except TimeoutError:
            for connection in list(board.connections):
                connection.abort()
            await board.wait_empty()
        if self._server is not None:
            await self._server.wait_closed()

    def sweep(self) -> None:
        """Close the connections that are idle or have been sending one request for too long."""
        now_ms = self._board.clock.monotonic_ms()
        for connection in list(self._board.connections):
            connection.sweep(now_ms)

    def _sweep_again(self) -> None:
        self.sweep()
        self._sweeping = asyncio.get_running_loop().call_later(SWEEP_SECONDS, self._sweep_again)

    def statistics(self) -> KafkaStatistics:
        """Counters since the start, and what is under way."""
        return self._board.statistics()
