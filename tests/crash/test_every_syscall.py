"""A crash at every disk operation of a script of 35 steps: everything promised is still there.

In memory every operation is tried, each with several fates of what was not synced. For real, each
kill costs a process, so here it is every 24th call of each kind, and all of them in `make soak`
(or `python -m tests.crash.sweeps --killed`). Errors of the disk are tried in memory too.
"""

import pytest

from penstock.core.errors import DiskFailed, DiskFull
from tests.crash.processes import strace_missing
from tests.crash.script import STEPS
from tests.crash.sweeps import CALLS, sweep_errors, sweep_killed, sweep_memory

pytestmark = [pytest.mark.crash, pytest.mark.slow]

PARTS = 4
LATER_PARTS = [pytest.param(part, marks=pytest.mark.long) for part in range(1, PARTS)]
EVERY = 24


def test_the_script_has_so_many_steps() -> None:
    assert len(STEPS) == 35


@pytest.mark.parametrize("part", [0, *LATER_PARTS])
def test_a_power_cut_at_every_operation(part: int) -> None:
    sweep = sweep_memory(seeds=4, every=PARTS, first=part)
    print(sweep.describe())
    assert not sweep.complaints, "\n".join(sweep.complaints)
    assert sweep.points >= 200
    for operation in ("write", "sync", "truncate", "rename", "remove", "allocate"):
        assert sweep.operations[operation] > 0, f"no crash came at a {operation}"


@pytest.mark.parametrize("error", [DiskFailed, DiskFull])
def test_an_error_of_every_operation(error: type[DiskFailed]) -> None:
    sweep = sweep_errors(error, every=9)
    print(sweep.describe())
    assert not sweep.complaints, "\n".join(sweep.complaints)
    assert sweep.points >= 150


def test_the_sweep_notices_syncs_that_do_nothing() -> None:
    assert sweep_memory(seeds=2, every=50, lying=True).complaints


@pytest.mark.parametrize("call", CALLS)
def test_killed_at_a_system_call(call: str) -> None:
    missing = strace_missing()
    if missing is not None:
        pytest.skip(f"nothing was killed at {call}: {missing}")
    sweep = sweep_killed(call, every=EVERY, first=CALLS.index(call) % 5)
    print(sweep.describe())
    assert not sweep.complaints, "\n".join(sweep.complaints)
    assert sweep.points >= 2, f"the script hardly calls {call}"
