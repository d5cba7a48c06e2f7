"""A crash at every disk operation of the script, in memory and for real.

    python -m tests.crash.sweeps --memory           every operation, several fates each
    python -m tests.crash.sweeps --killed            every system call, by SIGKILL

In memory the disk is `FaultyDisk`: a power cut loses, tears and reorders whatever was not synced,
and there may be a second one during recovery. For real the process is killed by strace at its n-th
fdatasync, pwritev, rename, ...; the page cache survives that, so it shows less about syncs, but it
is the real program on a real file system. After each, `script.check` looks at what is left.
"""

import argparse
import contextlib
import itertools
import os
import shutil
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from penstock.core.errors import DiskFailed, DiskFull, PenstockError, StorageError
from penstock.storage import RealDisk, ShardLog
from penstock.testing.disk import CHANGING_OPERATIONS, FaultyDisk, PowerCut
from tests.crash.images import workspace
from tests.crash.processes import Child, strace_missing, tampering
from tests.crash.script import SETTINGS, STEPS, Script, check
from tests.unit.storage.logs import drain, noop, open_log, write

DIRECTORY = "/script"
CALLS = ("fdatasync", "fsync", "pwritev2", "ftruncate", "rename", "unlink", "fallocate")
"""System calls at which the script is killed: every one by which it changes the file system."""
RECOVERY_OPERATIONS_MAX = 60


@dataclass
class Sweep:
    """How many crashes there were, and what was wrong after them."""

    points: int = 0
    recoveries: int = 0
    operations: Counter[str] = field(default_factory=Counter)
    complaints: list[str] = field(default_factory=list)

    def describe(self) -> str:
        kinds = ", ".join(f"{count} {name}" for name, count in sorted(self.operations.items()))
        wrong = f"{len(self.complaints)} WRONG" if self.complaints else "all recovered"
        return f"{self.points} crash points ({kinds}), {self.recoveries} recoveries, {wrong}"


# In memory.


class WatchedDisk(FaultyDisk):
    """A disk that lets somebody look at it before each operation that changes it, or make it fail.

    What is seen before the n-th operation is what a power cut in its midst may find too: a write
    is in the page cache before the next operation, and a sync that was cut short did nothing."""

    def __init__(self, look: Callable[[str], None], *, lying: bool = False) -> None:
        super().__init__(lying=lying)
        self.watching = True
        self._look = look

    def meet_faults(self, operation: str, path: str, *, changing: bool | None = None) -> bool:
        if changing or (changing is None and operation in CHANGING_OPERATIONS):
            self._look(operation)
        return False


def sweep_memory(
    *, seeds: int, every: int = 1, first: int = 0, shift: int = 0, lying: bool = False
) -> Sweep:
    """Cut the power at every operation of the script; with `every` only at some.

    Another `shift` gives other fates. With `lying` syncs do nothing: the sweep must complain."""
    sweep = Sweep()
    done = 0
    seen = 0

    def look(operation: str) -> None:
        nonlocal seen
        seen += 1
        if seen % every == first:
            sweep.points += 1
            sweep.operations[operation] += 1
            for seed in range(seeds):
                sweep.recoveries += 1
                try:
                    _recover_in_memory(disk.fork(), done, Random(f"{shift}/{seen}/{seed}"), seed)
                except (AssertionError, PenstockError) as error:
                    sweep.complaints.append(
                        f"operation {seen} ({operation}) of step {done + 1}, seed {seed}: {error!r}"
                    )

    def note(step: int) -> None:
        nonlocal done
        done = step

    disk = WatchedDisk(look, lying=lying)
    Script(disk, DIRECTORY, note).run()
    look("end")
    return sweep


def sweep_errors(error: type[DiskFailed], *, every: int = 1, first: int = 0) -> Sweep:
    """Let each operation of the script fail once, then cut the power.

    An error ends the script, as it would end a replica; only a full disk may be survived, thanks
    to the ballast."""
    sweep = Sweep()
    for number in itertools.count(1 + first, every):
        operation = _run_until_error(number, error, sweep)
        if not operation:
            return sweep
        sweep.points += 1
        sweep.operations[operation] += 1
    raise AssertionError("unreachable: the script has an end")


