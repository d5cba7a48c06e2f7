"""`GET /metrics`, for Prometheus; `?detail=partition` adds series for every partition."""

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.core.errors import InvalidRequest
from penstock.engine.cluster.node import Node
from penstock.watch.exposition import Exposition
from penstock.web.answers import SAFE_HEADERS
from penstock.web.broker import Broker, node_of

PARTITION = "partition"


def metric_routes(broker: Broker) -> list[Route]:
    """The path of the metrics."""
    return [Route("/metrics", _Metrics(broker).answer)]


class _Metrics:
    def __init__(self, broker: Broker) -> None:
        self._broker = broker
        self._exposition: tuple[Node, Exposition] | None = None

    async def answer(self, request: Request) -> Response:
        detail = request.query_params.get("detail", "")
        if detail not in ("", PARTITION):
            raise InvalidRequest(f"there is detail={PARTITION} and no other")
        exposition = self._exposition_of(node_of(self._broker))
        text, content_type = await exposition.page(
            detail=detail == PARTITION, accept=request.headers.get("accept", "")
        )
        return Response(text, headers={**SAFE_HEADERS, "content-type": content_type})

    def _exposition_of(self, node: Node) -> Exposition:
        """It remembers the last minute, so there is one for as long as the node lives."""
        if self._exposition is None or self._exposition[0] is not node:
            self._exposition = (
                node,
                Exposition(node, self._broker.front_ends, lambda: self._broker.watch),
            )
        return self._exposition[1]
