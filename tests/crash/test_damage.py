"""200 single faults on one of three replicas: each is detected or harmless, and each is repaired.

`python -m tests.crash.damages` prints the same as a table, for as many rounds as one likes.
"""

import pytest

from penstock.engine.replica import replica as engine_replica
from penstock.raft import RaftNode
from tests.crash.damages import (
    FOUND,
    HARMLESS,
    QUARANTINED,
    REFUSED,
    WOUNDS,
    cut_power_in_repair,
    damage_rounds,
)

pytestmark = [pytest.mark.crash, pytest.mark.slow]

SEED = 1
ROUNDS = 200
PARTS = 4


@pytest.mark.parametrize("part", range(PARTS))
def test_a_damaged_replica_is_found_out_and_repairs_itself(part: int) -> None:
    size = ROUNDS // PARTS
    tally = damage_rounds(SEED, range(part * size, (part + 1) * size))
    print(tally.describe())
    assert not tally.complaints, "\n".join(tally.complaints)
    assert tally.total == size
    # A single fault never makes a directory unusable for a member of a cluster.
    assert tally.outcome(REFUSED) == 0, "\n".join(tally.refusals)
    for outcome in (HARMLESS, QUARANTINED, FOUND):
        assert tally.outcome(outcome) >= size // 20, f"hardly any damage was {outcome}"


@pytest.mark.parametrize("wound", WOUNDS)
def test_a_power_cut_at_every_operation_of_a_repair(wound: str) -> None:
    operation = 1
    while cut_power_in_repair(wound, operation):
        operation += 1
    assert operation > 40, "so few operations are no repair"


def test_the_test_notices_a_damaged_replica_that_votes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The classic mistake: a replica that lost its log comes back as if it had been empty."""

    class Careless(RaftNode):
        def __init__(self, *given: object, **options: object) -> None:
            options["damaged"] = False
            super().__init__(*given, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(engine_replica, "RaftNode", Careless)
    assert any("was counted" in c for c in damage_rounds(SEED, range(2)).complaints)
