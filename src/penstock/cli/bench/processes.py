"""Several client processes, since one is often the limit: each does its share of a load.

A process is started afresh (not forked: a broker's engine or a loop must not be copied), connects,
and says that it is ready; when all are, they get a moment to begin at. From then on each reports
how far it is a few times a second, and in the end what it found. A parent that wants them to stop
says so; one that is gone ends them, as its pipe does. Ctrl-C reaches all of them on a terminal and
is the parent's business.
"""

import asyncio
import contextlib
import multiprocessing
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection

from penstock.cli.bench.load import Load, Pulse, Tally
from penstock.cli.bench.share import LoadResult, clients_of, run_share
from penstock.core.errors import PenstockError, Unavailable

PULSE_SECONDS = 0.2
ENDED_WITHIN_SECONDS = 5.0
_READY = "ready"
_STOP, _FINISH = "stop", "finish"


class ChildShare:
    """A process as its parent sees it."""

    def __init__(self, load: Load) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, theirs = context.Pipe()
        self._process = context.Process(target=_child, args=(theirs, load), daemon=True)
        # Ctrl-C on a terminal reaches this process, too, also while Python is starting in it. The
        # tracker, which multiprocessing starts with the first one, would allow signals again.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
        try:
            self._process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self._pulse = Pulse(sending=True)

    async def ready(self) -> None:
        """Wait until the child process is connected; raise Unavailable if it failed to connect."""
        said = await asyncio.to_thread(self._receive)
        if said != _READY:
            raise Unavailable(
                said.problem
                if isinstance(said, LoadResult)
                else "it did not report that it is ready"
            )

    async def run(self, start: float) -> LoadResult:
        """Start at this time, and return the result."""
        self._send(start)
        while True:
            said = await asyncio.to_thread(self._receive)
            if isinstance(said, LoadResult):
                return said
            assert isinstance(said, Pulse), said
            self._pulse.done += said.done
            self._pulse.latencies.merge(said.latencies)
            self._pulse.sent_all, self._pulse.done_all = said.sent_all, said.done_all
            self._pulse.sending = said.sending

    def pulse(self) -> Pulse:
        """Return the progress since the previous call."""
        pulse = self._pulse
        self._pulse = Pulse(sent_all=pulse.sent_all, done_all=pulse.done_all, sending=pulse.sending)
        return pulse

    def peek(self) -> Pulse:
        """Return the progress without resetting it."""
        return self._pulse

    def stop(self) -> None:
        """Ask the child process to end early."""
        self._send(_STOP)

    def finish(self) -> None:
        """End the child process: all messages are done."""
        self._send(_FINISH)

    def close(self) -> None:
        """Wait for the child process to exit, and kill it if it does not."""
        self._pipe.close()
        self._process.join(ENDED_WITHIN_SECONDS)
        if self._process.is_alive():
            self._process.kill()
            self._process.join()

    def _send(self, order: object) -> None:
        with contextlib.suppress(OSError):  # It may be gone; the reader of its output notices.
            self._pipe.send(order)

    def _receive(self) -> object:
        try:
            return self._pipe.recv()
        except (EOFError, OSError):
            self._process.join(ENDED_WITHIN_SECONDS)
            code = self._process.exitcode
            return LoadResult(problem=f"a client process ended by itself, with code {code}")


def _child(pipe: Connection, load: Load) -> None:
    """The main function of a child process."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if sys.platform == "linux":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        try:
            runner.run(_run(pipe, load))
        except PenstockError as error:
            pipe.send(LoadResult(problem=" ".join(str(error).split())))
        except (OSError, EOFError):
            return  # The parent is gone, or wants nothing any more.


async def _run(pipe: Connection, load: Load) -> None:
    async with clients_of(load) as clients:
        pipe.send(_READY)
        start = await asyncio.to_thread(pipe.recv)
        if not isinstance(start, float):
            return  # It was stopped.
        tally = Tally(load, start=start)
        loop = asyncio.get_running_loop()
        listener = threading.Thread(target=_listen, args=(pipe, loop, tally), daemon=True)
        listener.start()
        work = asyncio.create_task(run_share(load, clients, tally))
        while not work.done():
            await asyncio.wait([work], timeout=PULSE_SECONDS)
            if not work.done():
                pipe.send(tally.pulse())
        pipe.send(tally.pulse())
        pipe.send(work.result())


def _listen(pipe: Connection, loop: asyncio.AbstractEventLoop, tally: Tally) -> None:
    """Stop on any message of the parent, or when the parent is gone."""
    said = _STOP
    with contextlib.suppress(EOFError, OSError):
        said = pipe.recv()
    with contextlib.suppress(RuntimeError):  # The loop may have ended meanwhile.
        loop.call_soon_threadsafe(tally.finish if said == _FINISH else tally.stopping.set)
