"""A test that is a coroutine, on a loop of its own."""

import asyncio
import functools
from collections.abc import Callable, Coroutine
from typing import ParamSpec

P = ParamSpec("P")


def on_a_loop(test: Callable[P, Coroutine[object, object, None]]) -> Callable[P, None]:
    """Run it until it is done."""

    @functools.wraps(test)
    def run(*given: P.args, **named: P.kwargs) -> None:
        asyncio.run(test(*given, **named))

    return run
