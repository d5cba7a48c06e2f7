"""Exactly once, with a driver that is really killed: three kills, and every row is there once.

The first kill comes at some moment, the second when a batch is published and Spark does not know of
it, the third again at some moment. While a driver works the next one starts its Java, so that the
test takes half the time.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest

from penstock import blocking
from penstock.testing import PenstockServer
from tests.cluster.waiting import pass_time, wait_until
from tests.spark.sink_driver import Driver, Job

ROWS = 900
ROWS_PER_BATCH = 100
WORK_WITHIN_SECONDS = 120.0
MOMENT_SECONDS = 0.5
SEED = 7


@pytest.fixture
def drivers() -> Iterator[ExitStack]:
    """Ends all drivers, whatever happens."""
    with ExitStack() as stack:
        yield stack


@pytest.mark.timeout(900)
def test_three_kills_lose_nothing_and_double_nothing(
    broker: PenstockServer, drivers: ExitStack, tmp_path: Path
) -> None:
    random = Random(SEED)
    client = drivers.enter_context(blocking.connect(broker.url))
    for topic in ("killed-in", "killed-out"):
        client.create_topic(topic, partitions=2)
    client.topic("killed-in", codec=bytes).send_many([b"%d" % row for row in range(ROWS)])
    job = Job(broker.url, "killed-in", "killed-out", str(tmp_path / "checkpoint"), ROWS_PER_BATCH)

    def start(number: int, job: Job) -> Driver:
        driver = Driver(job, tmp_path / f"driver-{number}.txt")
        drivers.callback(driver.kill)
        return driver

    def copied() -> int:
        return client.describe_topic("killed-out").messages

    def wait_copied(driver: Driver, rows: int) -> None:
        wait_until(
            lambda: copied() >= rows or not driver.running,
            lambda: f"{rows} rows are copied\n{driver.said()}",
            seconds=WORK_WITHIN_SECONDS,
        )
        assert driver.running, driver.said()

    first = start(1, job)
    first.go()
    second = start(2, replace(job, strike_after_batch=4))
    wait_copied(first, ROWS_PER_BATCH)
    pass_time(random.uniform(0, MOMENT_SECONDS))
    first.kill()

    second.go()
    third = start(3, job)
    assert second.wait(WORK_WITHIN_SECONDS) == -9, second.said()
    before = copied()

    third.go()
    last = start(4, job)
    wait_copied(third, before + ROWS_PER_BATCH)
    pass_time(random.uniform(0, MOMENT_SECONDS / 2))
    third.kill()
    assert copied() < ROWS, "the third kill came too late to interrupt anything"

    last.go()
    assert last.wait(WORK_WITHIN_SECONDS) == 0, last.said()
    found = Counter(record.raw for record in client.read("killed-out"))
    assert found == Counter({b"%d" % row: 1 for row in range(ROWS)})
