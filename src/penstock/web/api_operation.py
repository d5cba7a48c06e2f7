"""Operations of the HTTP API: routes that say what they take and what they answer.

Every path below `/v1` is an `ApiOperation`. Nothing else describes the API: `openapi` makes
`/v1/openapi.json` and the reference page from the same objects that requests are routed by.

A body and an answer are given as types. The status codes of refusals follow from the method:
`READ_REFUSALS` or `CHANGE_REFUSALS`; an operation names those that it has besides.
"""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import wraps
from typing import Annotated, NamedTuple

import msgspec
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from penstock.core.errors import InvalidRequest

INDEX_MAX = (1 << 31) - 1
"""The largest index of a partition."""
READ_REFUSALS = (400, 404, 421, 503, 504)
CHANGE_REFUSALS = (*READ_REFUSALS, 403, 408, 409, 413, 415, 507)

Endpoint = Callable[[Request], Awaitable[Response]]


class QueryParameter(NamedTuple):
    """A query parameter: a name and its type."""

    name: str
    kind: object
    """A type, with the bounds it has."""
    about: str
    repeats: bool = False


def limit_parameter(default: int, most: int) -> QueryParameter:
    """The parameter that bounds how many lines an answer has."""
    kind = Annotated[int, msgspec.Meta(ge=1, le=most)]
    return QueryParameter("limit", kind, f"At most so many; by default {default}")


class ApiOperation(Route):
    """A path of the API with one HTTP method."""

    def __init__(
        self,
        method: str,
        path: str,
        endpoint: Endpoint,
        summary: str,
        *,
        answers: Mapping[int, object],
        body: object = None,
        query: Sequence[QueryParameter] = (),
        refusals: Sequence[int] = (),
    ) -> None:
        """`answers` has the type of the document for each status; a tuple of types is any of them,
        here and in `body`."""
        super().__init__(path, _given_once(endpoint, query), methods=[method])
        self.method = method
        self.summary = summary
        self.answers = dict(answers)
        self.body = body
        self.query = tuple(query)
        usual = READ_REFUSALS if method == "GET" else CHANGE_REFUSALS
        self.refusals = sorted({*usual, *refusals})


def _given_once(endpoint: Endpoint, query: Sequence[QueryParameter]) -> Endpoint:
    """Wrap an endpoint so that it refuses a request with a repeated parameter, which would be
    ambiguous."""
    single = [one.name for one in query if not one.repeats]
    if not single:
        return endpoint

    @wraps(endpoint)
    async def checked(request: Request) -> Response:
        for name in single:
            if len(request.query_params.getlist(name)) > 1:
                raise InvalidRequest(f"{name} is given more than once")
        return await endpoint(request)

    return checked
