"""Periodic tasks: a tick becomes a message, once, however many processes run the application.

Every process that runs an application computes the same ticks (see `schedules`) and sends each of
them to the task's queue, with the id `name@tick`. The queue was made with `deduplication="id"`: the
first message of an id is stored, the others are recognised and dropped. So no process has to be
elected as the sender, and no tick is missed as long as one process runs. Some worker gets the
message and calls the function; if it fails it is retried, as any message.

Which ticks have been sent is what the queue remembers, for longer than the schedule pauses, but for
seven days at most. A process that starts can therefore ask, by sending it once more, whether the
latest tick was sent, and that is how `Missed.RUN_ONCE` makes up for one that was missed.

A tick that may be skipped expires when the next one is due: if all workers are away for an hour, an
hour's worth of ticks is not worked off afterwards.
"""

import asyncio
import contextlib
import logging
import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol, runtime_checkable

from penstock.core.clock import Clock
from penstock.core.errors import PenstockError
from penstock.workers.schedules import Missed, Schedule, latest_before

_log = logging.getLogger(__name__)

LATE_SECONDS = 60.0
"""A tick that may be skipped and was noticed later than this is over."""
WINDOW_SECONDS_MIN = 3_600.0
WINDOW_SECONDS_MAX = 7 * 24 * 3_600.0
"""The longest time for which a queue can remember ids."""
PAUSES_LOOKED_AT = 50
"""The number of pauses between ticks that are examined to find the longest: a week of working
days."""
RETRY_SECONDS = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Tick:
    """A moment at which a task is due."""

    name: str
    at: datetime
    expires: datetime | None

    @property
    def id(self) -> str:
        """An id that is the same in every process."""
        return f"{self.name}@{self.at.astimezone(UTC).isoformat()}"


class Ticker:
    """Sends the ticks of one task."""

    def __init__(
        self,
        name: str,
        schedule: Schedule,
        missed: Missed,
        clock: Clock,
        send: Callable[[Tick], Awaitable[object]],
    ) -> None:
        self.name = name
        self._schedule = schedule
        self._missed = missed
        self._clock = clock
        self._send = send
        self._sent_up_to = self._now()
        if missed is Missed.RUN_ONCE:
            window = timedelta(seconds=window_seconds(schedule, self._sent_up_to))
            self._sent_up_to -= window / 2

    def _now(self) -> datetime:
        return datetime.fromtimestamp(self._clock.wall_ms() / 1_000, UTC)

    def due(self) -> Tick | None:
        """The tick to send now, if there is one; the ones before it are over."""
        now = self._now()
        at = latest_before(self._schedule, now, self._sent_up_to)
        if at is None:
            return None
        if self._missed is Missed.RUN_ONCE:
            return Tick(name=self.name, at=at, expires=None)
        if now - at > timedelta(seconds=LATE_SECONDS):
            _log.warning("the tick of %s at %s was missed and is skipped", self.name, at)
            self._sent_up_to = at
            return None
        return Tick(name=self.name, at=at, expires=self._schedule.next_after(at))

    def sent(self, tick: Tick) -> None:
        """Record that a tick is stored."""
        self._sent_up_to = tick.at

    async def run(self) -> None:
        """Send ticks for ever."""
        while True:
            tick = self.due()
            if tick is None:
                following = self._schedule.next_after(max(self._now(), self._sent_up_to))
                await wait_until_ms(self._clock, math.ceil(following.timestamp() * 1_000))
                continue
            try:
                await self._send(tick)
            except PenstockError as problem:
                _log.warning("the tick %s could not be sent yet: %s", tick.id, problem)
                await wait_until_ms(self._clock, self._clock.wall_ms() + int(RETRY_SECONDS * 1_000))
                continue
            self.sent(tick)


def window_seconds(schedule: Schedule, now: datetime) -> float:
    """The time for which the ids of a schedule must be remembered: twice its longest pause."""
    longest, tick = timedelta(), schedule.next_after(now)
    for _ in range(PAUSES_LOOKED_AT):
        following = schedule.next_after(tick)
        longest, tick = max(longest, following - tick), following
    return min(WINDOW_SECONDS_MAX, max(WINDOW_SECONDS_MIN, 2 * longest.total_seconds()))


LOOK_SECONDS = 60.0
"""How long a wait lasts at most before the clock is looked at again: it may have been set."""


@runtime_checkable
class MovableClock(Clock, Protocol):
    """A clock that a test moves by hand, and that announces each move."""

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Call `moved` after every move, on any thread; calling the result ends that."""
        ...


async def wait_until_ms(clock: Clock, wall_ms: int) -> None:
    """Return when the clock shows this time, or a later one."""
    loop = asyncio.get_running_loop()
    moved = asyncio.Event()

    def note() -> None:
        with contextlib.suppress(RuntimeError):  # The loop is closed, and nothing waits on it.
            loop.call_soon_threadsafe(moved.set)

    end = clock.watch(note) if isinstance(clock, MovableClock) else None
    try:
        while (left_ms := wall_ms - clock.wall_ms()) > 0:
            moved.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left_ms / 1_000, LOOK_SECONDS)):
                    await moved.wait()
    finally:
        if end is not None:
            end()
