"""One simulated node: a real replica on a faulty disk, with a clock of its own and a supervisor.

The replica, its log, its machine and its Raft are the production code. Simulated is only what was
handed in: clock, disk, network, workers. A node can be killed (the page cache survives), lose
power (it does not), be paused (everything that arrives waits until it goes on) and halt by itself
(its supervisor starts it again after a while, as an operator's would).
"""

from collections.abc import Callable, Iterator
from random import Random
from typing import TYPE_CHECKING

from penstock.core.entries import Entry, Membership
from penstock.core.errors import PenstockError
from penstock.core.message_batches import iter_batches, read_messages
from penstock.core.types import NodeId, Offset, ShardId
from penstock.engine.replica.environment import Environment, ReplicaSettings
from penstock.engine.replica.network import PeerMessage
from penstock.engine.replica.pending_writes import PendingWrite
from penstock.engine.replica.replica import Replica
from penstock.machines.machine import Applied, Reply, Request
from penstock.machines.queue_commands import Recall, TurnClock
from penstock.machines.queue_headers import recalled_headers
from penstock.machines.shard_machine import ShardMachine
from penstock.machines.state_pieces import Piece, joined
from penstock.raft import RaftSettings
from penstock.raft.messages import Ready
from penstock.storage import Identity, LogJob, LogSettings, ShardLog
from penstock.testing.disk import FaultyDisk
from tests.simulation.timeline import MILLISECOND, SECOND, Timeline
from tests.simulation.worker import DiskPace, SimulatedWorker

if TYPE_CHECKING:
    from tests.simulation.checkers import Watch

TICK_US = 100 * MILLISECOND
DIRECTORY = "/shard"
EPOCH_MS = 1_700_000_000_000

LOG_SETTINGS = LogSettings(segment_bytes=32 * 1024, ballast_bytes=64 * 1024)


class SimulatedClock:
    """A clock that is wrong by an offset and runs at its own rate."""

    def __init__(self, timeline: Timeline, random: Random) -> None:
        self._timeline = timeline
        self.offset_ms = random.choice([0, 0, random.randrange(-3_600_000, 3_600_000)])
        self.rate = random.choice([1.0, 1.0, random.uniform(0.95, 1.05)])

    def wall_ms(self) -> int:
        return EPOCH_MS + self.offset_ms + int(self._timeline.now * self.rate) // 1_000

    def monotonic_ms(self) -> int:
        return int(self._timeline.now * self.rate) // 1_000


class ObservedMachine(ShardMachine):
    """The production machine; what came of the last entry can be seen, and a snapshot that is made
    in pieces is compared with one of its moment."""

    __slots__ = ("applied",)

    def apply(self, entry: Entry) -> Applied:
        self.applied = super().apply(entry)
        return self.applied

    def snapshot(self) -> bytes:
        return joined(super().snapshot_pieces())

    def snapshot_pieces(self) -> Iterator[Piece]:
        return _compared(super().snapshot_pieces(), self.snapshot())


def _compared(pieces: Iterator[Piece], expected: bytes) -> Iterator[Piece]:
    seen = []
    for piece in pieces:
        seen.append(piece)
        yield piece
    assert joined(iter(seen)) == expected, "a snapshot shows what came after its moment"


class ObservedReplica(Replica):
    """The production replica; the watch sees each duty as it is carried out."""

    watch: "Watch"
    place: "SimulatedNode"

    def _carry_out(self, ready: Ready) -> None:
        self.watch.saw_ready(self.place, ready)
        super()._carry_out(ready)

    def _apply(self, entry: Entry) -> None:
        super()._apply(entry)
        self.watch.saw_applied(self.place, entry)

    def _rest(self, turns: int) -> None:
        if self._unapplied:
            self.place.timeline.count("apply interrupted")
        super()._rest(turns)

    def _submit_write(self, job: LogJob, duties: list[PendingWrite]) -> None:
        self.watch.saw_writing(self.place, duties)
        super()._submit_write(job, duties)

    def _written(self, job: LogJob, duties: list[PendingWrite], error: Exception | None) -> None:
        self.watch.saw_written(self.place, duties, error)
        super()._written(job, duties, error)


