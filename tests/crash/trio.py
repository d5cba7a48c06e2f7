"""Three replicas of one shard in one thread, on disks in memory, moved by hand.

The replicas are the production code. Their disks are `FaultyDisk`s, so that a whole cluster can be
copied (`fork`) and each copy damaged in another way. Workers run a job at once but in turn with
everything else; messages are never lost. There is no chance but Raft's own, which comes from a
seed: a `Trio` always does the same. For hostile networks and timing see `tests/simulation`.
"""

from collections import deque
from collections.abc import Callable
from functools import partial
from random import Random

from penstock.core.entries import Membership
from penstock.core.errors import PenstockError, StorageError
from penstock.core.limits import TICK_MS
from penstock.core.types import NodeId, Offset, PartitionId, ShardId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.environment import Environment, ReplicaSettings
from penstock.engine.replica.replica import Replica
from penstock.engine.replica.worker import Done
from penstock.machines.machine import Appended, Reply, Request
from penstock.machines.partitions import AppendBatch, Partitions
from penstock.raft import RaftSettings, Role
from penstock.storage import Identity, Job, LogSettings, ShardLog
from penstock.testing.clock import ManualClock
from penstock.testing.disk import FaultyDisk, PowerCut
from tests.simulation.history import NOT_IDEMPOTENT, History, Send, build_batch

NODES = (NodeId(1), NodeId(2), NodeId(3))
DIRECTORY = "/shard"
LOG = LogSettings(segment_bytes=16 << 10, ballast_bytes=16 << 10, rewrite_live_percent_max=50)
SNAPSHOT_LOG_BYTES = 40 << 10
TICKS_MAX = 5_000

Action = Callable[[], None]


class PromptWorker:
    """Runs each job as one action in the queue of all actions."""

    def __init__(self, soon: Callable[[Action], None]) -> None:
        self._soon = soon

    def submit(self, job: Job, done: Done) -> None:
        self._soon(lambda: self._run(job, done))

    def _run(self, job: Job, done: Done) -> None:
        try:
            for step in job.steps:
                step()
        except StorageError as error:
            done(error)
        else:
            done(None)


