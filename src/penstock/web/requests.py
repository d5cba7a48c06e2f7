"""Parsing of requests: the body, the parameters and the time limit."""

import asyncio
from collections.abc import Awaitable
from typing import TypeVar

import msgspec
from starlette.convertors import IntegerConvertor, register_url_convertor
from starlette.requests import Request

from penstock.core.decoders import UNREADABLE, decode_json
from penstock.core.errors import InvalidRequest, OutcomeUnknown

CHANGE_SECONDS_MAX = 30.0
DIGITS_MAX = 19
"""The largest number of digits in a 64-bit number."""


class WholeNumber(IntegerConvertor):
    """`{name:whole}` in a route: a longer number is no such path."""

    regex = f"[0-9]{{1,{DIGITS_MAX}}}"


register_url_convertor("whole", WholeNumber())

S = TypeVar("S", bound=msgspec.Struct)
T = TypeVar("T")


async def read_body(request: Request, kind: type[S]) -> S:
    """The body as what it should be; one that is empty counts as `{}`."""
    try:
        return decode_json(await request.body() or b"{}", kind)
    except UNREADABLE as error:
        raise InvalidRequest(f"the body is invalid: {error}") from error


def whole_number(request: Request, name: str, default: int, *, least: int = 0, most: int) -> int:
    """A parameter of the query that is a number."""
    text = request.query_params.get(name)
    if text is None:
        return default
    number = decimal(text)
    if number is None or not least <= number <= most:
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}")
    return number


def decimal(text: str) -> int | None:
    """The number that decimal digits write; None for anything else, and for more digits than any
    number here has: Python refuses to convert very long ones."""
    if len(text) <= DIGITS_MAX and text.isascii() and text.isdecimal():
        return int(text)
    return None


async def bounded(change: Awaitable[T]) -> T:
    """A change, or `OutcomeUnknown` if it takes too long."""
    try:
        async with asyncio.timeout(CHANGE_SECONDS_MAX):
            return await change
    except TimeoutError as error:
        raise OutcomeUnknown(
            "the change was not confirmed in time; it may still happen: look before you repeat it"
        ) from error


async def unless_gone(request: Request, waiting: Awaitable[T]) -> T | None:
    """The result of `waiting`, or None if the client has disconnected meanwhile: then it is
    cancelled."""
    asked = asyncio.ensure_future(waiting)
    gone = asyncio.ensure_future(_wait_gone(request))
    try:
        await asyncio.wait((asked, gone), return_when=asyncio.FIRST_COMPLETED)
        return asked.result() if asked.done() else None
    finally:
        asked.cancel()
        gone.cancel()
        await asyncio.gather(asked, gone, return_exceptions=True)


async def _wait_gone(request: Request) -> None:
    """The body has been read; what comes after it is the end."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
