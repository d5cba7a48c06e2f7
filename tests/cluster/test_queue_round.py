"""The short run of every CI with queues: senders and workers, a thousand messages leased whenever
the leader of a queue is harmed, and every promise held against what they saw.

`PENSTOCK_CLUSTER_SEED` chooses other victims and times. `python -m tests.cluster.rounds --load
queues` repeats a run with any faults, and `make soak ARGS="--only queues"` makes long ones.
"""

import os
from pathlib import Path

import pytest

from tests.cluster.history import Recorder
from tests.cluster.processes import Cluster
from tests.cluster.queue_workload import HELD, QueueWorkload
from tests.cluster.rounds import AnyWorkload, run_round

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEED = int(os.environ.get("PENSTOCK_CLUSTER_SEED", "1"))
FAULTS = ("kill leader", "freeze leader")
WRITABLE_WITHIN_SECONDS = 10.0
UNBEARABLE = {"Unreadable", "ReceiptHandleIsInvalid", "InvalidReceipt", "InternalError"}
"""What no client may be told, whatever happens to the cluster."""


def test_no_message_is_lost_or_leased_twice(tmp_path: Path) -> None:
    workloads: list[QueueWorkload] = []

    def make(cluster: Cluster, recorder: Recorder, seed: int) -> AnyWorkload:
        workloads.append(
            QueueWorkload(cluster.addresses, cluster.web_addresses, recorder, seed=seed, braces=1)
        )
        return workloads[0]

    outcome = run_round(
        tmp_path, seed=SEED, faults=FAULTS, make_workload=make, hold_seconds=(0.5, 1.5)
    )
    print(outcome.describe(), workloads[0].in_flight_then)
    assert outcome.held, outcome.describe()
    assert outcome.struck == list(FAULTS)
    assert min(workloads[0].in_flight_then) >= HELD, "too little was at stake"
    counts = outcome.verdict.counts
    assert counts["send ok"] >= HELD
    assert counts["dead letters"] >= 20
    assert counts["duplicates"] >= 1
    assert not outcome.errors.keys() & UNBEARABLE, outcome.describe()
    assert outcome.recoveries, "no leader was harmed"
    times = [strike.seconds for strike in outcome.recoveries]
    assert max(times) < WRITABLE_WITHIN_SECONDS, outcome.describe()
