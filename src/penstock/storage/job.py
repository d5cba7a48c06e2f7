"""Blocking work, cut into steps, on its way from the loop to a worker thread and back.

    job = log.take_job()              on the loop: what to do is decided, nothing has been done
    for step in job.steps: step()     on a worker thread, in order
    log.complete(job)                 on the loop: the result is seen
    log.fail(job, error)              on the loop, instead, if a step raised

The rule that makes this safe without a lock: steps touch files and what belongs to the job; memory
that the loop reads changes only in `take_job`, `complete` and `fail`. After any step the process
may die and the directory must still be recoverable, so the order of the steps is part of the file
format.

The last steps may be of a kind that no answer has to wait for: what they write is a hint. The loop
may see the result when the `awaited` ones are done; the others still come before any later job.
"""

from collections.abc import Callable, Sequence
from typing import Protocol

Step = Callable[[], None]


class Job(Protocol):
    """The interface of any job for the engine."""

    @property
    def steps(self) -> Sequence[Step]: ...

    @property
    def awaited(self) -> int:
        """The number of steps that must be done before the result is available: all, or nearly
        all."""
        ...


class LogJob:
    """A job of a `ShardLog`."""

    __slots__ = ("_abandon", "_hints", "_publish", "kind", "steps")

    def __init__(
        self,
        kind: str,
        steps: list[Step],
        *,
        publish: Callable[[], None],
        abandon: Callable[[Exception], None],
        hints: int = 0,
    ) -> None:
        """`hints`: how many steps at the end need not be waited for."""
        self.kind = kind
        """For people: `write`, `snapshot`, `reclaim`, `survey`, `compact`, `receive`, `install`,
        `ballast` or `scrub`."""
        self.steps = steps
        self._publish = publish
        self._abandon = abandon
        self._hints = hints

    @property
    def awaited(self) -> int:
        return len(self.steps) - self._hints

    def publish(self) -> None:
        """On the loop, after the last step."""
        self._publish()

    def abandon(self, error: Exception) -> None:
        """On the loop, after a step that raised."""
        self._abandon(error)


def run(job: Job) -> None:
    """Do all of it here and now; for tests, tools and programs without a loop."""
    for step in job.steps:
        step()
