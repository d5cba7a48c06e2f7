"""Celery at length: many tasks, several workers, and workers and brokers that are killed."""

import time
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError

from tests.cluster.waiting import pass_time, wait_until
from tests.interop.celery_workers import Tasks
from tests.interop.served import NODE, Served, counts, serving

pytestmark = [
    pytest.mark.interop,
    pytest.mark.timeout(600),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]

TASKS = 1_000
SECONDS_MAX = 120
LEASE_SECONDS = 8


def runs_of(directory: Path) -> Counter[int]:
    """How often each task ran."""
    return Counter(int(trace.name.partition("-")[0]) for trace in directory.iterdir())


def send_for_certain(tasks: Tasks, directory: Path, number: int) -> None:
    """Celery does not send again what it got no answer to: whoever sends does."""

    def sent() -> bool:
        try:
            tasks.send("note", str(directory), number)
        except (BotoCoreError, OSError):
            return False
        return True

    wait_until(sent, f"task {number} is sent", seconds=SECONDS_MAX)


def is_empty(served: Served, queue: str) -> bool:
    client = served.client()
    url = client.get_queue_url(QueueName=queue)["QueueUrl"]
    return counts(client, url) == (0, 0, 0)


def test_every_task_runs_though_workers_and_brokers_are_killed(tmp_path: Path) -> None:
    """A worker of kombu 5.7 ends when an answer does not come; its supervisor, here this test,
    starts another."""
    traces = tmp_path / "traces"
    traces.mkdir()
    pool = ("--pool=prefork", "--concurrency=2")
    with serving(tmp_path) as served:
        tasks = Tasks(served, tmp_path, "many-", visibility_timeout=LEASE_SECONDS)
        for number in range(TASKS // 2):
            tasks.send("note", str(traces), number)
        with tasks.worker(*pool), tasks.worker(*pool), tasks.worker("--pool=solo") as victim:
            wait_until(lambda: len(runs_of(traces)) > 50, "tasks run", seconds=SECONDS_MAX)
            victim.kill()
            served.cluster.kill(NODE)
            pass_time(2.0)
            served.cluster.restart(NODE)
        with tasks.worker(*pool), tasks.worker(*pool):
            for number in range(TASKS // 2, TASKS):
                send_for_certain(tasks, traces, number)
            wait_until(
                lambda: len(runs_of(traces)) == TASKS,
                lambda: f"{len(runs_of(traces))} of {TASKS} tasks ran",
                seconds=SECONDS_MAX,
            )
            wait_until(lambda: is_empty(served, "many-celery"), "all acked", seconds=SECONDS_MAX)
        again = sum(runs - 1 for runs in runs_of(traces).values())
        print(f"{TASKS} tasks ran, {again} of them again")
        assert again < TASKS / 10, "leases are kept, but for those of the killed"


def test_queues_that_are_named_beforehand_and_a_fifo_queue(tmp_path: Path) -> None:
    """`predefined_queues`: Celery makes no queue and uses those it is told of."""
    with serving(tmp_path) as served:
        client = served.client()
        plain = client.create_queue(QueueName="plain", Attributes={"VisibilityTimeout": "20"})
        attributes = {"FifoQueue": "true", "VisibilityTimeout": "20"}
        ordered = client.create_queue(QueueName="ordered.fifo", Attributes=attributes)
        named: dict[str, Any] = {
            name: {
                "url": made["QueueUrl"],
                "access_key_id": "any",
                "secret_access_key": "any",
                "region": "us-east-1",
            }
            for name, made in (("plain", plain), ("ordered.fifo", ordered))
        }
        named["plain"]["backoff_policy"] = {1: 1, 2: 1}
        named["plain"]["backoff_tasks"] = ["fail_at_first"]
        tasks = Tasks(served, tmp_path, "", predefined_queues=named)
        tasks.app.conf.task_default_queue = "plain"
        sums = [
            tasks.send("add", number, number, queue="ordered.fifo", MessageGroupId="g")
            for number in range(20)
        ]
        tried = tasks.send("fail_at_first", 3, queue="plain")
        asked_at = time.time()
        later = tasks.send("tell_time", queue="plain", countdown=4)
        with tasks.worker("--pool=solo", "-Q", "plain,ordered.fifo"):
            assert [one.get(timeout=SECONDS_MAX) for one in sums] == [
                2 * number for number in range(20)
            ]
            assert tried.get(timeout=SECONDS_MAX) == 3
            assert later.get(timeout=SECONDS_MAX) - asked_at >= 4
            for queue in ("plain", "ordered.fifo"):
                wait_until(
                    lambda queue=queue: is_empty(served, queue),  # type: ignore[misc]
                    f"{queue} is empty",
                    seconds=SECONDS_MAX,
                )
        assert set(client.list_queues()["QueueUrls"]) == {plain["QueueUrl"], ordered["QueueUrl"]}
