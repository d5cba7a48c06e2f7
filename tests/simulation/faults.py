"""What goes wrong: each run turns on a random few of these, so that rare mixes meet (swarm
testing).

Rot is laid on a minority only, the same one for a whole run: damage may sleep in a sealed file
for a long time, and two nodes that lose the same bytes lose them for good, which no protocol can
mend.
"""

from collections.abc import Callable
from random import Random
from typing import TYPE_CHECKING

from penstock.core.entries import Membership
from penstock.core.errors import DiskFailed, PenstockError
from penstock.core.types import NodeId
from penstock.testing.disk import UNLIMITED_BYTES
from tests.simulation.node import DIRECTORY, SimulatedNode
from tests.simulation.timeline import MILLISECOND, SECOND

if TYPE_CHECKING:
    from tests.simulation.cluster import Cluster

REPAIRABLE = (".log", ".index")
"""What a replica can fetch from others or make anew, however often it rots."""

Fault = Callable[["Cluster", Random], None]


def isolate(cluster: "Cluster", random: Random) -> None:
    """One node hears nobody and nobody hears it."""
    victim = random.choice(cluster.numbers())
    others = [n for n in cluster.numbers() if n != victim]
    cluster.cut([(victim, n) for n in others] + [(n, victim) for n in others], "isolate")


def split(cluster: "Cluster", random: Random) -> None:
    """Two halves."""
    numbers = cluster.numbers()
    random.shuffle(numbers)
    at = random.randrange(1, len(numbers))
    left, right = numbers[:at], numbers[at:]
    cluster.cut(
        [(a, b) for a in left for b in right] + [(b, a) for a in left for b in right], "split"
    )


def one_way(cluster: "Cluster", random: Random) -> None:
    """A node that can send but not hear, or the reverse."""
    victim = random.choice(cluster.numbers())
    others = [n for n in cluster.numbers() if n != victim]
    deaf = random.random() < 0.5
    cluster.cut([(n, victim) if deaf else (victim, n) for n in others], "one way")


def ring(cluster: "Cluster", random: Random) -> None:
    """Each node reaches only its neighbours."""
    numbers = cluster.numbers()
    random.shuffle(numbers)
    size = len(numbers)
    links = [
        (numbers[a], numbers[b])
        for a in range(size)
        for b in range(size)
        if a != b and (a - b) % size not in (1, size - 1)
    ]
    if size == 3:  # Three nodes in a ring all see each other: take out one direction of it.
        links = [(numbers[0], numbers[1]), (numbers[1], numbers[2]), (numbers[2], numbers[0])]
    cluster.cut(links, "ring")


def clog(cluster: "Cluster", random: Random) -> None:
    """One link holds everything back and lets it through later, all at once."""
    source, target = random.sample(cluster.numbers(), 2)
    cluster.clog(source, target)


def kill(cluster: "Cluster", random: Random) -> None:
    """The process of one node dies; often it is the leader's."""
    _die(cluster, _pick(cluster, random), random, power=False)


def cut_power(cluster: "Cluster", random: Random) -> None:
    """One machine loses power."""
    _die(cluster, _pick(cluster, random), random, power=True)


def cut_all_power(cluster: "Cluster", random: Random) -> None:
    """The whole room loses power."""
    for node in cluster.nodes:
        _die(cluster, node, random, power=True)
    cluster.timeline.count("all power cut")


def pause(cluster: "Cluster", random: Random) -> None:
    """A process stops in its tracks and goes on later, unaware."""
    node = _pick(cluster, random)
    if node is not None and node.running:
        node.pause()
        cluster.timeline.count("pause")
        life = node.life
        delay = random.choice([300, 1_000, 3_000, 6_000]) * MILLISECOND
        cluster.timeline.after(delay, lambda: node.resume() if node.life == life else None)


def jump_clock(cluster: "Cluster", random: Random) -> None:
    """A wall clock jumps by up to an hour."""
    node = random.choice(cluster.nodes)
    node.clock.offset_ms += random.randrange(-3_600_000, 3_600_000)
    cluster.timeline.count("clock jump")


