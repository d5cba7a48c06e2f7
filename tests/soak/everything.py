"""Everything at once: three nodes under load of every kind of client, struck by kills, freezes,
partitions, power cuts and bit flips, and attacked at every port all the while.

    python -m tests.soak.everything --minutes 3 --seed 7

Nothing acknowledged may be lost, no promise to a client broken, no node may end by itself or log a
traceback, and nothing may grow: see `growth`. Where images can be mounted, every node's disk is one
(`tests.crash.images`), and a power cut leaves what had been synced; elsewhere there are no power
cuts, and the outcome says so.
"""

import argparse
import contextlib
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from random import Random

from tests.cluster.faults import POWER_OF_ALL, Fault, Nemesis
from tests.cluster.processes import Cluster
from tests.cluster.rounds import Beside, Outcome, run_round
from tests.crash.images import copy_image, make_image, mounted, mounting_missing, workspace
from tests.soak.growth import Meter, growth, table
from tests.upgrade.workload import everything

FAULTS = ("kill leader", "kill any", "freeze leader", "freeze any", "isolate any", "restart each")
POWER_FAULTS = ("cut power of one", POWER_OF_ALL)
IMAGE_BYTES = 4 << 30
"""Sparse: it costs what is written."""
HELD = 200
HOLD_SECONDS = (1.0, 5.0)
PATIENCE_SECONDS = 120.0
"""The machine does much at once."""
FLAGS = ("--storage.segment-size", "16MiB", "--storage.ballast-size", "1MiB")
END_WITHIN_SECONDS = 30.0


@dataclass
class EverythingOutcome:
    """What came of a round."""

    round: Outcome
    table: str
    complaints: list[str] = field(default_factory=list)


class Disks:
    """A mounted image for each node, as long as the block lasts."""

    def __init__(self) -> None:
        self._space = ""
        self._images: dict[int, str] = {}
        self._mounts: dict[int, contextlib.ExitStack] = {}
        self._copies = 0

    @contextlib.contextmanager
    def attached(self, cluster: Cluster) -> Iterator[None]:
        """Every node writes to a disk of its own. In the end the nodes are killed, because a file
        system in use stays mounted."""
        if mounting_missing() is not None:
            yield
            return
        with workspace() as self._space:
            try:
                for number in cluster.nodes:
                    self._images[number] = os.path.join(self._space, f"{number}.image")
                    make_image(self._images[number], IMAGE_BYTES)
                    self._mount(cluster, number)
                    data = self._place(number) / "data"
                    data.mkdir(mode=0o750)
                    cluster.nodes[number].data.symlink_to(data)
                yield
            finally:
                for number in cluster.nodes:
                    cluster.kill(number)
                for stack in self._mounts.values():
                    stack.close()

    @contextlib.contextmanager
    def cut(self, nemesis: Nemesis, *nodes: int) -> Iterator[None]:
        """The power of some nodes is cut at one moment, and comes back after the block."""
        cluster = nemesis.cluster
        with nemesis.killed(*nodes, before=lambda: self._keep_synced(cluster, *nodes)):
            for number in nodes:
                self._mount(cluster, number)
            yield
        for number in nodes:
            cluster.wait_healthy(number, "/v1/health/replicated")

    def _keep_synced(self, cluster: Cluster, *nodes: int) -> None:
        """Freeze the nodes and copy what has reached their disks: that is what will be there."""
        for number in nodes:
            cluster.freeze(number)
        for number in nodes:
            self._copies += 1
            copy = os.path.join(self._space, f"{number}-{self._copies}.image")
            copy_image(self._images[number], copy)
            cluster.kill(number)
            self._mounts.pop(number).close()
            os.unlink(self._images[number])
            self._images[number] = copy

    def _mount(self, cluster: Cluster, number: int) -> None:
        stack = contextlib.ExitStack()
        stack.enter_context(mounted(self._images[number], str(self._place(number))))
        self._mounts[number] = stack

    def _place(self, number: int) -> Path:
        return Path(self._space) / f"disk-{number}"

    def faults(self) -> Mapping[str, Fault]:
        """What can be done to them."""
        return {
            "cut power of one": lambda it: self.cut(it, it.any_node()),
            POWER_OF_ALL: lambda it: self.cut(it, *sorted(it.cluster.nodes)),
            "flip a bit": lambda it: flip(it, it.any_node()),
        }


