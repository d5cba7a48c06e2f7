"""The way to a cluster over TCP: one connection to each node that is asked, made when it is needed.

Requests of one client to one node share a connection, which carries many at a time and keeps the
order of batches. When one is lost, the next request makes a new one, or goes elsewhere. Connections
have been idle for minutes are closed.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from penstock.client.connection.channel import Buffer, Late, Make, OnAnswer
from penstock.client.connection.tcp_connection import TcpConnection, open_connection
from penstock.core.errors import ClientClosed, OutcomeUnknown, Unavailable
from penstock.core.types import NO_NODE
from penstock.wire.requests import Answer, NodeInfo, Request, TopicInfo

CONNECT_SECONDS: Final = 5.0
IDLE_SECONDS: Final = 300.0

Place = tuple[str, int]


class TcpChannel:
    def __init__(self, hosts: Sequence[Place]) -> None:
        assert hosts, "an address names at least one host"
        self._hosts = list(hosts)
        self._nodes: dict[int, Place] = {}
        self._connections: dict[Place, TcpConnection] = {}
        self._opening: dict[Place, asyncio.Task[TcpConnection]] = {}
        self._turn = 0
        self._closed = False
        self.on_late: Late = lambda _node, _request, _answer: None

    @property
    def first_host(self) -> Place:
        """The first one that the program named."""
        return self._hosts[0]

    def learn(self, nodes: Sequence[NodeInfo]) -> None:
        """Store the addresses of nodes and drop those of nodes that are gone."""
        self._nodes = {
            info.node: place for info in nodes if (place := _split(info.address)) is not None
        }

    async def ask(
        self, node: int | None, request: Request, payload: Buffer = b"", *, timeout: float
    ) -> tuple[Answer, Buffer]:
        """Send a request to a node, or to any node if it is None."""
        if self._closed:
            raise ClientClosed("the client is closed")
        if node is not None:
            place = self._nodes.get(node)
            if place is None:
                raise Unavailable(f"the address of node {node} is not known yet")
            connection = self._connected(place) or await self._open(place, timeout)
            return await connection.ask(request, payload, timeout)
        return await self._ask_any(request, payload, timeout)

    async def _ask_any(
        self, request: Request, payload: Buffer, timeout: float
    ) -> tuple[Answer, Buffer]:
        """Ask the node that was asked last, as long as it can be reached; then the next one, while
        there is time. The next question begins where this one has ended."""
        loop = asyncio.get_running_loop()
        end = loop.time() + timeout
        places = list(dict.fromkeys((*self._hosts, *self._nodes.values())))
        first = self._turn
        for number in range(len(places)):
            self._turn = (first + number) % len(places)
            try:
                seconds = max(0.001, end - loop.time())
                place = places[self._turn]
                connection = self._connected(place) or await self._open(place, seconds)
                answer, extra = await connection.ask(request, payload, seconds)
                if isinstance(answer, TopicInfo) and NO_NODE in answer.leaders:
                    # A node that is cut off from its peers answers and knows no leader: without
                    # this, the client would ask it until the network is back.
                    self._turn += 1
                return answer, extra
            except Unavailable:
                if number + 1 == len(places) or loop.time() >= end:
                    self._turn += 1
                    raise
            except OutcomeUnknown:
                self._turn += 1
                raise
        raise AssertionError("there is at least one place")

    def begin(self, node: int, make: Make, ended: OnAnswer, *, at_once: bool) -> bool:
        """Ask a node to which there is a connection that takes more."""
        place = self._nodes.get(node)
        connection = None if place is None else self._connections.get(place)
        return connection is not None and connection.begin(make, ended, at_once=at_once)

    def _connected(self, place: Place) -> TcpConnection | None:
        connection = self._connections.get(place)
        return connection if connection is not None and connection.is_open else None

    async def _open(self, place: Place, timeout: float) -> TcpConnection:
        """All callers that need this connection wait for the same one."""
        self._drop_idle()
        opening = self._opening.get(place)
        if opening is None:
            seconds = min(timeout, CONNECT_SECONDS)
            opening = asyncio.create_task(
                open_connection(
                    *place,
                    seconds,
                    lambda request, answer: self._note_late(place, request, answer),
                )
            )
            self._opening[place] = opening
            opening.add_done_callback(lambda task: self._opened(place, task))
        return await asyncio.shield(opening)

    def _opened(self, place: Place, task: "asyncio.Task[TcpConnection]") -> None:
        self._opening.pop(place, None)
        if task.cancelled() or task.exception() is not None:
            return
        if self._closed:
            task.result().abort("the client is closed")
        else:
            self._connections[place] = task.result()

    def _note_late(self, place: Place, request: Request, answer: Answer) -> None:
        node = next((node for node, known in self._nodes.items() if known == place), 0)
        self.on_late(node, request, answer)

    def _drop_idle(self) -> None:
        now = asyncio.get_running_loop().time()
        for place, connection in list(self._connections.items()):
            if not connection.is_open:
                del self._connections[place]
            elif connection.is_idle and now - connection.used_at >= IDLE_SECONDS:
                connection.abort("it was idle for long")
                del self._connections[place]

    async def close(self) -> None:
        """Close all connections."""
        self._closed = True
        for task in list(self._opening.values()):
            task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Unavailable):
                await task
        for connection in self._connections.values():
            connection.abort("the client is closed")
        self._connections.clear()


def _split(address: str) -> Place | None:
    """Host and port of an address that a node has sent."""
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit():
        return None
    return host.removeprefix("[").removesuffix("]"), int(port)
