"""Answers in JSON, and errors as `{"error": …, "message": …}`.

`error` is the name of a class in `core/errors.py`, for programs; `message` is its sentence, for
people. A request that could be repeated says when, in `Retry-After`.
"""

import math
from collections.abc import Mapping

import msgspec
from starlette.responses import Response

from penstock.core.errors import NotLeader, PenstockError, Unavailable

SAFE_HEADERS = {
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'; frame-ancestors 'none'; base-uri 'none'",
    "referrer-policy": "no-referrer",
    "x-content-type-options": "nosniff",
}
"""The headers of every answer: no caching, framing, content sniffing or loading from other
sites."""


class HttpProblem(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Why a request was not carried out."""

    error: str
    """The name of the error, for programs."""
    message: str
    """One sentence for the user."""
    leader: int | None = None
    """The node to ask instead, where that is known."""


def json_answer(
    document: object, *, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Build an answer with one JSON document on one line."""
    return Response(
        msgspec.json.encode(document) + b"\n",
        status_code=status,
        headers={**SAFE_HEADERS, **(headers or {})},
        media_type="application/json",
    )


def error_answer(status: int, name: str, message: str) -> Response:
    """A refusal that is not one of ours, such as an unknown path."""
    return json_answer(HttpProblem(error=name, message=message), status=status)


def penstock_error_answer(error: PenstockError) -> Response:
    headers = {}
    if isinstance(error, Unavailable):
        headers["retry-after"] = str(math.ceil(error.retry_after_ms / 1_000))
    leader = error.leader if isinstance(error, NotLeader) else None
    document = HttpProblem(error=type(error).__name__, message=str(error), leader=leader or None)
    return json_answer(document, status=error.http_status, headers=headers)
