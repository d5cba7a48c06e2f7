"""The node that leads a queue is killed: the others tell what happened before and after."""

import time
from pathlib import Path
from typing import Any

import pytest

import penstock
from penstock.client.blocking.message import BlockingMessage
from tests.cluster.processes import Cluster
from tests.cluster.waiting import wait_until
from tests.interop.served import Served

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SECONDS_MAX = 60.0


def test_a_message_is_traced_across_a_failover(tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=3, shards=2) as cluster:
        cluster.start()
        settings = penstock.ClientSettings(client_id="packer")
        url = "penstock://" + ",".join(node.kafka for node in cluster.nodes.values())
        with penstock.blocking.connect(url, settings=settings) as client:
            client.create_queue("jobs", settings={"queue.delete.acked": "false"})
            sent = client.send("jobs", b"one")
            [first] = client.receive("jobs", wait=20)
            assert first.release()
            # Two of three are enough for an answer; the third holds it a moment later.
            wait_until(
                lambda: seen(cluster, 1, sent.id)[0]["written"]["nodes"] == [1, 2, 3],
                "not all nodes hold it",
                seconds=SECONDS_MAX,
            )
            [before] = seen(cluster, 1, sent.id)
            leader = before["written"]["leader"]
            cluster.kill(leader)
            second = receive(client)
            assert second.deliveries == 2
            assert second.ack()
            after: dict[str, Any] = {}
            for number in cluster.running():
                [after] = seen(cluster, number, sent.id)
                assert [one["what"] for one in after["happenings"]] == [
                    "delivered",
                    "released",
                    "delivered",
                    "acked",
                ]
                assert all("packer (native" in one["receiver"] for one in after["happenings"])
                assert after["happenings"][:2] == before["happenings"]
                assert after["is_complete"]
                assert after["written"]["index"] == before["written"]["index"]
                assert after["written"]["leader"] not in (0, leader)
                assert leader not in after["written"]["nodes"]
            cluster.start(leader)
            wait_until(
                lambda: leader in seen(cluster, leader, sent.id)[0]["written"]["nodes"],
                "it never caught up",
                seconds=SECONDS_MAX,
            )
            assert seen(cluster, leader, sent.id)[0]["happenings"] == after["happenings"]


def seen(cluster: Cluster, number: int, message: str) -> list[dict[str, Any]]:
    answer = Served(cluster, number).ask("GET", f"/v1/trace/{message}")
    assert answer.status == 200, answer.body
    found: list[dict[str, Any]] = answer.document["sightings"]
    return found


def receive(client: Any) -> BlockingMessage[Any]:
    deadline = time.monotonic() + SECONDS_MAX
    while time.monotonic() < deadline:
        for message in client.receive("jobs", wait=5):
            found: BlockingMessage[Any] = message
            return found
    raise AssertionError("no message came")