class SimulatedNode:
    """A place where a replica lives, dies and lives again."""

    def __init__(
        self,
        number: int,
        *,
        timeline: Timeline,
        send: Callable[[PeerMessage], None],
        watch: "Watch",
        bootstrap: Membership,
        snapshot_log_bytes: int,
        append_bytes_max: int,
        write_bytes_max: int,
        snapshot_part_bytes: int,
        snapshot_slice_bytes: int,
        snapshot_write_bytes: int,
        solo: bool,
    ) -> None:
        self.number = number
        self.name = f"n{number}"
        self.timeline = timeline
        self.random = timeline.random(self.name)
        self._slowness = timeline.random(f"{self.name} slowness")
        self._seconds = 0.0
        self.clock = SimulatedClock(timeline, self.random)
        self.pace = DiskPace(self.random)
        self.disk = FaultyDisk()
        self.replica: ObservedReplica | None = None
        self.paused = False
        self.rotten = False
        """Bits have turned over on its disk, or files have lost their end."""
        self.keeps_one_copy = False
        """A file that is kept twice has rotted since the last start."""
        self.life = 0
        self._send = send
        self._watch = watch
        self._bootstrap = bootstrap
        self._snapshot_log_bytes = snapshot_log_bytes
        self._append_bytes_max = append_bytes_max
        self._write_bytes_max = write_bytes_max
        self._snapshot_part_bytes = snapshot_part_bytes
        self._snapshot_slice_bytes = snapshot_slice_bytes
        self._snapshot_write_bytes = snapshot_write_bytes
        self._solo = solo
        self._held: list[tuple[Callable[[], None], bool]] = []
        self._tending = 0
        """In which life a duty to the queues is under way."""

    # Life and death.

    def start(self) -> None:
        """Open the directory and go; what cannot be opened is tried again later."""
        self.life += 1
        try:
            log = ShardLog.open(
                self.disk,
                DIRECTORY,
                identity=Identity("simulated", ShardId(0), NodeId(self.number)),
                settings=LOG_SETTINGS,
                solo=self._solo,
            )
        except PenstockError as error:
            self.line(f"cannot start: {error}")
            self.disk.kill()
            self.timeline.count("start refused")
            self.schedule(2 * SECOND, self.start)
            return
        self.keeps_one_copy = False
        if log.quarantine is not None:
            self.timeline.count("quarantine")
            self.line(f"starts in quarantine: {log.quarantine.reason}")
        self.replica = ObservedReplica.__new__(ObservedReplica)
        self.replica.watch = self._watch
        self.replica.place = self
        self.replica.__init__(  # type: ignore[misc]
            NodeId(self.number),
            log=log,
            machine=ObservedMachine(),
            settings=ReplicaSettings(
                raft=RaftSettings(
                    node=NodeId(self.number),
                    append_bytes_max=self._append_bytes_max,
                    inflight_messages_max=8,
                    inflight_bytes_max=32 * 1024,
                    cache_bytes_max=16 * 1024,
                ),
                snapshot_log_bytes=self._snapshot_log_bytes,
                write_bytes_max=self._write_bytes_max,
                snapshot_part_bytes=self._snapshot_part_bytes,
                snapshot_slice_bytes=self._snapshot_slice_bytes,
                snapshot_write_bytes=self._snapshot_write_bytes,
            ),
            world=self._world(),
            bootstrap=self._bootstrap,
        )
        self.line(f"starts: {self.replica.describe()}")
        self._watch.saw_start(self)
        self._tick_later()

    def kill(self) -> None:
        """The process dies; the page cache, and so every write, survives."""
        self._die("killed")
        self.disk.kill()

    def cut_power(self) -> None:
        """The machine dies; what was not synced is lost, torn, or by luck still there."""
        self._die("loses power")
        self.disk.crash(self.random)

    def pause(self) -> None:
        self.line("paused")
        self.paused = True

    def resume(self) -> None:
        """What arrived meanwhile is handled now, bit by bit, in any order: sockets are many."""
        self.line("goes on")
        self.paused = False
        held, self._held = self._held, []
        self.random.shuffle(held)
        if self.random.random() < 0.5:  # What clients asked meanwhile is read before the peers.
            held.sort(key=lambda item: not item[1])
        delay = 0
        for action, _ in held:
            self.schedule(delay, action)
            delay += self.random.randrange(100)

    @property
    def running(self) -> bool:
        return self.replica is not None and not self.paused

    # Events.

    def schedule(self, delay: int, action: Callable[[], None]) -> None:
        """Run an action of this life of the node; a pause holds it back, a death drops it."""
        life = self.life
        self.timeline.after(delay, lambda: self._run(life, action))

    def ask(self, action: Callable[[], None]) -> None:
        """A client's request has arrived at this node's door."""
        self._run(self.life, action, by_client=True)

    def deliver(self, message: PeerMessage) -> None:
        """A message has arrived at this node's door."""
        self._run(self.life, lambda: self._receive(message))

    def line(self, what: str) -> None:
        self.timeline.line(self.name, what)

    def _run(self, life: int, action: Callable[[], None], *, by_client: bool = False) -> None:
        if life != self.life:
            return
        if self.paused:
            self._held.append((action, by_client))
            return
        self._watch.touched.append(self)
        action()

    def _receive(self, message: PeerMessage) -> None:
        if self.replica is not None:
            self.line(f"<- n{message.source} {message.describe()}")
            self.replica.receive(message)

    def _tick_later(self) -> None:
        self.schedule(int(TICK_US / self.clock.rate), self._tick)

    def _tick(self) -> None:
        if self.replica is not None:
            self.replica.tick()
            self._tend_queues(self.replica)
            self._tick_later()

    def _tend_queues(self, replica: Replica) -> None:
        """What a leader owes its queues: time passes in them, and old messages are told of."""
        if not replica.leads or self._tending == self.life:
            return
        duty = self._queue_duty(replica)
        if duty is not None:
            life = self._tending = self.life

            def done(_answer: Reply | PenstockError) -> None:
                if self._tending == life:
                    self._tending = 0

            replica.submit(duty, done)

    def _queue_duty(self, replica: Replica) -> Request | None:
        assert isinstance(replica.machine, ShardMachine), "there are queues"
        queues = replica.machine.queues
        due_ms = queues.due_ms()
        if due_ms is not None and due_ms <= max(self.clock.wall_ms(), queues.time_ms):
            return TurnClock()
        for partition, group, work in queues.recalling():
            first, end = work.recalled, work.recall_end
            try:
                data = replica.fetch(partition, first, 4_096)
            except PenstockError:
                return None
            messages = [one for batch in iter_batches(data) for one in read_messages(batch)]
            told = [
                recalled_headers(one, work.queue) for one in messages if first <= one.offset < end
            ]
            return Recall(
                partition=partition,
                group=group,
                first=first,
                end=min(end, Offset(messages[-1].offset + 1)),
                delivery_headers=tuple(one for one in told if one is not None),
                fifo=work.queue.fifo,
            )
        return None

    def _die(self, how: str) -> None:
        self.line(how)
        self.life += 1
        self.replica = None
        self.paused = False
        self._held.clear()
        self._watch.saw_death(self)

    def _halted(self, _error: Exception) -> None:
        self.timeline.count("halt")
        life = self.life
        self.timeline.after(0, lambda: self._restart_after_halt(life))

    def _restart_after_halt(self, life: int) -> None:
        if life == self.life:
            self.kill()
            self.schedule(self.random.randrange(100, 3_000) * MILLISECOND, self.start)

    def _world(self) -> Environment:
        life = self.life

        def slow() -> None:
            self.timeline.count("slow sync")

        def send(message: PeerMessage) -> None:
            if life == self.life:
                self._watch.saw_send(self, message)
                self._send(message)

        return Environment(
            clock=self.clock,
            random=self.timeline.random(f"{self.name} life {self.life}"),
            network=_Sender(send),
            writer=SimulatedWorker(self.pace, self.schedule, slow),
            background=SimulatedWorker(self.pace, self.schedule, slow),
            soon=lambda action: self.schedule(0, action),
            on_halt=self._halted,
            seconds=self._look_at_watch,
            announce=self._announced,
        )

    def _look_at_watch(self) -> float:
        """Now and then something took long: entries are then applied in several parts."""
        if self._slowness.random() < 0.1:
            self._seconds += 1
        return self._seconds

    def _announced(self, line: str) -> None:
        self.line(line)
        for rare in ("installed the snapshot", "is repaired", "no longer leads"):
            if line.startswith(rare):
                self.timeline.count(rare)


class _Sender:
    """A network of one function."""

    def __init__(self, send: Callable[[PeerMessage], None]) -> None:
        self.send = send
