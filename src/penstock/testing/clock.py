"""A clock that stands still until it is moved."""


class ManualClock:
    """A `Clock` for tests and the simulator: time passes when someone says so."""

    __slots__ = ("_monotonic_ms", "_wall_ms")

    def __init__(self, *, wall_ms: int = 1_700_000_000_000, monotonic_ms: int = 0) -> None:
        self._wall_ms = wall_ms
        self._monotonic_ms = monotonic_ms

    def wall_ms(self) -> int:
        return self._wall_ms

    def monotonic_ms(self) -> int:
        return self._monotonic_ms

    def advance(self, duration_ms: int) -> None:
        """Let time pass on both readings."""
        assert duration_ms >= 0, f"time does not pass backwards: {duration_ms} ms"
        self._wall_ms += duration_ms
        self._monotonic_ms += duration_ms

    def jump_wall(self, difference_ms: int) -> None:
        """Set the wall clock forward or back, as NTP or a person does; timeouts do not notice."""
        self._wall_ms += difference_ms
