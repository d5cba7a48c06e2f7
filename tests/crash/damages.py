"""One bit turns over, or a file loses its end, on one of three replicas:

    python -m tests.crash.damages --rounds 200 --seed 1      what was hit, and what came of it

Each round takes a copy of the same three disks, damages one file of one of them, whichever it is,
and starts all three. While the damaged replica finds its way back, clients go on. Then:

- nothing acknowledged is missing, on any replica;
- the damaged replica is whole again: not in quarantine, with the same state as the others, every
  batch readable, and every byte of its directory as it should be.

The damaged replica was stopped in good order, or killed, or killed while it was in quarantine for
an earlier damage, or in the middle of its repair; so the files of these states are hit too. Or it
is one of only two that hold the newest messages, and for a while only the one without them is
there: a replica that forgot what it had acknowledged, and voted, would lose them for all.
"""

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partial
from random import Random

from penstock.core.errors import DamagedFile, PenstockError
from penstock.core.types import NodeId, Offset, PartitionId
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.storage.repair import verify_directory
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.crash.trio import DIRECTORY, NODES, Trio
from tests.simulation.history import History

PARTITIONS = 3
BATCHES = 160
BATCHES_PER_ROUND = 6
STATES = ("stopped", "killed", "quarantined", "half repaired", "needed")
WEIGHTS = (4, 3, 1, 1, 3)
TICKS_ALONE = 80
HARMLESS, QUARANTINED, FOUND, REFUSED = OUTCOMES = (
    "harmless",
    "quarantined at the start",
    "found in use",
    "refused to start",
)


@dataclass
class Tally:
    """What was hit, and what came of it."""

    rounds: Counter[tuple[str, str]] = field(default_factory=Counter)
    """File kind and outcome."""
    refusals: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def total(self) -> int:
        return sum(self.rounds.values())

    def outcome(self, name: str) -> int:
        return sum(count for (_, outcome), count in self.rounds.items() if outcome == name)

    def describe(self) -> str:
        """A table, file kind by outcome."""
        kinds = sorted({kind for kind, _ in self.rounds})
        rows = [["FILE", *OUTCOMES]]
        rows += [[kind, *(str(self.rounds[kind, name]) for name in OUTCOMES)] for kind in kinds]
        rows.append(["all", *(str(self.outcome(name)) for name in OUTCOMES)])
        widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
        return "\n".join(
            "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
            for row in rows
        )


def damage_rounds(seed: int, numbers: range, *, wild: bool = False) -> Tally:
    """Run rounds; the same seed and number give the same round. `wild` does worse than bit flips
    and truncations: see `BLOWS`."""
    tally = Tally()
    bases()  # If these cannot be made, that is no fault of a round.
    for number in numbers:
        attempt = _Round(seed, number, tally, wild=wild)
        try:
            attempt.run()
        except (AssertionError, PenstockError) as error:
            tally.complaints.append(f"seed {seed} round {number}, {attempt.what}: {error!r}")
    return tally


class _Round:
    def __init__(self, seed: int, number: int, tally: Tally, *, wild: bool) -> None:
        self._random = Random(f"{seed}/{number}")
        self._tally = tally
        self._number = number
        self._wild = wild
        self._state = self._random.choices(STATES, WEIGHTS)[0]
        self.what = ""
        """What was done, for a complaint."""

    def run(self) -> None:
        """Raises if a promise was broken."""
        base = bases()[self._state]
        victim = self._random.choice(base.victims)
        disks = {node: disk.fork() for node, disk in base.disks.items()}
        kind = kind_of(self._damage(disks[victim]))
        trio = Trio(disks, base.history_copy(), seed=1_000 + self._number)
        outcome = self._start(trio, victim, base.late)
        _work(trio, self._random, BATCHES_PER_ROUND)
        if outcome != REFUSED:
            _make_whole(trio, victim)
            if outcome is None:
                outcome = FOUND if trio.halts else HARMLESS
        for node in trio.replicas:
            trio.read_everything(node, PARTITIONS)
        states = {replica.machine.snapshot() for replica in trio.replicas.values()}
        assert len(states) == 1, "the replicas ended in different states"
        self._tally.rounds[kind, outcome] += 1

    def _start(self, trio: Trio, victim: NodeId, late: bool) -> str | None:
        """Start all three; what is known of the damage then."""
        last = next(n for n in NODES if n != victim) if late else None
        outcome = None
        for node in NODES:
            if node != last:
                try:
                    trio.start(node)
                except PenstockError as refusal:
                    outcome = self._refused(refusal, node, victim)
        if outcome is None and trio.replicas[victim].log.quarantine is not None:
            outcome = QUARANTINED
        if last is not None:
            trio.pass_ticks(TICKS_ALONE)
            assert outcome is None or trio.leader is None, "a damaged replica was counted"
            trio.start(last)
        return outcome

    def _damage(self, disk: FaultyDisk) -> str:
        """Hit one file; small ones as often as large ones, and segments most often."""
        random = self._random
        by_kind: dict[str, list[str]] = {}
        for path in disk.paths():
            if disk.image(path):
                by_kind.setdefault(kind_of(path), []).append(path)
        path = random.choice(by_kind[random.choice(sorted(by_kind) + ["segment"] * 4)])
        hit = random.choice(BLOWS if self._wild else (flip, flip, flip, cut))
        self.what = f"{self._state}, {path}: {hit(disk, path, random)}"
        return path

    def _refused(self, refusal: PenstockError, node: NodeId, victim: NodeId) -> str:
        assert node == victim, f"node {node} is not damaged and refused: {refusal}"
        assert DIRECTORY in str(refusal), f"the refusal names no file: {refusal}"
        self._tally.refusals.append(str(refusal))
        return REFUSED


