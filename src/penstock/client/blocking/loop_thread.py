"""The event loop of a blocking client, on a thread of its own.

The client that does the work is the async one, and it lives on this loop; the caller of a blocking
method waits on another thread until the loop has the result. Any number of threads may call at
once: their calls are under way together, on the same connections.

- **Ctrl-C** while waiting cancels what was asked for, waits a moment for that, and is then raised.
  It may come at any instruction, so a waiting thread holds nothing that the loop needs: a signal
  that comes while Python's own futures are being locked leaves them locked, and both wait for ever.
- **Fork.** A child has the memory of its parent and not its threads: the loop does not run there,
  and its sockets are the parent's. Its first call notices that, and it connects anew.
- **Exit.** What is still open when the interpreter ends is closed, so that messages that were
  fetched and not handed out go back to their queues instead of waiting for their leases to end.

A hop to the loop and back costs some 50 µs. That is nothing beside a round trip to a broker, and
much beside a message of a batch, so what concerns many messages is one hop.
"""

import asyncio
import atexit
import contextlib
import os
import threading
from collections.abc import Callable, Coroutine
from typing import Any, Generic, TypeVar

from penstock.core.errors import ClientClosed, InvalidRequest

T = TypeVar("T")

CANCELLED_WITHIN_SECONDS = 1.0
"""How long Ctrl-C waits for the loop to have dropped the call."""
SIGNAL_SECONDS = 0.5
"""How long Ctrl-C may go unnoticed, if it comes at the worst moment."""
CLOSED_WITHIN_SECONDS = 10.0
"""How long the end of the interpreter waits for what was left open."""


def _new_loop() -> asyncio.AbstractEventLoop:
    """On uvloop where it is to be had."""
    try:
        import uvloop  # noqa: PLC0415 - it is not there on every system.
    except ImportError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


class _Call(Generic[T]):
    """A coroutine on its way to the loop, and what came of it."""

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine
        self._task: asyncio.Task[T] | None = None
        self.under_way = threading.Lock()
        """Free when it has ended."""
        self.under_way.acquire()

    def begin(self) -> None:
        """Carry it out; called on the loop."""
        self._task = asyncio.get_running_loop().create_task(self._coroutine)
        self._task.add_done_callback(lambda _: self.under_way.release())

    def drop(self) -> None:
        """The result is not wanted any more. Called on the loop, after `begin` if at all."""
        if self._task is not None:
            self._task.cancel()
        else:
            self._coroutine.close()
            self.under_way.release()

    def result(self) -> T:
        """What came of it, once it has ended."""
        assert self._task is not None, "it has not begun"
        if self._task.cancelled():
            raise ClientClosed("The client was closed while this call was under way.")
        return self._task.result()


class LoopThread:
    """A running loop and the way to it, for one client."""

    def __init__(self) -> None:
        self._process = os.getpid()
        self._loop = _new_loop()
        self._closed = False
        self._closing = threading.Lock()
        self._submitting = threading.Lock()
        """Nothing is submitted once it is closed: the loop would never get to it."""
        # A daemon: a program that forgets to close must still be able to end.
        self._thread = threading.Thread(target=self._run, name="penstock-client", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_forever()
        finally:
            asyncio.set_event_loop(None)

    def run(self, call: Coroutine[Any, Any, T]) -> T:
        """Let the loop carry out `call`, and wait for what comes of it."""
        asked = _Call(call)
        try:
            self._check()
        except BaseException:
            call.close()  # It is never awaited, which would be warned of.
            raise
        try:
            with self._submitting:
                self._check()
                self._loop.call_soon_threadsafe(asked.begin)
            # A signal that comes between Python's last look for one and its falling asleep is seen
            # when it wakes up again.
            while not asked.under_way.acquire(timeout=SIGNAL_SECONDS):
                pass
        except BaseException:
            # Ctrl-C, or whatever else a signal of the program's raises here; or it has just closed.
            self._drop(asked)
            raise
        return asked.result()

    def _drop(self, asked: _Call[T]) -> None:
        with contextlib.suppress(BaseException):
            self._loop.call_soon_threadsafe(asked.drop)
            asked.under_way.acquire(timeout=CANCELLED_WITHIN_SECONDS)

    def call(self, function: Callable[[], T]) -> T:
        """Let the loop call a function that does not wait, since what it touches is the loop's."""

        async def ask() -> T:
            return function()

        return self.run(ask())

    def _check(self) -> None:
        if os.getpid() != self._process:
            raise ClientClosed(
                "This client was connected before the process was forked, and belongs to the"
                " parent: connect anew in the child."
            )
        if threading.get_ident() == self._thread.ident:
            raise InvalidRequest(
                "A blocking call on the client's own loop would wait for itself for ever: use the"
                " async client there."
            )
        if self._closed:
            raise ClientClosed("The client is closed: connect anew.")

    def is_closed(self) -> bool:
        """It has been closed, or is another process's."""
        return self._closed or os.getpid() != self._process

    def close(self, last: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Carry out `last`, drop what is still under way, and end the thread. Twice is once."""
        if self.is_closed():
            return
        with self._closing:
            if self.is_closed():
                return
            try:
                self.run(last())
            finally:
                self._end()

    def _end(self) -> None:
        with self._submitting:
            self._closed = True
            dropping = _Call(self._drop_rest())
            self._loop.call_soon_threadsafe(dropping.begin)
        dropping.under_way.acquire(timeout=CLOSED_WITHIN_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(CLOSED_WITHIN_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _drop_rest(self) -> None:
        rest = asyncio.all_tasks() - {asyncio.current_task()}
        for task in rest:
            task.cancel()
        await asyncio.gather(*rest, return_exceptions=True)
        await self._loop.shutdown_asyncgens()
        # When the interpreter ends, its threads have been joined, and Python 3.12 refuses the one
        # that would join them.
        with contextlib.suppress(RuntimeError):
            await self._loop.shutdown_default_executor()


def close_at_exit(close: Callable[[], None]) -> Callable[[], None]:
    """Close when the interpreter ends; calling the result takes that back.

    The process that forked it off has the same list: what it closes is not the child's to close."""
    atexit.register(close)
    return lambda: atexit.unregister(close)
