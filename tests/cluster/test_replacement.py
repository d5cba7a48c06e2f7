"""A node loses its disk. Under its old id it may not come back, since it has forgotten what it
promised; under a new one it takes the place of the old, while the cluster is in use.
"""

from pathlib import Path

import pytest

from tests.cluster.history import Recorder
from tests.cluster.processes import Cluster, tail
from tests.cluster.rounds import PROGRESS_WITHIN_SECONDS
from tests.cluster.workload import Load, Workload

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_a_lost_disk_is_replaced_under_a_new_id(tmp_path: Path) -> None:
    with (
        Recorder(tmp_path / "history.jsonl") as recorder,
        Cluster(tmp_path) as cluster,
    ):
        cluster.start()
        workload = Workload(cluster.addresses, recorder, seed=1, load=Load(producers=1, members=0))
        try:
            workload.start()
            cluster.kill(3)
            cluster.wipe(3)
            cluster.launch(3)
            assert cluster.wait_ended(3) != 0, "a node without its disk was let in"
            said = tail(cluster.nodes[3].log, 5)
            assert "node 3" in said, said
            assert "new --node-id" in said, said

            cluster.replace(3)
            # Now the newcomer counts: without it there would be no majority.
            cluster.kill(1)
            workload.wait_acked(100, seconds=PROGRESS_WITHIN_SECONDS)
            cluster.start(1)
            workload.stop()
            workload.drain()
        except BaseException:
            workload.abandon()
            raise
        verdict = workload.check()
        assert verdict.valid, verdict.describe()
        assert not workload.errors
        assert not cluster.complaints()
