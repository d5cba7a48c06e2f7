"""A worker thread: jobs in order, and nobody waits for a hint."""

import queue
import threading
from collections.abc import Callable

from penstock.engine.replica.worker import ThreadWorker
from penstock.storage import LogJob, Step

Call = Callable[[], None]


class Bench:
    """A worker and what it told the loop, which is this test."""

    def __init__(self) -> None:
        self.told: queue.Queue[Call] = queue.Queue()
        self.done: list[tuple[str, Exception | None]] = []
        self.worker = ThreadWorker("bench", self.told.put)

    def submit(self, name: str, *steps: Step, hints: int = 0) -> None:
        job = LogJob(
            name, list(steps), publish=lambda: None, abandon=lambda _error: None, hints=hints
        )
        self.worker.submit(job, lambda error: self.done.append((name, error)))

    def hear(self) -> None:
        self.told.get(timeout=30)()


def fail() -> None:
    raise OSError("the disk is gone")


def test_jobs_are_done_in_order_and_told_in_order() -> None:
    bench, seen = Bench(), list[str]()
    bench.submit("a", lambda: seen.append("a1"), lambda: seen.append("a2"))
    bench.submit("b", lambda: seen.append("b1"))
    bench.hear()
    bench.hear()
    bench.worker.close()
    assert seen == ["a1", "a2", "b1"]
    assert bench.done == [("a", None), ("b", None)]


def test_a_job_is_told_before_its_hint_and_the_next_comes_after_it() -> None:
    bench, seen, may_hint = Bench(), list[str](), threading.Event()

    def hint() -> None:
        assert may_hint.wait(30)
        seen.append("hint")

    bench.submit("a", lambda: seen.append("a"), hint, hints=1)
    bench.submit("b", lambda: seen.append("b"))
    bench.hear()
    assert (bench.done, seen) == ([("a", None)], ["a"])
    may_hint.set()
    bench.hear()
    bench.worker.close()
    assert (bench.done, seen) == ([("a", None), ("b", None)], ["a", "hint", "b"])


def test_a_hint_that_fails_fails_the_next_job() -> None:
    bench, seen = Bench(), list[str]()
    bench.submit("a", lambda: seen.append("a"), fail, hints=1)
    bench.submit("b", lambda: seen.append("b"))
    bench.hear()
    bench.hear()
    bench.worker.close()
    assert seen == ["a"]
    assert [(name, error is None) for name, error in bench.done] == [("a", True), ("b", False)]


def test_a_job_that_fails_is_over_and_the_next_is_not_its_business() -> None:
    bench, seen = Bench(), list[str]()
    bench.submit("a", fail, lambda: seen.append("a"))
    bench.submit("b", lambda: seen.append("b"))
    bench.hear()
    bench.hear()
    bench.worker.close()
    assert seen == ["b"]
    assert [(name, error is None) for name, error in bench.done] == [("a", False), ("b", True)]
