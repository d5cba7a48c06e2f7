"""Three real brokers and a webhook: the leader is killed, and what is wrong is told anyhow."""

from pathlib import Path
from typing import Any

import pytest

from tests.cluster.processes import Cluster
from tests.cluster.waiting import wait_until
from tests.unit.watch.test_webhook import Receiver
from tests.web_broker import ask

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECONDS = 60


def found(cluster: Cluster, number: int, path: str) -> Any:
    """What a node answers; nothing while it cannot."""
    try:
        status, document = ask(cluster.nodes[number].http, "GET", path)
    except OSError:
        return None
    return document if status == 200 else None


def order(cluster: Cluster, number: int, path: str, body: object) -> None:
    def done() -> bool:
        return ask(cluster.nodes[number].http, "POST", path, body)[0] < 300

    wait_until(done, f"{path} is not carried out", seconds=SECONDS)


def test_who_leads_next_tells_what_comes_next(tmp_path: Path) -> None:
    receiver = Receiver()
    told_at_once = ("--alerts.hold", "0s", "--alerts.clear", "0s")
    of_queues = ("--alerts.disk", "off,off,off")  # The disk is that of whoever runs the test.
    flags = ("--alerts.webhook", receiver.url, *told_at_once, *of_queues)
    try:
        with Cluster(tmp_path, flags=flags) as cluster:
            cluster.start()
            order(
                cluster, 1, "/v1/queues", {"name": "jobs", "settings": {"alert_depth": "1,off,off"}}
            )
            messages = {"messages": [{"body": "a"}, {"body": "b"}]}
            order(cluster, 1, "/v1/queues/jobs/messages", messages)
            wait_until(lambda: receiver.got, "nobody was told that it fires", seconds=SECONDS)
            leader = cluster.status(1)["controller"]
            cluster.kill(leader)
            left = next(number for number in (1, 2, 3) if number != leader)

            def seen() -> bool:
                readings = found(cluster, left, "/v1/readings")
                return bool(readings) and readings["health"] == "2 of 3 nodes, all leaders settled"

            wait_until(seen, "the others do not see what happened", seconds=SECONDS)
            (alert,) = found(cluster, left, "/v1/alerts")["alerts"]
            assert alert["state"] == "firing"
            lines = found(cluster, left, "/v1/events")["events"]
            assert any(f"lost the link with node {leader}" in one["line"] for one in lines)
            order(cluster, left, "/v1/queues/jobs/purge", {})

            def over() -> bool:
                return bool(receiver.got[-1][2]["alert"]["state"] == "resolved")

            wait_until(over, "nobody was told that it is over", seconds=SECONDS)
            assert not cluster.complaints()
    finally:
        receiver.close()
    told = [body for _, _, body in receiver.got]
    assert {one["alert"]["key"] for one in told} == {"depth:queue/jobs/queue"}
    assert told[0]["node"] == leader
    assert told[-1]["node"] != leader
