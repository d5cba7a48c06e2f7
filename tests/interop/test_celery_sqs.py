"""Celery with an `sqs://` broker: tasks are done once, tried again, delayed, and not lost."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from celery import Celery
from celery.contrib.testing.worker import start_worker

from tests.sqs_broker import REGION, SqsBroker, sqs_broker

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]

SECONDS_MAX = 60.0


class Ledger:
    """What tasks have done, in the order they did it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self.rows: list[object] = []

    def write(self, row: object) -> None:
        with self._changed:
            self.rows.append(row)
            self._changed.notify_all()

    def wait(self, count: int) -> list[object]:
        """The rows, when there are so many."""
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.rows) >= count, SECONDS_MAX), self.rows
            return list(self.rows)


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


def make_app(sqs: SqsBroker, queue: str, **options: object) -> Celery:
    address = sqs.url.removeprefix("http://")
    app = Celery(queue, broker=f"sqs://anybody:secret@{address}//", set_as_current=False)
    app.conf.update(
        task_default_queue=queue,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
        worker_enable_remote_control=False,
        broker_connection_retry_on_startup=True,
        broker_transport_options={
            "region": REGION,
            "is_secure": False,
            "wait_time_seconds": 1,
            "polling_interval": 0.1,
            "visibility_timeout": 30,
            **options,
        },
    )
    return app


@contextmanager
def worker(app: Celery) -> Iterator[Any]:
    """A worker in a thread of its own."""
    with start_worker(
        app, pool="solo", perform_ping_check=False, shutdown_timeout=SECONDS_MAX, loglevel="ERROR"
    ) as running:
        yield running


def test_tasks_are_done_each_of_them_once(sqs: SqsBroker) -> None:
    app, ledger = make_app(sqs, "celery-once"), Ledger()

    @app.task(name="note")  # type: ignore[untyped-decorator]
    def note(number: int, *, text: str) -> None:
        ledger.write((number, text))

    for number in range(20):
        note.delay(number, text=f"Grüße {number}")
    with worker(app):
        rows = ledger.wait(20)
    assert sorted(rows, key=str) == sorted(
        [(number, f"Grüße {number}") for number in range(20)], key=str
    )
    assert sqs.counts("celery-once") == (0, 0, 0)


def test_a_task_that_fails_is_tried_again(sqs: SqsBroker) -> None:
    app, ledger = make_app(sqs, "celery-retry"), Ledger()

    @app.task(name="stumble", bind=True, max_retries=3)  # type: ignore[untyped-decorator]
    def stumble(self: Any) -> None:
        ledger.write(self.request.retries)
        if self.request.retries < 2:
            raise self.retry(countdown=0.1)

    stumble.delay()
    with worker(app):
        rows = ledger.wait(3)
    assert rows == [0, 1, 2]
    assert sqs.counts("celery-retry") == (0, 0, 0)


def test_a_task_is_done_later(sqs: SqsBroker) -> None:
    app, ledger = make_app(sqs, "celery-later"), Ledger()

    @app.task(name="later")  # type: ignore[untyped-decorator]
    def later() -> None:
        ledger.write(time.monotonic())

    sent = time.monotonic()
    later.apply_async(countdown=1)
    with worker(app):
        (done,) = ledger.wait(1)
    assert isinstance(done, float)
    assert done - sent >= 1.0


def test_tasks_of_a_fifo_queue_are_done_in_order(sqs: SqsBroker) -> None:
    sqs.create_fifo("celery-order", ContentBasedDeduplication="true")
    app, ledger = make_app(sqs, "celery-order.fifo"), Ledger()

    @app.task(name="ordered")  # type: ignore[untyped-decorator]
    def ordered(number: int) -> None:
        ledger.write(number)

    for number in range(10):
        ordered.apply_async([number], MessageGroupId="one-line")
    with worker(app):
        assert ledger.wait(10) == list(range(10))
