"""A client for as long as a command runs, on a loop of its own: uvloop where it is to be had."""

import asyncio
import os
import sys
from collections.abc import Awaitable, Callable
from typing import TypeVar

from penstock.client.client import Client
from penstock.client.connection.urls import File, parse_url
from penstock.core.errors import LocalError, Unavailable

T = TypeVar("T")


def with_client(
    url: str,
    work: Callable[[Client], Awaitable[T]],
    *,
    makes_directory: bool = False,
    timeout: float | None = None,
) -> T:
    """Connect, work and close; the outcome of the work.

    A directory that is not there is an error, unless the command is one that begins something: a
    mistyped path would otherwise look like a broker without topics. A timeout is for each request.
    """
    from penstock import ClientSettings, connect

    place = parse_url(url)
    if isinstance(place, File) and not makes_directory and not os.path.isdir(place.path):
        raise LocalError(
            f"there is no directory {place.path}; correct --url, or begin one with"
            f" `penstock topic create NAME --url {url}`"
        )
    # And a mistyped name must not become a queue.
    settings = ClientSettings(auto_create=False)
    if timeout is not None:
        settings = ClientSettings(auto_create=False, timeout=timeout)

    async def session() -> T:
        client = connect(url, settings=settings)
        try:
            await client.open()
        except Unavailable as error:
            raise Unavailable(
                f"{error}; start a broker with `penstock dev`, or say where it is with --url URL"
            ) from error
        async with client:
            return await work(client)

    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform == "linux":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        return runner.run(session())
