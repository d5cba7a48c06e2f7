"""Where blocking disk work runs.

The loop never blocks on the disk: it prepares a job (all decisions, all memory), a worker carries
out the job's steps (files only), and notifies the loop when it is done. Jobs of one worker run one
after the other in the order they were given, which is what makes "the vote before the answer" and
"the snapshot before the removal" hold without locks. The loop is notified as soon as the steps
are done that an answer waits for; should one of the others fail, the next job fails of it.

In production a worker is one thread. In the simulator each step is an event of its own, with time
in between in which the node may crash: so after any step the disk must be recoverable.
"""

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from penstock.storage import Job, Step

Done = Callable[[Exception | None], None]


class Worker(Protocol):
    """Runs jobs in order, elsewhere."""

    def submit(self, job: Job, done: Done) -> None:
        """Run the steps, then call `done` on the loop with None or the error that stopped them."""
        ...


class ThreadWorker:
    """One thread; `call_on_loop` is typically `loop.call_soon_threadsafe`."""

    def __init__(self, name: str, call_on_loop: Callable[[Callable[[], None]], object]) -> None:
        self._call_on_loop = call_on_loop
        self._jobs: queue.SimpleQueue[tuple[Job, Done] | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def submit(self, job: Job, done: Done) -> None:
        self._jobs.put((job, done))

    def close(self) -> None:
        """Finish what was submitted, then end the thread."""
        self._jobs.put(None)
        self._thread.join()

    def _run(self) -> None:
        late: Exception | None = None
        while (item := self._jobs.get()) is not None:
            job, done = item
            awaited = job.awaited
            error = late or _carry_out(job.steps[:awaited])
            try:
                self._call_on_loop(_Completion(done, error))
            except RuntimeError:
                return  # The loop is closed: the process is ending and nothing listens.
            late = _carry_out(job.steps[awaited:]) if error is None else None


def _carry_out(steps: Sequence[Step]) -> Exception | None:
    """Do them, up to the first that fails."""
    try:
        for step in steps:
            step()
    except Exception as caught:  # noqa: BLE001 - the loop decides what it means
        return caught
    return None


class _Completion:
    """A call with its argument; cheaper to build than a closure and visible in a traceback."""

    __slots__ = ("done", "error")

    def __init__(self, done: Done, error: Exception | None) -> None:
        self.done = done
        self.error = error

    def __call__(self) -> None:
        self.done(self.error)