@contextlib.contextmanager
def flip(nemesis: Nemesis, node: int) -> Iterator[None]:
    """A node is down, and comes back with one bit of one segment turned over. The segment is the
    one being written, which is read at the start: damage that is found later could meet the next
    one, and two of three replicas would be damaged."""
    random = nemesis.random
    cluster = nemesis.cluster
    with nemesis.killed(node):
        shards = sorted({path.parent for path in cluster.nodes[node].data.rglob("*.log")})
        newest = max(random.choice(shards).glob("*.log"))
        data = bytearray(newest.read_bytes().rstrip(b"\0"))
        if data:
            with newest.open("r+b") as file:
                position = random.randrange(len(data))
                file.seek(position)
                file.write(bytes([data[position] ^ 1 << random.randrange(8)]))
        yield
    cluster.wait_healthy(node, "/v1/health/replicated")


@contextlib.contextmanager
def attacked(cluster: Cluster, seed: int) -> Iterator[None]:
    """Hostile inputs come to every port of every node."""
    nodes = list(cluster.nodes.values())
    ports = {
        "kafka": [node.kafka for node in nodes],
        "http": [node.http for node in nodes],
        "peer": [f"{host}:{port}" for host, port in (node.peer for node in nodes)],
    }
    arguments = [part for name, found in ports.items() for part in (f"--{name}", ",".join(found))]
    log = Path(cluster.directory) / "hostile.txt"
    with log.open("wb") as output:
        hostile = subprocess.Popen(
            [sys.executable, "-m", "tests.soak.hostile", *arguments, "--seed", str(seed)],
            stdin=subprocess.PIPE,
            stdout=output,
            stderr=output,
        )
    try:
        yield
        assert hostile.poll() is None, f"the attack ended by itself:\n{log.read_text('utf-8')}"
    finally:
        assert hostile.stdin is not None
        hostile.stdin.close()
        try:
            hostile.wait(END_WITHIN_SECONDS)
        except subprocess.TimeoutExpired:
            hostile.kill()
            hostile.wait()


def run_everything(
    directory: Path, *, seed: int, minutes: float, row_seconds: float = 60.0
) -> EverythingOutcome:
    """A round of so many minutes, and its end: everything is read and judged."""
    random = Random(seed)
    disks = Disks()
    meters: list[Meter] = []
    possible = [*FAULTS, "flip a bit", *(POWER_FAULTS if mounting_missing() is None else ())]

    @contextlib.contextmanager
    def trouble(cluster: Cluster) -> Iterator[None]:
        meter = Meter(cluster, row_seconds)
        meters.append(meter)
        meter.start()
        try:
            with attacked(cluster, seed):
                yield
        finally:
            meter.finish()

    def faults() -> Iterator[str]:
        end = time.monotonic() + 60 * minutes
        while time.monotonic() < end:
            turn = random.sample(possible, len(possible))
            for name in turn:
                if time.monotonic() < end:
                    yield name

    outcome = run_round(
        directory,
        seed=seed,
        faults=faults(),
        make_workload=everything(held=HELD, old=False),
        flags=FLAGS,
        hold_seconds=HOLD_SECONDS,
        beside=Beside(disks.attached, trouble, disks.faults(), PATIENCE_SECONDS),
    )
    (meter,) = meters
    found = EverythingOutcome(outcome, table(meter.rows))
    if not outcome.held:
        found.complaints.append(outcome.describe())
    found.complaints += [f"it grows: {one}" for one in growth(meter.rows)]
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--row-seconds", type=float, default=60.0)
    parser.add_argument("--directory", type=Path)
    options = parser.parse_args()
    directory = options.directory or Path(tempfile.mkdtemp(prefix="penstock-everything-"))
    directory.mkdir(parents=True, exist_ok=True)
    print(f"seed {options.seed}; everything is in {directory}", flush=True)
    if (missing := mounting_missing()) is not None:
        print(f"no power cuts: {missing}", flush=True)
    outcome = run_everything(
        directory,
        seed=options.seed,
        minutes=options.minutes,
        row_seconds=options.row_seconds,
    )
    print(outcome.round.describe(), outcome.table, *outcome.complaints, sep="\n")
    return 1 if outcome.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
