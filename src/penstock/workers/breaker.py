"""A circuit breaker: stop asking a dependency that fails, and try it again now and then.

Without one, a queue whose workers need a payment service that is down fails message after message
until all of them are dead letters. With one, the workers stop after a few failures and leave the
messages where they are, uncounted. It is a table of three states and four events; time comes from a
clock that is handed in.

                  ┌──────── FAILED_OFTEN: n failures within a time ───────┐
                  │                                                       ▼
     succeeded  CLOSED                                                   OPEN ◄──┐
                  ▲                                                       │      │ PROBE_FAILED
                  │                                                    COOLED    │
                  └────── PROBE_SUCCEEDED ────── HALF_OPEN ◄──────────────┘      │
                                                     └───────────────────────────┘

A breaker stands for one dependency. Make one per dependency and give it to every worker that needs
it: they share it, across threads too. A worker asks for a `Permit` before it takes a message; while
the breaker is half open only a few probes get one.

    payments = CircuitBreaker("payments", failures=5, within=30, open_for=10)

    @app.worker("orders", breaker=payments)
    async def charge(order: Order) -> None: ...

Inside a function that needs several dependencies, `with payments:` does the same for a few lines;
`CircuitOpen`, which it raises, gives the message back uncounted.
"""

import threading
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from enum import StrEnum
from types import TracebackType

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import InvalidRequest

FAILURES_MAX = 10_000


class State(StrEnum):
    """The state of a circuit breaker."""

    CLOSED = "closed"
    """All calls pass."""
    OPEN = "open"
    """No call passes."""
    HALF_OPEN = "half open"
    """A few calls pass, as probes."""


class Event(StrEnum):
    """An event that changes the state of a circuit breaker."""

    FAILED_OFTEN = "failed often"
    COOLED = "cooled"
    PROBE_SUCCEEDED = "probe succeeded"
    PROBE_FAILED = "probe failed"


TRANSITIONS: Mapping[tuple[State, Event], State] = {
    (State.CLOSED, Event.FAILED_OFTEN): State.OPEN,
    (State.OPEN, Event.COOLED): State.HALF_OPEN,
    (State.HALF_OPEN, Event.PROBE_SUCCEEDED): State.CLOSED,
    (State.HALF_OPEN, Event.PROBE_FAILED): State.OPEN,
}
"""The transitions; all others are errors."""


class CircuitOpen(Exception):
    """The dependency is not asked for now; raised by `with breaker:`."""

    def __init__(self, name: str, retry_after: float) -> None:
        super().__init__(f"{name} is not asked for another {retry_after:.1f} s: it kept failing")
        self.name = name
        self.retry_after = retry_after


