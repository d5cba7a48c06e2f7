"""Celery, with a broker URL and no other word about what answers at it.

A worker is a process of its own. It is sent tasks that succeed, that fail and are tried again,
that are to run later, and one that takes its worker with it: that one comes back when its lease
ends, and another worker finishes it.
"""

import signal
import time
from pathlib import Path

import pytest

from tests.cluster.waiting import wait_until
from tests.interop.celery_workers import Tasks
from tests.interop.served import counts, serving

pytestmark = [
    pytest.mark.slow,
    # What kombu leaves to the garbage collector.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]

SECONDS_MAX = 60
LEASE_SECONDS = 3


def test_tasks_run_are_tried_again_come_later_and_outlive_their_worker(tmp_path: Path) -> None:
    with serving(tmp_path) as served:
        tasks = Tasks(served, tmp_path, "short-", visibility_timeout=LEASE_SECONDS)
        sums = [tasks.send("add", number, 1) for number in range(20)]
        tried = tasks.send("fail_at_first", 1)
        asked_at = time.time()
        delayed = tasks.send("tell_time", DelaySeconds=2)
        fatal = tasks.send("die_at_first", str(tmp_path / "mark"))
        with tasks.worker("--pool=solo") as first:
            assert first.wait(SECONDS_MAX) == -signal.SIGKILL
            died_at = time.time()
        with tasks.worker("--pool=solo"):
            found = [one.get(timeout=SECONDS_MAX) for one in sums]
            assert found == [number + 1 for number in range(20)]
            assert tried.get(timeout=SECONDS_MAX) == 1
            assert delayed.get(timeout=SECONDS_MAX) - asked_at >= 2
            assert fatal.get(timeout=SECONDS_MAX) == "done"
            assert time.time() - died_at >= LEASE_SECONDS - 1
            client = served.client()
            url = client.get_queue_url(QueueName="short-celery")["QueueUrl"]
            wait_until(
                lambda: counts(client, url) == (0, 0, 0),
                lambda: f"everything is acked: {counts(client, url)}",
                seconds=SECONDS_MAX,
            )