def _make_whole(trio: Trio, victim: NodeId) -> None:
    """Wait for agreement; read all of the victim, and let the scrub find what still sleeps."""
    for _ in range(3):
        trio.wait_agreed()
        try:
            trio.read_everything(victim, PARTITIONS)
        except DamagedFile:
            continue  # It halts, starts in quarantine and is repaired.
        if not sleeping_damage(trio, victim):
            return
        trio.wait_halted()
    trio.wait_agreed()
    assert not sleeping_damage(trio, victim)


def sleeping_damage(trio: Trio, node: NodeId) -> list[str]:
    """What a look at every byte finds, as if the process had been killed now."""
    disk = trio.disks[node].fork()
    return [f"{f.path} at {f.position}: {f.problem}" for f in verify_directory(disk, DIRECTORY)]


def kind_of(path: str) -> str:
    """`segment`, `index`, `snapshot`, or the file's own name."""
    name = path.rsplit("/", 1)[-1]
    for pattern, kind in (
        (r"\.damaged$", "damaged"),
        (r"\.broken$", "broken"),
        (r"\.log$", "segment"),
        (r"\.index$", "index"),
        (r"\.snap$", "snapshot"),
    ):
        if re.search(pattern, name):
            return kind
    return name


# What may happen to a file. Each says what it did.


def flip(disk: FaultyDisk, path: str, random: Random) -> str:
    position, bit = random.randrange(len(disk.image(path))), random.randrange(8)
    disk.flip_bit(path, position, bit)
    return f"bit {bit} of byte {position}"


def cut(disk: FaultyDisk, path: str, random: Random) -> str:
    size = len(disk.image(path))
    end = random.choice([0, random.randrange(size), max(0, size - random.randrange(1, 200))])
    disk.truncate_file(path, end)
    return f"cut from {size} to {end}"


def remove(disk: FaultyDisk, path: str, random: Random) -> str:
    disk.remove(path)
    disk.sync_directory(DIRECTORY)
    return "removed"


def blank(disk: FaultyDisk, path: str, random: Random) -> str:
    """A sector, or eight, that were never written."""
    size = len(disk.image(path))
    position = random.randrange(size) // 512 * 512
    _overwrite(disk, path, position, bytes(min(random.choice([512, 4096]), size - position)))
    return f"zeros from {position}"


def scribble(disk: FaultyDisk, path: str, random: Random) -> str:
    """Anything anywhere, also behind the end."""
    position = random.randrange(len(disk.image(path)) + 1)
    _overwrite(disk, path, position, random.randbytes(random.randrange(1, 600)))
    return f"noise from {position}"


def misdirect(disk: FaultyDisk, path: str, random: Random) -> str:
    """A write that went to the wrong place: a part of the file lies over another."""
    image = disk.image(path)
    source, target = random.randrange(len(image)), random.randrange(len(image))
    part = image[source : source + random.randrange(1, 4096)][: len(image) - target]
    _overwrite(disk, path, target, part)
    return f"{len(part)} bytes of {source} at {target}"


def exchange(disk: FaultyDisk, path: str, random: Random) -> str:
    """Two files of a kind have each other's content."""
    same = [p for p in disk.paths() if kind_of(p) == kind_of(path) and p != path]
    if not same:
        return remove(disk, path, random)
    other = random.choice(same)
    mine, theirs = disk.image(path), disk.image(other)
    for target, content in ((path, theirs), (other, mine)):
        disk.truncate_file(target, 0)
        _overwrite(disk, target, 0, content)
    return f"exchanged with {other}"


BLOWS = (flip, cut, remove, blank, scribble, misdirect, exchange)


def _overwrite(disk: FaultyDisk, path: str, position: int, content: bytes) -> None:
    file = disk.open(path)
    file.write(position, [content])
    file.sync()
    file.close()


# A repair that is itself cut short.

WOUNDS: dict[str, Callable[[FaultyDisk], None]] = {
    "segment": lambda disk: disk.flip_bit(_newest(disk, "segment"), 5, 3),
    "snapshot": lambda disk: disk.flip_bit(_newest(disk, "snapshot"), 20, 1),
    "marker": lambda disk: disk.truncate_file(_newest(disk, "marker"), 0),
}
"""Damage after which a replica needs its leader."""


