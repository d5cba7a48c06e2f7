"""An event loop whose time does not pass by itself.

`advance` moves it. When every task waits and only timers are left, it jumps to the next one: a test
that waits for a timer neither sleeps nor depends on how fast the machine is.

Work done elsewhere is not seen by the loop. Where both ends of a socket are in this process,
the kernel alone is in between; `quiet_seconds` are then waited, really, before time jumps, so that
no deadline passes while an answer is on its way.
"""

import asyncio
import selectors
from collections.abc import Coroutine
from typing import Any, TypeVar

Result = TypeVar("Result")


class _Selector(selectors.DefaultSelector):
    """Instead of waiting for a timer, moves the time to it."""

    loop: "ManualLoop"

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None or timeout <= 0:
            return super().select(timeout)
        ready = super().select(self.loop.quiet_seconds)
        if not ready:
            self.loop.advance(timeout)
        return ready


class ManualLoop(asyncio.SelectorEventLoop):
    """See the top of this module."""

    def __init__(self, quiet_seconds: float = 0.0) -> None:
        self.quiet_seconds = quiet_seconds
        self._now = 0.0
        selector = _Selector()
        selector.loop = self
        super().__init__(selector)

    def time(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        """Timers that are due by then run in the next turn."""
        self._now += seconds


def manual_loop() -> ManualLoop:
    """The loop of the test that runs."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, ManualLoop), "run the test with run_manually"
    return loop


def run_manually(story: Coroutine[Any, Any, Result], *, quiet_seconds: float = 0.0) -> Result:
    """As `asyncio.run`, on a manual loop."""
    with asyncio.Runner(loop_factory=lambda: ManualLoop(quiet_seconds)) as runner:
        return runner.run(story)
