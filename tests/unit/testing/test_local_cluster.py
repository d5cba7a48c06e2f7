"""Three brokers of a test: killed, frozen, restarted, and never left behind."""

import os
import select
import subprocess
import sys
from pathlib import Path

import pytest

from penstock.client.blocking.client import BlockingClient
from penstock.core.errors import LocalError, Unavailable
from penstock.embedded.connector import connect
from penstock.testing.local_cluster import LocalCluster

pytestmark = pytest.mark.slow

PARENT = """
import os, sys
from penstock.testing.local_cluster import LocalCluster

cluster = LocalCluster(1, data=sys.argv[1]).start()
print(cluster.pid(1), flush=True)
os.kill(os.getpid(), 9)
"""


def test_nodes_are_killed_and_come_back() -> None:
    with LocalCluster() as cluster:
        assert cluster.nodes == cluster.running == [1, 2, 3]
        with BlockingClient(connect(cluster.url)) as client:
            client.create_queue("work")
            client.send("work", "before")
            cluster.kill(2)
            assert cluster.running == [1, 3]
            client.send("work", "without it")
            cluster.restart(2)
            cluster.terminate(1)
            assert cluster.http_url != f"http://{cluster.kafka}"
            found: list[object] = []
            while len(found) < 2:
                found += [message.body for message in client.receive("work", 10, wait=60)]
            assert sorted(map(str, found)) == ["before", "without it"]
            cluster.restart(1)
            cluster.pause(3)
            cluster.resume(3)
            client.send("work", "after a moment's pause")
        assert "ready" in cluster.log(1)
        with pytest.raises(LocalError, match="no node 4; there are 1 to 3"):
            cluster.kill(4)


def test_what_cannot_be() -> None:
    with pytest.raises(LocalError, match="a cluster of 0 nodes"):
        LocalCluster(0)
    with pytest.raises(Unavailable, match="no node runs"):
        LocalCluster(1).sqs_url  # noqa: B018
    with pytest.raises(LocalError, match="no setting nonsense"):
        LocalCluster(1, settings={"nonsense": 1})


def test_one_that_ends_at_its_start_says_why(tmp_path: Path) -> None:
    (tmp_path / "node-1").mkdir()
    (tmp_path / "node-1" / "node").write_bytes(b"something else")
    with pytest.raises(Unavailable, match="(?s)node 1 ended:.*does not match its checksum"):
        LocalCluster(1, data=tmp_path).start()


def test_no_broker_outlives_the_test(tmp_path: Path) -> None:
    parent = subprocess.run(
        [sys.executable, "-c", PARENT, str(tmp_path)], capture_output=True, text=True, timeout=120
    )
    assert parent.returncode == -9, parent.stderr
    broker = int(parent.stdout)
    descriptor = _process_descriptor(broker)
    if descriptor is not None:
        assert select.select([descriptor], [], [], 60)[0], "the broker lives on"
        os.close(descriptor)


def _process_descriptor(pid: int) -> int | None:
    """Becomes readable when the process ends; None if it has ended."""
    try:
        return os.pidfd_open(pid)
    except ProcessLookupError:
        return None
