"""`POST /v1/backup/cut`: one moment of the whole cluster, for the copy of this node's files.

It changes nothing, but requests wait while the moment is marked (see `engine.cluster.backups.cut`);
hence a POST.
"""

from starlette.requests import Request
from starlette.responses import Response

from penstock.engine.cluster.backups.cut import Cut
from penstock.web.answers import json_answer
from penstock.web.api_operation import ApiOperation
from penstock.web.broker import Broker, node_of
from penstock.web.requests import bounded


def cut_routes(broker: Broker) -> list[ApiOperation]:
    async def cut(_request: Request) -> Response:
        return json_answer(await bounded(node_of(broker).cuts.cut()))

    return [
        ApiOperation(
            "POST",
            "/v1/backup/cut",
            cut,
            "Make a consistent cut of the cluster, for a copy of this node's files",
            answers={200: Cut},
        )
    ]
