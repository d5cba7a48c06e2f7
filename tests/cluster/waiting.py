"""Waiting for real processes: for a condition, never for a time, and never without a deadline."""

import time
from collections.abc import Callable
from typing import TypeVar

Result = TypeVar("Result")

_EVERY_SECONDS = 0.02


def wait_until(
    condition: Callable[[], Result], what: str | Callable[[], str], *, seconds: float
) -> Result:
    """Ask again and again until the answer is true; it is returned. `what` tells in the end what
    was waited for in vain."""
    deadline = time.monotonic() + seconds
    while not (result := condition()):
        if time.monotonic() >= deadline:
            told = what if isinstance(what, str) else what()
            raise AssertionError(f"{told}: not within {seconds:.0f} s")
        time.sleep(_EVERY_SECONDS)
    return result


def pass_time(seconds: float, end: Callable[[], bool] = lambda: False) -> None:
    """Let the cluster and its clients work for a while: the length of a fault, not a guess at
    how long something takes."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not end():
        time.sleep(min(_EVERY_SECONDS, max(0.0, deadline - time.monotonic())))
