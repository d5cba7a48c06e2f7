"""Power cuts for real:  python -m tests.crash.power --cuts 100 --seed 1

    writer on a mounted image → SIGSTOP → copy the image → SIGKILL → mount the copy → writer again

SIGKILL alone proves nothing about syncs: the page cache survives it. The copy of the image has only
what reached the device. Each cut goes on from the copy that the one before left, so recovery is
tried on recovered directories, and some cuts come in the middle of recovery.

With `forged` syncs are answered with success and not carried out: all of them, or only those after
the first few hundred. A test that cannot tell the difference would be worthless, so this must end
in complaints.
"""

import argparse
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from random import Random

from tests.crash.images import copy_image, make_image, mounted, mounting_missing, workspace
from tests.crash.ledger import Ledger
from tests.crash.processes import Child, strace_missing, tampering

ACKS_PER_CUT_MAX = 1_500
RECOVERY_SECONDS = 0.05
SYNCS = "fdatasync,fsync"
FORGED_ALL = ":when=1+"
FORGED_LATER = ":when=200+"
_WRITER = "tests.crash.writer"


@dataclass
class Verdict:
    """What came of a series of cuts."""

    cuts: int = 0
    cuts_in_recovery: int = 0
    acked: int = 0
    complaints: list[str] = field(default_factory=list)

    def describe(self) -> str:
        lost = f"{len(self.complaints)} COMPLAINTS" if self.complaints else "nothing lost"
        return (
            f"{self.cuts} power cuts, {self.cuts_in_recovery} of them in recovery,"
            f" {self.acked} batches acknowledged, {lost}"
        )


def cut_power(
    seed: int, cuts: int, *, forged: str = "", tell: Callable[[str], None] = lambda _: None
) -> Verdict:
    """Cut the power that many times; ends early at the first complaint."""
    random = Random(seed)
    verdict = Verdict()
    ledger = Ledger()
    with workspace() as space:
        image = os.path.join(space, "0.image")
        make_image(image)
        while verdict.cuts < cuts and not verdict.complaints:
            copy = os.path.join(space, f"{verdict.cuts + 1}.image")
            with mounted(image, os.path.join(space, "mounted")) as place:
                _live_and_die(random, verdict, ledger, place, (image, copy), forged=forged)
            os.unlink(image)
            image = copy
            verdict.cuts += 1
            verdict.acked = len(ledger.acked)
            tell(verdict.describe())
        with mounted(image, os.path.join(space, "mounted")) as place:
            _look(verdict, ledger, place)
    return verdict


def _live_and_die(
    random: Random,
    verdict: Verdict,
    ledger: Ledger,
    place: str,
    images: tuple[str, str],
    *,
    forged: str,
) -> None:
    """One life of the writer, from recovery to the cut."""
    acks, early = random.randrange(ACKS_PER_CUT_MAX), random.random() < 0.2
    if forged:
        acks, early = ACKS_PER_CUT_MAX, False  # Far beyond the syncs that were honest.
    directory = os.path.join(place, "shard")
    under = tampering(SYNCS, f"retval=0{forged}") if forged else ()
    arguments = ["--life", str(verdict.cuts)]
    if forged:
        arguments.append("--two-calls")  # A sync that is part of a write cannot be forged.
    with Child(_WRITER, "write", directory, *arguments, under=under) as child:
        if early:
            child.until("pid")
            time.sleep(random.random() * RECOVERY_SECONDS)  # The moment is the test.
            verdict.cuts_in_recovery += 1
        else:
            alive = child.until("ready") and all(child.until("ack") for _ in range(acks))
            if not alive:
                verdict.complaints.append(f"the writer ended by itself: {child.errors()}")
        child.freeze_if_alive()
        copy_image(*images)
        child.kill()
        verdict.complaints += ledger.hear(child.rest())


def _look(verdict: Verdict, ledger: Ledger, place: str) -> None:
    """The last life only reads."""
    with Child(_WRITER, "read", os.path.join(place, "shard")) as child:
        code = child.wait()
        verdict.complaints += ledger.hear(child.lines)
        if code != 0:
            verdict.complaints.append(f"it could not be opened: {child.errors()}")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--cuts", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--forged", choices=["all", "later"], help="syncs do nothing, which must be noticed"
    )
    options = parser.parse_args()
    missing = mounting_missing() or (strace_missing() if options.forged else None)
    if missing:
        print(f"no power cuts: {missing}")
        return 2
    forged = {"all": FORGED_ALL, "later": FORGED_LATER}.get(options.forged, "")
    verdict = cut_power(options.seed, options.cuts, forged=forged, tell=print)
    print("\n".join([*verdict.complaints, verdict.describe()]))
    return 0 if bool(verdict.complaints) == bool(forged) else 1


if __name__ == "__main__":
    sys.exit(main())
