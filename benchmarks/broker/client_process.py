"""A process for a client, so that it shares no interpreter with anything else that is measured.

It is spawned, not forked: librdkafka's threads do not survive a fork. It does one thing after the
other, as asked, and ends with its parent.
"""

import multiprocessing
import multiprocessing.connection
import traceback
from collections.abc import Callable
from contextlib import suppress
from types import TracebackType
from typing import Any, Generic, ParamSpec, TypeVar

from benchmarks.broker.clients import ClientFailed

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")

CALL_WITHIN_SECONDS = 180.0
_END_WITHIN_SECONDS = 5.0


class Pending(Generic[T]):
    """A call under way."""

    def __init__(self, client: "ClientProcess", what: str) -> None:
        self._client = client
        self._what = what

    def result(self, seconds: float = CALL_WITHIN_SECONDS) -> T:
        """What it returned; raises what went wrong."""
        return self._client.take(self._what, seconds)  # type: ignore[no-any-return]


class ClientProcess:
    """Runs functions of `benchmarks.broker.clients`, one at a time."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self._line, theirs = context.Pipe()
        self._process = context.Process(target=_work, args=(theirs,), daemon=True)
        self._process.start()
        theirs.close()

    def __enter__(self) -> "ClientProcess":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._line.close()
        self._process.join(0 if error is not None else _END_WITHIN_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def begin(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> Pending[T]:
        """Start a call and do not wait."""
        self._line.send((function, args, kwargs))
        return Pending(self, function.__name__)

    def call(self, function: Callable[P, T], *args: P.args, **kwargs: P.kwargs) -> T:
        """Make a call and wait for its end."""
        return self.begin(function, *args, **kwargs).result()

    def take(self, what: str, seconds: float) -> Any:
        """The next answer."""
        if not self._line.poll(seconds):
            raise ClientFailed(f"{what} took over {seconds:.0f} s")
        try:
            fault, answer = self._line.recv()
        except EOFError:
            raise ClientFailed(f"the client process died in {what}") from None
        if fault:
            raise ClientFailed(f"{what}: {fault}")
        return answer


def both_results(first: Pending[T], second: Pending[S]) -> tuple[T, S]:
    """Of calls of two processes. If the first fails, the second is waited for all the same: what
    it answers would else be taken for the answer to the next call."""
    try:
        result = first.result()
    except ClientFailed:
        with suppress(ClientFailed):
            second.result()
        raise
    return result, second.result()


def _work(line: "multiprocessing.connection.Connection[Any, Any]") -> None:
    """The other end, until it is closed."""
    while True:
        try:
            function, args, kwargs = line.recv()
        except (EOFError, KeyboardInterrupt):
            return
        try:
            answer = function(*args, **kwargs)
        except Exception:  # noqa: BLE001 - told to whoever asked
            line.send((traceback.format_exc(limit=-2), None))
        else:
            line.send(("", answer))
