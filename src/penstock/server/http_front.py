"""The HTTP port's services: SQS's server first, and behind it pages, health, metrics and the API.

It is loaded long after the port is taken (see `http_port`), and is not imported before.
"""

import socket
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING

from penstock.core.front_end import FrontEndStatistics
from penstock.core.request_times import RequestTimes
from penstock.engine.cluster.node import Node
from penstock.engine.engine import Engine
from penstock.server.config import Config
from penstock.server.notation import Address
from penstock.sqs.endpoint import Endpoint
from penstock.sqs.http.connection import SqsConnection
from penstock.sqs.http.middleware import SqsMiddleware
from penstock.sqs.http.server import NoSqs, SqsHttpServer
from penstock.sqs.reply import Reply
from penstock.sqs.service import Service, SqsSettings
from penstock.storage import Disk
from penstock.watch.settings import AlertSettings
from penstock.watch.watch import Watch
from penstock.web.app import make_app
from penstock.web.listener import HttpListener
from penstock.web.probes import PROBE_PATHS, Probes

if TYPE_CHECKING:
    from penstock.server.server import Server


class HttpFront:
    """The application, and SQS's server in front of it, at a port that was taken."""

    def __init__(self, server: "Server", bound: socket.socket) -> None:
        config = server.config
        self._config: Config = config
        self._memory = server.memory
        self._times = RequestTimes()
        self._sqs = Endpoint() if config.sqs.enabled else None
        self._probes = Probes(server, self._times)
        app = make_app(server, self._times)
        if self._sqs is not None:
            host, port, *_ = bound.getsockname()
            self._sqs.default_host = str(Address(host, port))
            app = SqsMiddleware(app, self._sqs, hosts=server.hosts)
        self._sqs_server = SqsHttpServer(
            self._sqs or NoSqs(),
            hosts=server.hosts,
            connections_max=config.sqs.connections_max,
            memory=server.memory,
            probe=self._probe,
        )
        self._listener = HttpListener(
            app,
            connections_max=config.limits.http_connections_max,
            first=partial(SqsConnection, self._sqs_server),
            memory=server.memory,
            always=PROBE_PATHS,
        )
        self._listener.serve(bound)

    def _probe(self, path: bytes) -> Reply | None:
        """Answered at the door, beside every bound: see `SqsHttpServer`."""
        answer = self._probes.answer(path)
        return None if answer is None else Reply(answer.status, answer.header_lines, answer.body)

    def serve_sqs(self, engine: Engine) -> None:
        """Start to serve SQS clients."""
        if self._sqs is None:
            return
        settings = self._config.sqs
        self._sqs.slow_requests = engine.topics.slow_requests
        self._sqs.service = Service(
            engine,
            SqsSettings(
                queue_partitions=settings.partitions,
                delete_cooldown_ms=settings.cooldown_ms,
                purge_cooldown_ms=settings.cooldown_ms,
            ),
        )

    def front_ends(self) -> Iterator[FrontEndStatistics]:
        """Yield the statistics of each protocol that is served here."""
        if self._sqs is not None:
            yield FrontEndStatistics(
                protocol="sqs",
                requests=self._sqs.times.statistics(),
                connections=len(self._sqs_server.connections),
                accepted=self._sqs_server.accepted,
                refused=self._sqs_server.refused,
                throttled=self._sqs_server.throttled,
                held_bytes=self._memory.held_by("sqs"),
            )
        yield FrontEndStatistics(
            protocol="http",
            requests=self._times.statistics(),
            connections=self._listener.connections,
            accepted=self._listener.accepted,
            held_bytes=self._memory.held_by("http"),
        )

    def start_watch(self, node: Node, settings: AlertSettings, disk: Disk, folder: str) -> Watch:
        """Start to watch the cluster for pages and alerts; the history of charts is kept in the
        folder."""
        watch = Watch(node, settings, disk=disk, folder=folder)
        watch.start()
        return watch

    async def close_sqs(self, grace_seconds: float) -> None:
        """Let SQS's requests finish, for a while, and take no more."""
        await self._sqs_server.close(grace_seconds)
        if self._sqs is not None:
            self._sqs.service = None

    async def close(self) -> None:
        """Close the HTTP port."""
        await self._listener.close()