def rot(cluster: "Cluster", random: Random) -> None:
    """One bit of one file turns over on one of the nodes that may rot; then it restarts or not."""
    node = random.choice(cluster.rotten())
    paths = [path for path in node.disk.paths() if len(node.disk.image(path))]
    if node.keeps_one_copy:
        paths = [path for path in paths if path.endswith(REPAIRABLE)]
    if not paths:
        return
    path = random.choice(paths)
    node.rotten = True
    # What is kept twice survives one fault; the next start mends it.
    node.keeps_one_copy = node.keeps_one_copy or not path.endswith(REPAIRABLE)
    size = len(node.disk.image(path))
    if random.random() < 0.2:
        keep = random.randrange(size)
        node.line(f"loses the end of {path} from byte {keep} on")
        _die(cluster, node, random, power=False)
        node.disk.truncate_file(path, keep)
        cluster.timeline.count("truncated file")
        return
    position, bit = random.randrange(size), random.randrange(8)
    node.line(f"has a bit turned in {path} at byte {position}")
    node.disk.flip_bit(path, position, bit)
    cluster.timeline.count("bit flip")
    if random.random() < 0.7:
        _die(cluster, node, random, power=False)


def disk_error(cluster: "Cluster", random: Random) -> None:
    """The operating system reports an error once, and pretends to be fine afterwards."""
    node = random.choice(cluster.nodes)
    operation = random.choice(["sync", "write", "sync_directory", "rename"])
    node.disk.fail_next(operation, f"{DIRECTORY}/*", DiskFailed)
    node.line(f"will see its next {operation} fail")
    cluster.timeline.count(f"failing {operation}")


def fill_disk(cluster: "Cluster", random: Random) -> None:
    """Somebody else's files fill the disk, and go away later."""
    node = random.choice(cluster.nodes)
    node.disk.capacity_bytes = node.disk.used_bytes + random.choice([0, 5_000, 50_000])
    node.line("has a full disk")
    cluster.timeline.count("full disk")
    cluster.timeline.after(random.randrange(1, 8) * SECOND, lambda: _free(node))


def transfer(cluster: "Cluster", random: Random) -> None:
    """An operator moves leadership."""
    leader = cluster.leader()
    target = random.choice(cluster.numbers())
    if leader is not None and leader.replica is not None:
        leader.line(f"is asked to hand over to n{target}")
        try:
            leader.replica.transfer(NodeId(target))
        except PenstockError as refusal:
            leader.line(f"refuses: {refusal}")
        cluster.timeline.count("transfer")


def change_members(cluster: "Cluster", random: Random) -> None:
    """An operator adds, promotes or removes a member, one step at a time."""
    leader = cluster.leader()
    if leader is None or leader.replica is None:
        return
    membership = leader.replica.raft.membership
    wanted = _next_membership(cluster, membership, random)
    if wanted is None:
        return
    leader.line(f"is asked for {wanted.describe()}")

    def answered(answer: object) -> None:
        if not isinstance(answer, PenstockError):
            cluster.timeline.count("membership change")

    leader.replica.change_membership(wanted, answered)


def _next_membership(cluster: "Cluster", now: Membership, random: Random) -> Membership | None:
    spare = [n for n in cluster.numbers() if n not in now.everyone()]
    steps: list[Membership] = []
    for n in spare:
        steps.append(Membership(now.voters, tuple(sorted((*now.learners, NodeId(n))))))
    for n in now.learners:
        rest = tuple(m for m in now.learners if m != n)
        steps.append(Membership(tuple(sorted((*now.voters, n))), rest))
        steps.append(Membership(now.voters, rest))
    if len(now.voters) > 3:
        # A removed member keeps its disk and its id, so it may come back as the same node.
        for n in now.voters:
            steps.append(Membership(tuple(m for m in now.voters if m != n), now.learners))
    return random.choice(steps) if steps else None


def _pick(cluster: "Cluster", random: Random) -> SimulatedNode | None:
    leader = cluster.leader()
    if leader is not None and random.random() < 0.5:
        return leader
    alive = [node for node in cluster.nodes if node.replica is not None]
    return random.choice(alive) if alive else None


def _die(cluster: "Cluster", node: SimulatedNode | None, random: Random, *, power: bool) -> None:
    if node is None or node.replica is None:
        return
    if power:
        node.cut_power()
    else:
        node.kill()
    cluster.timeline.count("power cut" if power else "kill")
    delay = random.choice([50, 500, 2_000, 8_000]) * MILLISECOND
    node.schedule(delay + random.randrange(100 * MILLISECOND), node.start)


def _free(node: SimulatedNode) -> None:
    node.disk.capacity_bytes = UNLIMITED_BYTES


FAULTS: dict[str, Fault] = {
    "isolate": isolate,
    "split": split,
    "one way": one_way,
    "ring": ring,
    "clog": clog,
    "kill": kill,
    "cut power": cut_power,
    "cut all power": cut_all_power,
    "pause": pause,
    "jump clock": jump_clock,
    "rot": rot,
    "disk error": disk_error,
    "fill disk": fill_disk,
    "transfer": transfer,
    "change members": change_members,
}