def _run_until_error(number: int, error: type[DiskFailed], sweep: Sweep) -> str:
    """The operation that failed; "" if the script has not so many."""
    seen, done, failed = 0, 0, ""

    def look(operation: str) -> None:
        nonlocal seen, failed
        seen += 1
        if seen == number:
            failed = operation
            raise error(f"{operation} number {number} fails")

    def note(step: int) -> None:
        nonlocal done
        done = step

    disk = WatchedDisk(look)
    with contextlib.suppress(StorageError):
        Script(disk, DIRECTORY, note).run()
    if failed:
        try:
            sweep.recoveries += 1
            _recover_in_memory(disk.fork(), done, Random(number), seed=2)
        except (AssertionError, PenstockError) as wrong:
            sweep.complaints.append(
                f"after a failed {failed}, operation {number}, in step {done + 1}: {wrong!r}"
            )
    return failed


def _recover_in_memory(disk: FaultyDisk, done: int, random: Random, seed: int) -> None:
    """Seed 0 loses nothing but the process; odd seeds lose power twice."""
    if seed == 0:
        disk.kill()
    else:
        disk.crash(random)
    if seed % 2 == 1:
        disk.cut_power_after(random.randrange(RECOVERY_OPERATIONS_MAX) + 1)
        with contextlib.suppress(PowerCut):
            open_log(disk, DIRECTORY, settings=SETTINGS)
        disk.crash(random)
    _look_and_go_on(open_log(disk, DIRECTORY, settings=SETTINGS), done)


def _look_and_go_on(log: ShardLog, done: int) -> None:
    """Check what was recovered, and see that the log is fit for use."""
    check(log, done)
    before = log.last_index
    entry = noop(before + 1, max(1, log.hard_state.term))
    write(log, [entry])
    drain(log)
    log.close()


# For real.


def sweep_killed(call: str, *, every: int = 1, first: int = 0) -> Sweep:
    """Kill the script at each of its calls of one kind; with `every` only at some."""
    sweep = Sweep()
    with workspace() as space:
        for number in itertools.count(1 + first, every):
            directory = os.path.join(space, f"{call}-{number}")
            if not _kill_at(call, number, directory, sweep):
                return sweep
            shutil.rmtree(directory, ignore_errors=True)
    raise AssertionError("unreachable: the script has an end")


def _kill_at(call: str, number: int, directory: str, sweep: Sweep) -> bool:
    """Kill the script at the n-th call and look at the remains; False if it ran through."""
    under = tampering(call, f"signal=SIGKILL:when={number}")
    with Child("tests.crash.script", directory, under=under) as child:
        code = child.wait()
        done = len(child.lines)
        if code == 0:
            assert done == len(STEPS), f"{done} steps"
            return False
        sweep.points += 1
        sweep.operations[call] += 1
        if code not in (-9, 137):
            sweep.complaints.append(f"{call} {number}: exit {code}: {child.errors()}")
            return True
    try:
        _look_and_go_on(open_log(RealDisk(), directory, settings=SETTINGS), done)
        sweep.recoveries += 1
    except (AssertionError, PenstockError) as error:
        sweep.complaints.append(f"{call} {number}, in step {done + 1}: {error!r}")
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--memory", action="store_true", help="power cuts in memory")
    parser.add_argument("--killed", action="store_true", help="kills by strace")
    parser.add_argument("--seeds", type=int, default=4, help="fates per power cut")
    parser.add_argument("--every", type=int, default=1, help="only every n-th operation")
    options = parser.parse_args()
    sweeps: list[Sweep] = []
    if options.memory:
        sweeps.append(sweep_memory(seeds=options.seeds, every=options.every))
        sweeps += [sweep_errors(error, every=options.every) for error in (DiskFailed, DiskFull)]
    if options.killed:
        missing = strace_missing()
        if missing:
            print(f"no kills at system calls: {missing}")
            return 2
        sweeps += [sweep_killed(call, every=options.every) for call in CALLS]
    for sweep in sweeps:
        print("\n".join([*sweep.complaints, sweep.describe()]))
    return 1 if any(sweep.complaints for sweep in sweeps) else 0


if __name__ == "__main__":
    sys.exit(main())
