"""Every node is stopped with SIGTERM and started again, one after the other, under load. Clients
that retry, as all do by default, are told of no error, and hardly wait.
"""

from pathlib import Path

import pytest

from tests.cluster.rounds import run_round

pytestmark = [pytest.mark.cluster, pytest.mark.slow]


def test_clients_notice_nothing(tmp_path: Path) -> None:
    outcome = run_round(
        tmp_path, seed=1, faults=["restart each"], hold_seconds=(0.1, 0.2), restart_at_end=False
    )
    print(outcome.describe())
    assert outcome.held, outcome.describe()
    assert not outcome.errors, outcome.describe()
    assert outcome.verdict.counts["send fail"] == outcome.verdict.counts["send info"] == 0
    assert outcome.verdict.silence_seconds < 5, outcome.describe()
