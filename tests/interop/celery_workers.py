"""Celery workers as processes of their own, and the application that sends them tasks."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from celery import Celery

from tests.cluster.processes import tail
from tests.interop.celery_app import BROKER, OPTIONS, RESULTS, make_app
from tests.interop.served import REGION, Served

ROOT = Path(__file__).parents[2]
ENDED_WITHIN_SECONDS = 30


class Tasks:
    """One queue's tasks: who sends them, and who runs them."""

    def __init__(self, served: Served, directory: Path, prefix: str, **options: object) -> None:
        self.directory = directory
        self._broker = f"sqs://any:any@{served.http}//"
        self._results = f"file://{directory / 'results'}"
        (directory / "results").mkdir()
        self._options: dict[str, Any] = {
            "region": REGION,
            "is_secure": False,
            "queue_name_prefix": prefix,
            "wait_time_seconds": 2,
            "polling_interval": 0.1,
            **options,
        }
        self.app: Celery = make_app(self._broker, self._results, self._options)
        self._workers = 0

    def send(self, name: str, *arguments: object, **options: object) -> Any:
        """What will hold the result."""
        return self.app.send_task(name, arguments, **options)

    @contextlib.contextmanager
    def worker(self, *flags: str) -> Iterator["subprocess.Popen[bytes]"]:
        """A worker; it is gone in the end, whatever happens."""
        self._workers += 1
        log = self.directory / f"worker-{self._workers}.txt"
        environment = {
            **os.environ,
            BROKER: self._broker,
            RESULTS: self._results,
            OPTIONS: json.dumps(self._options),
        }
        quiet = ("--without-gossip", "--without-mingle", "--without-heartbeat")
        application = ("-A", "tests.interop.celery_app")
        with log.open("wb") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", "celery", *application, "worker", *quiet, *flags],
                cwd=ROOT,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            yield process
        except BaseException:
            print(tail(log))
            raise
        finally:
            process.terminate()
            try:
                process.wait(ENDED_WITHIN_SECONDS)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
