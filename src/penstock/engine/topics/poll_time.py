"""The part of a request's time that its client wanted to wait for messages.

A long poll of twenty seconds is not slow. The timer of a request begins with `begin_parking`, and
code that waits for messages on its behalf reports that with `parked`. What ties them together is
the context of the task, which follows a request through every call that it awaits.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from penstock.core.clock import precise_seconds


class PollTime:
    """The time that one request has been waiting as it was asked to."""

    __slots__ = ("seconds",)

    def __init__(self) -> None:
        self.seconds = 0.0


_PARKED: ContextVar[PollTime | None] = ContextVar("parked", default=None)


def begin_parking() -> PollTime:
    """From now on, in this task, waiting counts for this request."""
    request = PollTime()
    _PARKED.set(request)
    return request


def note_parked(seconds: float) -> None:
    """Add to the time for which this task's request waited for messages."""
    request = _PARKED.get()
    if request is not None:
        request.seconds += seconds


@contextmanager
def parked() -> Iterator[None]:
    """Count the time of this block as waiting for messages."""
    began = precise_seconds()
    try:
        yield
    finally:
        note_parked(precise_seconds() - began)
