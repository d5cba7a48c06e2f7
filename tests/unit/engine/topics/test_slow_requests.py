"""A slow request is told of in one line that says what it waited for."""

import logging
import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from penstock.core.spans import Spans
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.slow_requests import LINES_PER_SECOND_MAX, SlowRequests
from penstock.testing.clock import ManualClock
from tests.kafka_broker import open_broker


class Shards:
    """Shards that remember what was slow."""

    def __init__(self) -> None:
        self.syncs, self.commits = Spans(), Spans()

    def __iter__(self) -> Any:
        return iter([2])

    def get(self, _shard: int) -> Any:
        log = SimpleNamespace(syncs=self.syncs)
        times = SimpleNamespace(spans=self.commits)
        return SimpleNamespace(replica=SimpleNamespace(log=log, commit_times=times))


def made() -> tuple[Shards, SlowRequests, ManualClock]:
    shards, clock = Shards(), ManualClock()
    return shards, SlowRequests(cast(LocalShards, shards), clock), clock


def lines(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "penstock.slow"]


def test_a_slow_disk_is_named(caplog: pytest.LogCaptureFixture) -> None:
    shards, slow, _ = made()
    shards.syncs.note(10.0, 11.2)
    shards.commits.note(10.0, 11.25)
    slow.note("kafka", "Produce v11", "a client", began=10.0, ended=11.3)
    (line,) = lines(caplog)
    assert line == (
        "slow request: kafka Produce v11 of a client took 1300 ms; a sync of the log of shard 2"
        " took 1200 ms of it"
    )
    (record,) = [one for one in caplog.records if one.name == "penstock.slow"]
    assert record.levelno == logging.WARNING
    assert record.__dict__["took_ms"] == 1300
    assert slow.count == 1


def test_slow_followers_are_named(caplog: pytest.LogCaptureFixture) -> None:
    shards, slow, _ = made()
    shards.commits.note(10.0, 11.5)
    slow.note("sqs", "SendMessage", "", began=10.0, ended=11.6)
    (line,) = lines(caplog)
    assert "of an unnamed client took 1600 ms; a commit in shard 2 took 1500 ms of it" in line
    assert "other nodes were slow" in line


def test_a_busy_node_is_named(caplog: pytest.LogCaptureFixture) -> None:
    shards, slow, _ = made()
    shards.syncs.note(1.0, 3.0)
    slow.note("http", "GET /v1/queues", "127.0.0.1", began=10.0, ended=12.0)
    (line,) = lines(caplog)
    assert "this node had too much to do" in line


def test_the_time_a_client_asked_to_wait_is_not_slow(caplog: pytest.LogCaptureFixture) -> None:
    _, slow, _ = made()
    slow.note("native", "Take", "a worker", began=10.0, ended=30.0, waited=19.5)
    assert lines(caplog) == []
    slow.note("kafka", "JoinGroup v7", "a member", began=10.0, ended=30.0)
    assert lines(caplog) == [], "it waits for the others"
    slow.seconds = math.inf
    slow.note("native", "Take", "a worker", began=10.0, ended=30.0)
    assert lines(caplog) == [], "that is never"


def test_lines_are_few_and_what_is_left_out_is_told(caplog: pytest.LogCaptureFixture) -> None:
    _, slow, clock = made()
    for _ in range(LINES_PER_SECOND_MAX + 7):
        slow.note("kafka", "Produce", "x", began=0.0, ended=2.0)
    assert len(lines(caplog)) == LINES_PER_SECOND_MAX
    clock.advance(1_000)
    slow.note("kafka", "Produce", "x", began=0.0, ended=2.0)
    assert lines(caplog)[-1].endswith("(7 more such lines were left out)")
    assert slow.count == LINES_PER_SECOND_MAX + 8


def test_a_client_cannot_forge_a_line(caplog: pytest.LogCaptureFixture) -> None:
    _, slow, _ = made()
    slow.note("kafka", "Produce", "me\nslow request: all is well", began=0.0, ended=2.0)
    (line,) = lines(caplog)
    assert "\n" not in line


@pytest.mark.asyncio
async def test_shards_that_run_can_explain(tmp_path: Path) -> None:
    async with open_broker(tmp_path) as broker:
        engine = broker.node.engine
        for shard in broker.node.shards:
            running = broker.node.shards.get(shard)
            assert running is not None
            running.replica.log.syncs.note(50.0, 52.0)
        assert "took 2000 ms of it" in engine.topics.slow_requests.explain(49.0, 52.5)
