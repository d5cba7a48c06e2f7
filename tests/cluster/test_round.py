"""The short run of every CI: a cluster of three under load, struck by one fault after the other.

`PENSTOCK_CLUSTER_SEED` chooses other victims and times. `python -m tests.cluster.rounds` repeats a
run with any faults, and `make soak ARGS="--only cluster"` makes long ones.
"""

import os
from pathlib import Path

import pytest

from tests.cluster.rounds import logs, run_round
from tests.cluster.workload import Load

pytestmark = [pytest.mark.cluster, pytest.mark.slow]

SEED = int(os.environ.get("PENSTOCK_CLUSTER_SEED", "1"))
FAULTS = ("kill leader", "isolate leader", "kill two", "silence leader")
WRITABLE_WITHIN_SECONDS = 10.0
UNBEARABLE = {"_FATAL", "OUT_OF_ORDER_SEQUENCE_NUMBER", "UNKNOWN_PRODUCER_ID", "_AUTO_OFFSET_RESET"}
"""What no client may be told, whatever happens to the cluster."""


def test_nothing_is_lost_repeated_or_reordered(tmp_path: Path) -> None:
    outcome = run_round(tmp_path, seed=SEED, faults=FAULTS, hold_seconds=(0.5, 2.0))
    print(outcome.describe())
    assert outcome.held, outcome.describe()
    assert outcome.struck == list(FAULTS)
    assert outcome.verdict.counts["send ok"] >= 1_000, "too little was at stake"
    assert not outcome.errors.keys() & UNBEARABLE, outcome.describe()
    # Without a majority there is nothing to wait for.
    times = [strike.seconds for strike in outcome.recoveries if " and " not in strike.note]
    assert times, "no leader was harmed"
    assert max(times) < WRITABLE_WITHIN_SECONDS, outcome.describe()


@pytest.mark.long
def test_the_test_notices_messages_that_were_promised_too_early(tmp_path: Path) -> None:
    # With acks=1 a leader that is cut off promises what nobody else has; that is what it means.
    hasty = Load(settings={"enable.idempotence": False, "acks": 1}, members=0)
    outcome = run_round(
        tmp_path,
        seed=SEED,
        faults=["isolate leader"],
        make_workload=logs(hasty),
        restart_at_end=False,
    )
    print(outcome.describe())
    lost = {"inconsistent-offsets", "lost-write", "unseen"}
    assert lost & outcome.verdict.anomalies.keys(), outcome.describe()
    assert not outcome.complaints, outcome.describe()
