"""An event loop whose time does not pass by itself.

`advance` moves it. When every task waits and only timers are left, it jumps to the next one: a test
that waits for a timer neither sleeps nor depends on how fast the machine is. It is for tests whose
work is all on the loop; a socket or a thread has no say in when time passes.
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
        if timeout is not None and timeout > 0:
            self.loop.advance(timeout)
            timeout = 0
        ready: list[tuple[selectors.SelectorKey, int]] = super().select(timeout)
        return ready


class ManualLoop(asyncio.SelectorEventLoop):
    """See the top of this module."""

    def __init__(self) -> None:
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


def run_manually(story: Coroutine[Any, Any, Result]) -> Result:
    """As `asyncio.run`, on a manual loop."""
    with asyncio.Runner(loop_factory=ManualLoop) as runner:
        return runner.run(story)
