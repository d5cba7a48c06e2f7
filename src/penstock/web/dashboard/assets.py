"""The files that pages load: scripts and styles, our own and two of other authors, with their
licences.

    /assets/dashboard.css?v=3f2a…     may be kept for good: another content has another address

They are read when the first page is asked for. Only what is in the folder is ever served: a request
names a file by what it is called, and not by a path.
"""

import hashlib
from functools import cache
from pathlib import Path
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from penstock.web.answers import SAFE_HEADERS, error_answer

FOLDER = Path(__file__).parent / "assets"
_KINDS = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}
_KEEP = "public, max-age=31536000, immutable"
_ASK_AGAIN = "no-cache"


class Asset(NamedTuple):
    """A file."""

    content: bytes
    kind: str
    version: str
    """A hash of the content."""


@cache
def assets() -> dict[str, Asset]:
    """Return all files by name."""
    return {path.name: _read(path) for path in sorted(FOLDER.iterdir()) if path.suffix in _KINDS}


def asset_address(name: str) -> str:
    """The address of a file, for use in a page."""
    return f"/assets/{name}?v={assets()[name].version}"


async def answer_asset(request: Request) -> Response:
    """Serve a file."""
    found = assets().get(request.path_params["file"])
    if found is None:
        return error_answer(404, "NotFound", "there is nothing under this path")
    named = request.query_params.get("v") == found.version
    tag = f'"{found.version}"'
    headers = {
        **SAFE_HEADERS,
        "cache-control": _KEEP if named else _ASK_AGAIN,
        "etag": tag,
    }
    if request.headers.get("if-none-match") == tag:
        return Response(status_code=304, headers=headers)
    return Response(found.content, media_type=found.kind, headers=headers)


def _read(path: Path) -> Asset:
    content = path.read_bytes()
    return Asset(content, _KINDS[path.suffix], hashlib.sha256(content).hexdigest()[:16])
