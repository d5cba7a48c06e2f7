"""Replicas on memory disks whose work is done when the test says so."""

from collections import deque
from collections.abc import Callable
from random import Random

from penstock.core.entries import Membership
from penstock.core.errors import PenstockError
from penstock.core.types import NodeId, PartitionId, ShardId
from penstock.engine.replica.environment import Environment, ReplicaSettings
from penstock.engine.replica.network import PeerMessage
from penstock.engine.replica.replica import Replica
from penstock.engine.replica.worker import Done
from penstock.machines.commands import CreatePartition
from penstock.machines.machine import Reply
from penstock.machines.partitions import Partitions
from penstock.raft import RaftSettings, Role
from penstock.storage import Identity, Job, LogSettings, ShardLog
from penstock.testing.clock import ManualClock
from penstock.testing.disk import FaultyDisk

PARTITION = PartitionId(0)
Answer = Reply | PenstockError


class HeldWorker:
    """Keeps jobs until `run`."""

    def __init__(self) -> None:
        self.jobs: deque[tuple[Job, Done]] = deque()

    def submit(self, job: Job, done: Done) -> None:
        self.jobs.append((job, done))

    def run(self) -> None:
        """Do one job; its error, if any, is told like a thread's."""
        job, done = self.jobs.popleft()
        error: Exception | None = None
        try:
            for step in job.steps:
                step()
        except PenstockError as caught:
            error = caught
        done(error)


class Place:
    """One node: its disk, its workers, what it wants to say."""

    def __init__(self, number: int, members: Membership, disk: FaultyDisk, **options: int) -> None:
        self.disk = disk
        self.writer, self.background = HeldWorker(), HeldWorker()
        self.soon: deque[Callable[[], None]] = deque()
        self.sent: deque[PeerMessage] = deque()
        self.lines: list[str] = []
        self.seconds = self.seconds_a_look = 0.0
        """A watch, and how far it goes on between two looks at it."""
        self.halts: list[Exception] = []
        log = ShardLog.open(
            disk,
            "/shard",
            identity=Identity("test", ShardId(0), NodeId(number)),
            settings=LogSettings(segment_bytes=16 * 1024, ballast_bytes=16 * 1024),
            solo=len(members.voters) == 1,
        )
        self.replica = Replica(
            NodeId(number),
            log=log,
            machine=Partitions(),
            settings=ReplicaSettings(raft=RaftSettings(node=NodeId(number)), **options),
            world=Environment(
                clock=ManualClock(),
                random=Random(number),
                network=self,
                writer=self.writer,
                background=self.background,
                soon=self.soon.append,
                on_halt=self.halts.append,
                announce=self.lines.append,
                seconds=self._look_at_watch,
            ),
            bootstrap=members,
        )

    def _look_at_watch(self) -> float:
        self.seconds += self.seconds_a_look
        return self.seconds

    def send(self, message: PeerMessage) -> None:
        self.sent.append(message)

    def work(self, *, write: bool = True) -> bool:
        """Do one thing that is due; False if nothing is."""
        if self.soon:
            self.soon.popleft()()
        elif write and self.writer.jobs:
            self.writer.run()
        elif write and self.background.jobs:
            self.background.run()
        else:
            return False
        return True


class Cluster:
    """Places whose messages arrive in order, at once, unless a node is cut off."""

    def __init__(self, size: int, **options: int) -> None:
        self._members = Membership(tuple(NodeId(n) for n in range(1, size + 1)))
        self._options = options
        self.cut: set[int] = set()
        self.places = {n: self._start(n, FaultyDisk()) for n in range(1, size + 1)}

    def _start(self, number: int, disk: FaultyDisk) -> Place:
        return Place(number, self._members, disk, **self._options)

    def restart(self, number: int, *, power: bool = False) -> Place:
        disk = self.places[number].disk
        if power:
            disk.crash(Random(1))
        else:
            disk.kill()
        self.places[number] = self._start(number, disk)
        return self.places[number]

    def step(self) -> bool:
        """One thing that is due, or all messages; False if there are neither."""
        for number, place in self.places.items():
            while place.sent:
                message = place.sent.popleft()
                if number not in self.cut and message.target not in self.cut:
                    self.places[message.target].replica.receive(message)
        return sum(place.work() for place in self.places.values()) > 0

    def settle(self) -> None:
        """Work and carry messages until nothing is left to do."""
        busy = True
        while busy:
            busy = False
            for number, place in self.places.items():
                while place.work():
                    busy = True
                while place.sent:
                    message = place.sent.popleft()
                    busy = True
                    if number not in self.cut and message.target not in self.cut:
                        self.places[message.target].replica.receive(message)

    def elect(self, number: int = 1) -> Place:
        place = self.places[number]
        place.replica.campaign()
        self.settle()
        assert place.replica.raft.role is Role.LEADER
        return place

    def replace_leader(self) -> Place:
        """Let time pass for those that are not cut off, until one of them leads."""
        others = [place for number, place in self.places.items() if number not in self.cut]
        for _ in range(60):
            for place in others:
                place.replica.tick()
            self.settle()
            for place in others:
                if place.replica.raft.established:
                    return place
        raise AssertionError("nobody leads")

    def tick(self, count: int = 1) -> None:
        for _ in range(count):
            for place in list(self.places.values()):
                place.replica.tick()
            self.settle()


def ask(place: Place, request: object) -> list[Answer]:
    """Submit; the answer will be in the list when it comes."""
    answers: list[Answer] = []
    place.replica.submit(request, answers.append)  # type: ignore[arg-type]
    return answers


def with_partition(size: int = 1, **options: int) -> tuple[Cluster, Place]:
    """A cluster with a leader and an empty partition."""
    cluster = Cluster(size, **options)
    leader = cluster.elect()
    answers = ask(leader, CreatePartition(partition=PARTITION))
    cluster.settle()
    assert not isinstance(answers[0], PenstockError), answers
    return cluster, leader