def cut_power_in_repair(wound: str, operation: int, *, shift: int = 0) -> bool:
    """Repair a replica whose power goes in the n-th disk operation; False if it has not so many."""
    base = bases()["killed"]
    disks = {n: d.fork() for n, d in base.disks.items()}
    trio = Trio(disks, base.history_copy(), seed=1_000 + shift + operation)
    victim = NODES[1]
    disk = trio.disks[victim]
    WOUNDS[wound](disk)
    disk.cut_power_after(operation)
    for node in NODES:
        try:
            trio.start(node)
        except PowerCut:
            trio.start_again_without_power()
    _work(trio, Random(operation), 3)
    _make_whole(trio, victim)
    for node in NODES:
        trio.read_everything(node, PARTITIONS)
    return trio.power_cuts > 0


def _newest(disk: FaultyDisk, kind: str) -> str:
    return [path for path in disk.paths() if kind_of(path) == kind][-1]


# Where rounds begin.


@dataclass
class Base:
    """Three disks to begin a round with."""

    disks: dict[NodeId, FaultyDisk]
    history: History
    victims: tuple[NodeId, ...] = NODES
    """Who may be damaged; only that one if one already is."""
    late: bool = False
    """Start the other one that holds the newest messages only after a while."""

    def history_copy(self) -> History:
        """A round adds to the history; the next one must not see it."""
        copy = History()
        copy.sends = dict(self.history.sends)
        for number, partition in self.history.partitions.items():
            twin = copy.partition(number)
            twin.values, twin.offsets = dict(partition.values), dict(partition.offsets)
            twin.acked_end, twin.trimmed_to = partition.acked_end, partition.trimmed_to
        return copy


@cache
def bases() -> dict[str, Base]:
    """Three replicas with messages, snapshots and rewritten segments, ended in different ways."""
    random = Random("bases")
    trio = Trio({node: FaultyDisk() for node in NODES}, History(), seed=0)
    for node in NODES:
        trio.start(node)
    for number in range(PARTITIONS):
        trio.change(partial(CreatePartition, partition=PartitionId(number)))
    _work(trio, random, BATCHES)
    trio.wait_agreed()
    killed = _fork(trio)
    for node in NODES:
        trio.stop(node)
    stopped = _fork(trio)
    return {
        "stopped": stopped,
        "killed": killed,
        "needed": _needed_base(killed, random),
        "quarantined": _damaged_base(killed, repaired=False),
        "half repaired": _damaged_base(killed, repaired=True),
    }


def _work(trio: Trio, random: Random, batches: int) -> None:
    """Append to all partitions; trim partition 1 now and then."""
    for number in range(batches):
        trio.append((0, 1, 1, 2)[number // 4 % 4], random.randrange(100, 3_000))
        end = trio.history.partition(1).acked_end
        if number % 20 == 19 and end > 10:
            before = Offset(end - 10)
            history = trio.history.partition(1)
            history.trimmed_to = max(history.trimmed_to, before)
            trio.change(partial(TrimPartition, partition=PartitionId(1), before=before))


def _fork(trio: Trio, victims: tuple[NodeId, ...] = NODES, *, late: bool = False) -> Base:
    """What would be left if all processes were killed now."""
    disks = {node: disk.fork() for node, disk in trio.disks.items()}
    base = Base(disks, trio.history, victims, late)
    base.history = base.history_copy()
    return base


def _needed_base(base: Base, random: Random) -> Base:
    """The third replica has missed the last messages."""
    trio = Trio({n: d.fork() for n, d in base.disks.items()}, base.history_copy(), seed=3)
    for node in NODES[:2]:
        trio.start(node)
    _work(trio, random, 12)
    return _fork(trio, NODES[:2], late=True)


def _damaged_base(base: Base, *, repaired: bool) -> Base:
    """One replica is in quarantine: nothing has been done about it, or it has been installed."""
    trio = Trio({n: d.fork() for n, d in base.disks.items()}, base.history_copy(), seed=2)
    victim = NODES[1]
    disk = trio.disks[victim]
    WOUNDS["segment"](disk)
    trio.start(victim)
    assert trio.replicas[victim].log.quarantine is not None, "the damage went unnoticed"
    if not repaired:
        return _fork(trio, (victim,))
    for node in NODES:
        if node != victim:
            trio.start(node)

    def installed() -> bool:
        quarantine = trio.replicas[victim].log.quarantine
        return quarantine is not None and quarantine.repaired

    trio.run_until(installed)
    return _fork(trio, (victim,))


def main() -> int:
    parser = argparse.ArgumentParser(description="Damage one of three replicas, again and again.")
    parser.add_argument("--rounds", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--round", type=int, help="only this one")
    parser.add_argument("--wild", action="store_true", help="worse than flips and truncations")
    options = parser.parse_args()
    numbers = range(options.rounds)
    if options.round is not None:
        numbers = range(options.round, options.round + 1)
    tally = damage_rounds(options.seed, numbers, wild=options.wild)
    print(tally.describe())
    print("\n".join([*sorted(set(tally.refusals)), *tally.complaints]))
    print(f"{tally.total} rounds held, {len(tally.complaints)} did not")
    return 1 if tally.complaints else 0


if __name__ == "__main__":
    sys.exit(main())
