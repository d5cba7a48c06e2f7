"""A Celery application, as somebody would write it who has only read Celery's documentation.

The environment says where the broker is, where results go, and what the transport is told.
"""

import json
import os
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from celery import Celery

BROKER, RESULTS, OPTIONS = "TASKS_BROKER", "TASKS_RESULTS", "TASKS_OPTIONS"

Function = TypeVar("Function", bound=Callable[..., Any])


def make_app(broker: str, results: str, options: dict[str, Any]) -> Celery:
    """The same for those who send tasks and those who run them."""
    made = Celery("tasks", broker=broker, backend=results)
    made.conf.update(
        broker_transport_options=options,
        broker_connection_retry_on_startup=True,
        task_acks_late=True,
        worker_prefetch_multiplier=1,
    )
    return made


app = make_app(
    os.environ.get(BROKER, "sqs://"),
    os.environ.get(RESULTS, ""),
    json.loads(os.environ.get(OPTIONS, "{}")),
)


def task(**options: Any) -> Callable[[Function], Function]:
    """What Celery calls `app.task`, with types."""
    made: Callable[[Function], Function] = app.task(**options)
    return made


@task(name="add")
def add(left: int, right: int) -> int:
    return left + right


@task(
    name="fail_at_first",
    bind=True,
    autoretry_for=(RuntimeError,),
    retry_kwargs={"max_retries": 5, "countdown": 1},
)
def fail_at_first(self: Any, times: int) -> int:
    """Fails so many times; returns how often it was tried again."""
    retries: int = self.request.retries
    if retries < times:
        raise RuntimeError("not yet")
    return retries


@task(name="tell_time")
def tell_time() -> float:
    return time.time()


@task(name="die_at_first")
def die_at_first(mark: str) -> str:
    """Kills its worker, unless it has done so before."""
    path = Path(mark)
    if not path.exists():
        path.touch()
        os.kill(os.getpid(), signal.SIGKILL)
    return "done"


@task(name="note")
def note(directory: str, number: int) -> None:
    """Leaves a trace of every time it was run."""
    Path(directory, f"{number}-{time.time_ns()}").touch()