class Trio:
    """Three disks, up to three running replicas, and the history of what was sent to them."""

    def __init__(self, disks: dict[NodeId, FaultyDisk], history: History, seed: int) -> None:
        self.disks = disks
        self.history = history
        self.replicas: dict[NodeId, Replica] = {}
        self.halts: list[tuple[NodeId, Exception]] = []
        """Replicas that stopped by themselves, and why."""
        self.power_cuts = 0
        self._seed = seed
        self._lives = 0
        self._life: dict[NodeId, int] = {}
        self._sent = 0
        self._actions: deque[Action] = deque()
        self._clock = ManualClock()
        self._network = LoopbackNetwork(lambda call, *given: self._soon(lambda: call(*given)))

    # Life and death.

    def start(self, node: NodeId) -> None:
        """Open the node's disk and go; raises what opening raises."""
        self._lives += 1
        self._life[node] = self._lives
        try:
            log = ShardLog.open(
                self.disks[node],
                DIRECTORY,
                identity=Identity("trio", ShardId(0), node),
                settings=LOG,
                solo=False,
            )
            replica = Replica(
                node,
                log=log,
                machine=Partitions(),
                settings=ReplicaSettings(
                    raft=RaftSettings(node=node), snapshot_log_bytes=SNAPSHOT_LOG_BYTES
                ),
                world=self._world(node, self._lives),
                bootstrap=Membership(NODES),
            )
        except PenstockError:
            self.disks[node].kill()
            raise
        self.replicas[node] = replica
        self._network.attach(node, replica.receive)

    def start_again_without_power(self) -> None:
        """Nodes whose power was cut come back; what they had not synced is gone."""
        for node in NODES:
            disk = self.disks[node]
            if disk.power_off:
                if node in self.replicas:
                    self._forget(node)
                self._life.pop(node, None)
                disk.crash(Random(f"{self._seed}/{node}/{self._lives}"))
                self.power_cuts += 1
                self.start(node)

    def stop(self, node: NodeId) -> None:
        """End the node in good order."""
        done: list[Reply | PenstockError] = []
        self.replicas[node].retire(done.append)
        self.run_until(lambda: bool(done))
        self.replicas[node].log.close()
        self._forget(node)

    def kill(self, node: NodeId) -> None:
        """End the node without a word."""
        self._forget(node)
        self.disks[node].kill()

    # Moving.

    def run_until(self, condition: Callable[[], bool], ticks_max: int = TICKS_MAX) -> None:
        """Let time pass until the condition holds; nodes that halt or lose power start again."""
        for _ in range(ticks_max):
            try:
                if self._settle(condition) or condition():
                    return
                self._clock.advance(TICK_MS)
                for node in NODES:
                    if node in self.replicas:
                        self.replicas[node].tick()
            except PowerCut:
                self.start_again_without_power()
        raise AssertionError(f"waited {ticks_max} ticks in vain: {self.describe()}")

    def pass_ticks(self, count: int) -> None:
        end = self._clock.monotonic_ms() + count * TICK_MS
        self.run_until(lambda: self._clock.monotonic_ms() >= end)

    def wait_halted(self) -> None:
        """Wait until one more replica has stopped by itself."""
        before = len(self.halts)
        self.run_until(lambda: len(self.halts) > before)

    def wait_agreed(self) -> None:
        """Wait until every running replica is whole and has applied everything."""
        self.run_until(self._agreed)

    @property
    def leader(self) -> Replica | None:
        leaders = [r for r in self.replicas.values() if r.raft.role is Role.LEADER]
        return max(leaders, key=lambda replica: replica.raft.term, default=None)

    def describe(self) -> str:
        return "; ".join(replica.describe() for replica in self.replicas.values())

    # Clients.

    def append(self, partition: int, size: int) -> None:
        """Append a batch until it is acknowledged."""
        self._sent += 1
        value = b"%d-%d." % (self._seed, self._sent)
        send = Send(value=value.rstrip(b"."), partition=partition, count=1, idempotent=False)
        self.history.begin(send)
        body = value.ljust(size, b".")

        def request() -> Request:
            stamp = self._clock.wall_ms()
            batch = build_batch(body, 1, stamp, NOT_IDEMPOTENT, -1, -1)
            return AppendBatch(PartitionId(partition), batch)

        reply = self.change(request)
        assert isinstance(reply, Appended)
        self.history.acknowledged(send, reply.base_offset)

    def change(self, request: Callable[[], Request]) -> Reply:
        """Ask whoever leads until the answer is good."""
        while True:
            answers: list[Reply | PenstockError] = []
            self.run_until(lambda: self.leader is not None)
            leader = self.leader
            assert leader is not None
            leader.submit(request(), answers.append)
            self.run_until(partial(bool, answers))
            if not isinstance(answers[0], PenstockError):
                return answers[0]
            self.pass_ticks(1)

    def read_everything(self, node: NodeId, partitions: int) -> None:
        """Read a replica from end to end and compare it with the history."""
        replica = self.replicas[node]
        for number in range(partitions):
            bounds = replica.machine.bounds(PartitionId(number))
            seen: dict[int, bytes] = {}
            offset: int = bounds.log_start
            while offset < bounds.high_watermark:
                data = replica.fetch(PartitionId(number), Offset(offset), 1 << 16)
                assert data, f"node {node} cannot read {number}@{offset}"
                offset = self.history.saw_bytes(number, data, offset, seen)
            end = self.history.partition(number).acked_end
            self.history.saw_bounds(number, bounds.log_start, bounds.high_watermark, end)
            self.history.check_final(number, bounds.log_start, seen)

    # Inside.

    def _soon(self, action: Action) -> None:
        self._actions.append(action)

    def _settle(self, condition: Callable[[], bool]) -> bool:
        """Do everything that can be done without time passing, restarts included, or as much as it
        takes to fulfil the condition: true then."""
        while True:
            while self._actions:
                if condition():
                    return True
                self._actions.popleft()()
            halted = [n for n, r in self.replicas.items() if r.halted is not None]
            if not halted:
                return False
            for node in halted:
                self.kill(node)
                self.start(node)

    def _agreed(self) -> bool:
        leader = self.leader
        if leader is None or leader.raft.commit < leader.raft.last_index:
            return False
        return all(
            replica.halted is None
            and not replica.raft.damaged
            and replica.log.quarantine is None
            and replica.applied_index == leader.raft.commit
            for replica in self.replicas.values()
        )

    def _forget(self, node: NodeId) -> None:
        """Nothing that is still under way for this replica may touch its disk any more."""
        self._network.detach(node)
        replica = self.replicas.pop(node)
        if replica.halted is None:
            replica.stop()
        self._life.pop(node, None)

    def _world(self, node: NodeId, life: int) -> Environment:
        def soon(action: Action) -> None:
            self._soon(lambda: self._run_if_alive(node, life, action))

        return Environment(
            clock=self._clock,
            random=Random(f"{self._seed}/{node}/{life}"),
            network=self._network,
            writer=PromptWorker(soon),
            background=PromptWorker(soon),
            soon=soon,
            on_halt=lambda error: self.halts.append((node, error)),
        )

    def _run_if_alive(self, node: NodeId, life: int, action: Action) -> None:
        if self._life.get(node) == life:
            action()
