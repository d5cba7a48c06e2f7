"""The power goes, for real: what was acknowledged is there when it comes back.

`PENSTOCK_POWER_CUTS` and `PENSTOCK_POWER_SEED` ask for more, or for others; `make soak` does.
"""

import os

import pytest

from tests.crash.images import mounting_missing
from tests.crash.power import FORGED_ALL, FORGED_LATER, cut_power
from tests.crash.processes import strace_missing

pytestmark = [pytest.mark.power, pytest.mark.crash, pytest.mark.slow]

CUTS = int(os.environ.get("PENSTOCK_POWER_CUTS", "10"))
SEED = int(os.environ.get("PENSTOCK_POWER_SEED", "1"))


@pytest.fixture(autouse=True)
def mountable() -> None:
    missing = mounting_missing()
    if missing is not None:
        pytest.skip(f"NO POWER WAS CUT: {missing}")


def test_nothing_acknowledged_is_lost() -> None:
    verdict = cut_power(SEED, CUTS)
    print(verdict.describe())
    assert not verdict.complaints, f"seed {SEED}: " + "\n".join(verdict.complaints)
    assert verdict.cuts == CUTS
    assert verdict.acked >= 50 * CUTS, "too little was at stake"
    assert 0 < verdict.cuts_in_recovery < CUTS or CUTS < 10


@pytest.mark.parametrize("forged", [FORGED_ALL, FORGED_LATER])
def test_the_test_notices_forged_syncs(forged: str) -> None:
    missing = strace_missing()
    if missing is not None:
        pytest.skip(f"whether forged syncs are noticed was not tried: {missing}")
    verdict = cut_power(SEED, 1, forged=forged)
    assert verdict.acked >= 1_000, f"the syncs did not even seem to work: {verdict.complaints}"
    lost = [c for c in verdict.complaints if "was acknowledged" in c or "is damaged" in c]
    assert lost, f"syncs did nothing and nobody noticed: {verdict.complaints}"
