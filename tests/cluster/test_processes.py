"""Nodes do what they are told, and nothing of them is left: not even when the test is killed."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.cluster.processes import Cluster, is_stopped
from tests.cluster.waiting import wait_until

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

GONE_WITHIN_SECONDS = 20.0
FORSAKEN = """
import sys
from pathlib import Path
from tests.cluster.processes import Cluster

cluster = Cluster(Path(sys.argv[1]), nodes=1)
cluster.start()
print(cluster.nodes[1].process.pid, cluster.network.pid, flush=True)
sys.stdin.read()
"""


def is_gone(pid: int) -> bool:
    """Ended; nobody may have waited for it yet."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text("ascii")
    except FileNotFoundError:
        return True
    return stat.rsplit(")", 1)[1].split()[0] == "Z"


def test_a_node_is_killed_frozen_stopped_and_started_again(tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=1) as cluster:
        node = cluster.nodes[1]
        cluster.start()
        assert cluster.status(1)["node"] == 1
        cluster.kill(1)
        cluster.start()
        cluster.freeze(1)
        assert node.process is not None
        assert is_stopped(node.process.pid)
        assert cluster.running() == []
        cluster.thaw(1)
        assert cluster.status(1)["node"] == 1
        cluster.freeze(1)
        cluster.kill(1)  # The frozen can be killed.
        cluster.restart(1)
        assert cluster.terminate(1) == 0
        cluster.heal()
        assert cluster.status(1)["node"] == 1
        assert cluster.complaints() == []
        pids = [node.process.pid, cluster.network.pid]
    assert all(map(is_gone, pids))


def test_a_node_that_ends_by_itself_is_told_of(tmp_path: Path) -> None:
    with Cluster(tmp_path, nodes=1, flags=["--log.level", "nonsense"]) as cluster:
        with pytest.raises(AssertionError, match="node 1 ended"):
            cluster.start()
        (complaint,) = cluster.complaints()
        assert "ended by itself with 2" in complaint


def test_a_killed_test_leaves_nothing_behind(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", FORSAKEN, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        cwd=Path(__file__).parents[2],
        env={**os.environ, "PYTHONPATH": ":".join(path for path in sys.path if path)},
    ) as forsaken:
        assert forsaken.stdout is not None
        pids = [int(word) for word in forsaken.stdout.readline().split()]
        assert len(pids) == 2
        assert not any(map(is_gone, pids))
        forsaken.kill()
    wait_until(lambda: all(map(is_gone, pids)), f"{pids} are gone", seconds=GONE_WITHIN_SECONDS)