class CircuitBreaker:
    """Stops asking a dependency that keeps failing, and tries it again now and then.

    After `failures` within so many seconds it is open: workers leave their messages in the queue,
    uncounted. After `open_for` seconds a few probes decide. Make one for each dependency and give
    it to every worker that needs it; threads may share it.

        payments = CircuitBreaker("payments", failures=5, within=30, open_for=10)

        @app.worker("orders", breaker=payments)
    """

    def __init__(
        self,
        name: str,
        *,
        failures: int = 5,
        within: float = 30.0,
        open_for: float = 10.0,
        probes: int = 1,
        on: tuple[type[BaseException], ...] = (Exception,),
        clock: Clock | None = None,
    ) -> None:
        """`on` are the errors that tell against the dependency; others say nothing about it."""
        if not 1 <= failures <= FAILURES_MAX or within <= 0 or open_for <= 0:
            raise InvalidRequest(
                f"{failures} failures within {within} s cannot open {name} for {open_for} s: all"
                f" are more than 0, and failures at most {FAILURES_MAX}"
            )
        if probes < 1:
            raise InvalidRequest(f"{name} would never close again without probes")
        self.name = name
        self.on = on
        self._failures = failures
        self._within_ms = round(within * 1_000)
        self._open_ms = round(open_for * 1_000)
        self.probes = probes
        self._clock: Clock = clock or SystemClock()
        self._lock = threading.Lock()
        self._state = State.CLOSED
        self._failed_ms: deque[int] = deque(maxlen=failures)
        self._opened_ms = 0
        self._probing = 0
        self.opened = 0
        """The number of times it has opened."""

    @property
    def state(self) -> State:
        """Now; an open one that has cooled is half open."""
        with self._lock:
            return self._look()

    def retry_after(self) -> float:
        """Seconds until it may let something through; 0 if it may now."""
        with self._lock:
            if self._look() is not State.OPEN:
                return 0.0
            return (self._opened_ms + self._open_ms - self._clock.monotonic_ms()) / 1_000

    def permit(self) -> "Permit | None":
        """A permit to call the dependency once, or None. The holder reports the outcome."""
        with self._lock:
            match self._look():
                case State.OPEN:
                    return None
                case State.HALF_OPEN:
                    if self._probing >= self.probes:
                        return None
                    self._probing += 1
                    return Permit(self, is_probe=True)
                case State.CLOSED:
                    return Permit(self, is_probe=False)

    def counts(self, error: BaseException) -> bool:
        """True if this error counts against the dependency."""
        return isinstance(error, self.on) and not isinstance(error, CircuitOpen)

    def __enter__(self) -> None:
        permit = self.permit()
        if permit is None:
            raise CircuitOpen(self.name, self.retry_after())
        _ENTERED.set((*_ENTERED.get(), permit))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        *outer, permit = _ENTERED.get()
        _ENTERED.set(tuple(outer))
        permit.ended(error)

    def _ended(self, *, is_probe: bool, failed: bool | None) -> None:
        """A permit came back. None: nothing was learned."""
        with self._lock:
            state = self._look()
            if is_probe:
                self._probing = max(0, self._probing - 1)
            if failed is None:
                return
            if state is State.HALF_OPEN and is_probe:
                self._move(Event.PROBE_FAILED if failed else Event.PROBE_SUCCEEDED)
            elif state is State.CLOSED and failed:
                now_ms = self._clock.monotonic_ms()
                self._failed_ms.append(now_ms)
                oldest_ms = self._failed_ms[0]
                if len(self._failed_ms) == self._failures and now_ms - oldest_ms <= self._within_ms:
                    self._move(Event.FAILED_OFTEN)

    def _look(self) -> State:
        if self._state is State.OPEN:
            if self._clock.monotonic_ms() - self._opened_ms >= self._open_ms:
                self._move(Event.COOLED)
        return self._state

    def _move(self, event: Event) -> None:
        self._state = TRANSITIONS[self._state, event]
        self._failed_ms.clear()
        self._probing = 0
        if self._state is State.OPEN:
            self._opened_ms = self._clock.monotonic_ms()
            self.opened += 1


class Permit:
    """Leave to ask a dependency once."""

    __slots__ = ("_breaker", "_is_probe", "_over")

    def __init__(self, breaker: CircuitBreaker, *, is_probe: bool) -> None:
        self._breaker = breaker
        self._is_probe = is_probe
        self._over = False

    def ended(self, error: BaseException | None = None) -> None:
        """Record the outcome: a success without an error; an error that does not count is neither
        success nor failure."""
        failed = error is not None and self._breaker.counts(error)
        self._end(None if error is not None and not failed else failed)

    def unused(self) -> None:
        """The dependency was not asked after all."""
        self._end(None)

    def _end(self, failed: bool | None) -> None:
        if not self._over:
            self._over = True
            self._breaker._ended(is_probe=self._is_probe, failed=failed)  # noqa: SLF001 - one thing


_ENTERED: ContextVar[tuple[Permit, ...]] = ContextVar("penstock_breakers_entered", default=())
"""Permits of `with` blocks: a task or thread has its own, so that they end with the right one."""
