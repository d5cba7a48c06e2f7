"""A clock that stands still until it is moved."""

from collections.abc import Callable


class ManualClock:
    """A `Clock` for tests and the simulator: time passes only when the test moves it.

    A sleeper cannot see this clock move, so it calls the functions that `watch` it. An engine
    inside this process does: what has become due happens when the clock is moved, and not at the
    engine's next tick."""

    __slots__ = ("_monotonic_ms", "_wall_ms", "_watchers")

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms
        self._watchers: list[Callable[[], None]] = []

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, duration_ms: int = 0, *, seconds: float = 0) -> None:
        """Let time pass on both readings: `advance(seconds=30)` or `advance(30_000)`."""
        duration_ms += round(seconds * 1_000)
        assert duration_ms >= 0, f"time does not pass backwards: {duration_ms} ms"
        self._wall_ms += duration_ms
        self._monotonic_ms += duration_ms
        self._tell()

    def jump_wall(self, difference_ms: int) -> None:
        """Set the wall clock forward or back, as NTP or a person does; timeouts do not notice."""
        self._wall_ms += difference_ms
        self._tell()

    def watch(self, moved: Callable[[], None]) -> Callable[[], None]:
        """Call `moved` after every move, on the mover's thread; calling the result ends that."""
        self._watchers.append(moved)

        def end() -> None:
            if moved in self._watchers:
                self._watchers.remove(moved)

        return end

    def _tell(self) -> None:
        for moved in list(self._watchers):
            moved()
