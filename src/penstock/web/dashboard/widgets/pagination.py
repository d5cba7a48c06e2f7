"""A part of a long list: `?page=` of an address."""

import msgspec
from starlette.requests import Request


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """The rows that are shown."""

    page: int
    """The number of the page, from 1."""
    pages: int
    first: int
    end: int


def part_of(request: Request, total: int, rows: int) -> Part:
    """The part that was asked for; the last one if there is less by now."""
    written = request.query_params.get("page", "1")
    number = int(written) if written.isascii() and written.isdecimal() and len(written) < 7 else 1
    pages = max(1, -(-total // rows))
    page = min(max(1, number), pages)
    return Part(page=page, pages=pages, first=(page - 1) * rows, end=min(page * rows, total))
