"""The trace of one message over HTTP, from any node.

    GET     /v1/trace/{message}    by its id, or by its place as topic:partition:offset
                                   (?in= a topic to look in, may be repeated)

404 if no message has the id. `gave_up` says that there was more than could be searched.
"""

from collections.abc import Sequence

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from penstock.web.answers import error_answer, json_answer
from penstock.web.api_operation import ApiOperation, QueryParameter
from penstock.web.broker import Broker, node_of
from penstock.wire.trace_requests import Sighting, TraceInfo


class TraceDocument(msgspec.Struct, frozen=True, kw_only=True):
    """A message at each place where it is or was, the first one first."""

    message: str
    sightings: Sequence[Sighting]


def trace_routes(broker: Broker) -> Sequence[ApiOperation]:
    """Return the route of the traces."""

    async def trace(request: Request) -> Response:
        found = await find_trace(
            broker, request.path_params["message"], request.query_params.getlist("in")
        )
        if not found.sightings:
            return error_answer(404, "UnknownMessage", why_not_found(found))
        return json_answer(TraceDocument(message=found.message, sightings=found.sightings))

    return [
        ApiOperation(
            "GET",
            "/v1/trace/{message:path}",
            trace,
            "Trace a message, by its id or its place (topic:partition:offset)",
            query=[QueryParameter("in", str, "A topic to search", repeats=True)],
            answers={200: TraceDocument},
        )
    ]


async def find_trace(broker: Broker, message: str, within: Sequence[str] = ()) -> TraceInfo:
    """Return the trace of a message; pages use it, too."""
    return await node_of(broker).traces.trace(message, within)


def why_not_found(found: TraceInfo) -> str:
    """Return one sentence on why the message was not found."""
    if found.gave_up:
        return (
            f"the newest messages were searched, and none of them has the id {found.message};"
            " say in which topic it may be"
        )
    return f"no message has the id {found.message}; the topic it was sent to may be gone"
