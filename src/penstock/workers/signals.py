"""Ending by signal: the first SIGTERM or SIGINT ends in good order, the second at once.

A process that has a supervisor also ends when that is gone, which it learns from its stdin.
"""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_log = logging.getLogger(__name__)

NUMBER_VARIABLE = "PENSTOCK_WORKER_NUMBER"
"""Set for processes that a supervisor has started: their number."""
SIGNALS = (signal.SIGTERM, signal.SIGINT)


@contextmanager
def on_signals(first: Callable[[], None], again: Callable[[], None]) -> Iterator[None]:
    """Call `first` at the first of these signals and `again` at every further one."""
    loop = asyncio.get_running_loop()
    seen = False

    def note(number: signal.Signals) -> None:
        nonlocal seen
        _log.info("%s: %s", number.name, "ending at once" if seen else "finishing what is in hand")
        (again if seen else first)()
        seen = True

    for number in SIGNALS:
        loop.add_signal_handler(number, note, number)
    try:
        yield
    finally:
        for number in SIGNALS:
            loop.remove_signal_handler(number)


@contextmanager
def on_orphaned(call: Callable[[], None]) -> Iterator[None]:
    """Call when the supervisor of this process has gone; nothing happens if it has none."""
    if not os.environ.get(NUMBER_VARIABLE):
        yield
        return
    loop = asyncio.get_running_loop()
    pipe = sys.stdin.fileno()

    def look() -> None:
        if not os.read(pipe, 1_024):
            loop.remove_reader(pipe)
            _log.warning("the supervisor has gone: finishing what is in hand")
            call()

    loop.add_reader(pipe, look)
    try:
        yield
    finally:
        loop.remove_reader(pipe)
