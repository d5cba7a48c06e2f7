"""Django's database connections in workers.

Django closes old connections at the beginning and the end of a request. A worker has no requests:
without this, a connection that the database has closed would fail message after message.
"""

import asyncio
from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec, TypeVar, cast

from asgiref.sync import sync_to_async
from django.db import close_old_connections

P = ParamSpec("P")
R = TypeVar("R")


def fresh_connections(function: Callable[P, R]) -> Callable[P, R]:
    """A worker function that Django's database connections are looked after for, as for a view.

    Write it below `@app.worker(...)`. Around an `async` function the connections are looked after
    in the thread that Django's own async calls use."""
    if asyncio.iscoroutinefunction(function):
        return cast("Callable[P, R]", _fresh_async(function))

    @wraps(function)
    def fresh(*arguments: P.args, **named: P.kwargs) -> R:
        close_old_connections()
        try:
            return function(*arguments, **named)
        finally:
            close_old_connections()

    return fresh


def _fresh_async(function: Callable[..., Any]) -> Callable[..., Any]:

    close = sync_to_async(close_old_connections)

    @wraps(function)
    async def fresh(*arguments: Any, **named: Any) -> Any:
        await close()
        try:
            return await function(*arguments, **named)
        finally:
            await close()

    return fresh
