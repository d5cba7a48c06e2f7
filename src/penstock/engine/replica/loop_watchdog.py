"""A watchdog for the event loop: notes each time that one piece of work held it for too long.

The loop beats: it stores the time in each of its turns that a timer brings about. A thread looks at
the last beat; when it is late, the stack of the loop's thread shows what holds it. The stall is
reported by the loop itself, with its whole length, once it beats again.

    beat     on the loop, every `BEAT_SECONDS`
    look     on a thread, as often; it takes the loop's stack once in a stall

While nothing stalls, a beat is two readings of a clock and one timer.
"""

import asyncio
import sys
import threading
from collections.abc import Callable
from types import CodeType, FrameType
from typing import Final, NamedTuple

from penstock.core.clock import precise_seconds

BEAT_SECONDS: Final = 0.05
STALL_SECONDS: Final = 0.1
"""A turn of the loop that is longer than this is a stall."""
FRAMES_MAX: Final = 4
"""How many functions of the stack a report names, the innermost first."""

Now = Callable[[], float]


class Stall(NamedTuple):
    """One piece of work that held the loop."""

    seconds: float
    place: str
    """The functions that were running: `apply at machines/queues.py:210 < …`; empty if the stall
    was over before the thread looked."""


class LoopWatchdog:
    """The beats of one loop, and what was seen when one was late."""

    def __init__(self, on_stall: Callable[[Stall], None], *, now: Now = precise_seconds) -> None:
        self._on_stall = on_stall
        self._now = now
        self._due = now() + BEAT_SECONDS
        self._place = ""
        self._timer: asyncio.TimerHandle | None = None
        self._ended = threading.Event()
        self.count = 0
        self.longest_seconds = 0.0

    def start(self) -> None:
        """Beat on the running loop, and look from a thread of its own."""
        loop, ident = asyncio.get_running_loop(), threading.get_ident()
        self._due = self._now() + BEAT_SECONDS
        self._timer = loop.call_later(BEAT_SECONDS, self._beat_again, loop)
        threading.Thread(
            target=self._look_often, args=(ident,), name="loop-watchdog", daemon=True
        ).start()

    def stop(self) -> None:
        """Neither beat nor look any more."""
        self._ended.set()
        if self._timer is not None:
            self._timer.cancel()

    def _beat_again(self, loop: asyncio.AbstractEventLoop) -> None:
        self.beat()
        self._timer = loop.call_later(BEAT_SECONDS, self._beat_again, loop)

    def _look_often(self, ident: int) -> None:
        while not self._ended.wait(BEAT_SECONDS):
            self.look(sys._current_frames().get(ident))  # noqa: SLF001

    def beat(self) -> None:
        """The loop turns: report a stall if this is late."""
        now, place = self._now(), self._place
        late = now - self._due
        self._due, self._place = now + BEAT_SECONDS, ""
        if late >= STALL_SECONDS:
            self.count += 1
            self.longest_seconds = max(self.longest_seconds, late)
            self._on_stall(Stall(late, place))

    def look(self, frame: FrameType | None) -> None:
        """On the thread: note what the loop is doing if its beat is late."""
        if not self._place and frame is not None and self._now() - self._due >= STALL_SECONDS / 2:
            self._place = describe_stack(frame)


def describe_stack(frame: FrameType | None) -> str:
    """The functions of a stack that are our own, the innermost first; all if none is."""
    codes: list[tuple[CodeType, int]] = []
    while frame is not None:
        codes.append((frame.f_code, frame.f_lineno))
        frame = frame.f_back
    own = [one for one in codes if "/penstock/" in one[0].co_filename]
    return " < ".join(
        f"{code.co_qualname} at {code.co_filename.rpartition('/penstock/')[2]}:{line}"
        for code, line in (own or codes)[:FRAMES_MAX]
    )
