"""A broker with an HTTP port, for tests: a real node, in a thread of its own."""

import http.client
from contextlib import closing
from pathlib import Path
from typing import Any, Self

import msgspec

from penstock.core.front_end import FrontEndStatistics
from penstock.engine.cluster.node import Node
from penstock.machines.secrets import RECEIPTS
from penstock.watch.readings import Readings
from penstock.watch.settings import AlertSettings
from penstock.watch.watch import Watch
from penstock.web.app import make_app
from penstock.web.broker import Phase, SettingRow
from penstock.web.listener import HttpListener
from tests.kafka_broker import ThreadedBroker
from tests.unit.engine.nodes import until
from tests.unit.watch.made import ANY_DISK

ANSWER_SECONDS_MAX = 60


class ServingBroker:
    """What HTTP is told of the process around a node that serves."""

    phase = Phase.SERVING
    read_only = False

    def __init__(self, node: Node) -> None:
        self.node = node
        self.watch = Watch(node, AlertSettings(levels=ANY_DISK))

    def problems(self) -> list[str]:
        return []

    def warnings(self) -> list[str]:
        return []

    def settings(self) -> list[SettingRow]:
        return []

    def hosts(self) -> set[str]:
        return set()

    def front_ends(self) -> list[FrontEndStatistics]:
        return []


class WebBroker(ThreadedBroker):
    """A broker that can be asked by HTTP, from `with` to the end of its block."""

    def __init__(self, data: Path) -> None:
        super().__init__(data)
        self.http = ""
        self.process: ServingBroker | None = None
        self._web: HttpListener | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        self.call(self._listen())
        return self

    def __exit__(self, *exc: object) -> None:
        if self._web is not None:
            self.call(self._web.close())
        super().__exit__(*exc)

    async def _listen(self) -> None:
        assert self.broker is not None
        node = self.broker.node
        await until(lambda: RECEIPTS in node.engine.topics.catalog.secrets)
        self.process = ServingBroker(node)
        app = make_app(self.process)
        self._web = HttpListener(app, connections_max=64, memory=node.memory)
        host, port = await self._web.start("127.0.0.1", 0)
        self.http = f"{host}:{port}"
        await node.register(kafka=self.address, http=self.http)
        await until(lambda: node.engine.topics.catalog.nodes[node.engine.topics.node_id].http != "")

    @property
    def node(self) -> Node:
        assert self.broker is not None
        return self.broker.node

    def look(self) -> Readings:
        """Take readings now, as a broker does every few seconds by itself."""
        assert self.process is not None, "it is not open"
        return self.call(self.process.watch.look())

    def ask(self, method: str, path: str, body: object = None) -> tuple[int, Any]:
        """Status and document of one request."""
        return ask(self.http, method, path, body)

    def expect(self, status: int, method: str, path: str, body: object = None) -> Any:
        """The document of a request that is answered with this status."""
        found, document = self.ask(method, path, body)
        assert found == status, document
        return document


def ask(address: str, method: str, path: str, body: object = None) -> tuple[int, Any]:
    """Status and document of one request to an address."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=ANSWER_SECONDS_MAX)
    data = b"" if body is None else msgspec.json.encode(body)
    with closing(connection):
        connection.request(method, path, data, {"content-type": "application/json"})
        response = connection.getresponse()
        return response.status, msgspec.json.decode(response.read())
