"""A cluster of 0.1.0 is upgraded node by node, as `docs/guides/upgrade.md` says, under load.

Kafka, SQS, HTTP and native clients, one of the latter with the client of 0.1.0, work all the time,
while nodes of both versions serve them. A thousand messages are leased when the first node stops.
Nothing acknowledged is lost or doubled, no lease is broken, and no client meets an error that it
cannot try again after. `make soak ARGS="--only upgrade"` makes long rounds.
"""

from pathlib import Path

import pytest

from tests.cluster.rounds import run_round
from tests.upgrade.old_version import missing, old_version
from tests.upgrade.workload import AllWorkload, everything

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.slow,
    pytest.mark.skipif(missing() is not None, reason=str(missing())),
]

HELD = 1_000


def test_nothing_is_lost_or_doubled_and_no_client_gives_up(tmp_path: Path) -> None:
    kept: list[AllWorkload] = []
    outcome = run_round(
        tmp_path,
        seed=1,
        faults=["upgrade next"] * 3,
        hold_seconds=(0.5, 1.0),
        make_workload=everything(held=HELD, braces=1, keep=kept.append),
        build=old_version().build(),
    )
    print(outcome.describe())
    (workload,) = kept
    assert outcome.held, outcome.describe()
    assert min(workload.queues.in_flight_then) >= HELD, "too little was at stake"
    for kind, verdict in workload.verdicts.items():
        assert verdict.counts["send ok"] >= 100, f"too little was at stake: {kind}"
    # Clients that retry by themselves are told of no error at all.
    assert not [name for name in outcome.errors if not name.startswith("sqs")], outcome.describe()
    old, present = workload.programs
    assert old.version.startswith(str(old_version().source)), old.version
    assert not present.version.startswith(str(old_version().source)), present.version
