"""A simulated run: a cluster, its clients and its faults, from one seed.

Phase one, safety: faults strike while clients work, and every invariant is checked after every
event. Phase two, liveness: all faults end; a leader must be there soon, every request must come
to an end, all replicas must reach the same state, and everything acknowledged must be readable on
each of them.
"""

from collections.abc import Callable
from dataclasses import dataclass
from random import Random

from penstock.core.entries import Membership
from penstock.core.errors import DamagedFile
from penstock.core.types import NO_PRODUCER, NodeId, Offset, PartitionId
from penstock.engine.replica.replica import Replica
from penstock.machines.shard_machine import ShardMachine
from penstock.raft import Role
from penstock.testing.disk import UNLIMITED_BYTES
from tests.simulation.checkers import Watch, broken
from tests.simulation.faults import FAULTS
from tests.simulation.history import History
from tests.simulation.network import SimulatedNetwork, Weather
from tests.simulation.node import SimulatedNode
from tests.simulation.publishing_clients import PublishingFounder, make_publishing
from tests.simulation.publishing_watch import PublishingWatch
from tests.simulation.queue_clients import Coverer, Drainer, Keeper, Sender, Worker, draw_rules
from tests.simulation.queue_watch import QueueWatch
from tests.simulation.timeline import MILLISECOND, SECOND, Timeline
from tests.simulation.workload import Client, Committer, Operator, Producer, Reader

SAFETY_US = 60 * SECOND
LEADER_WITHIN_US = 15 * SECOND
QUIET_WITHIN_US = 60 * SECOND
FAULT_EVERY_MS = (100, 4_000)
PARTITIONS = [0, 1, 2]
QUEUE_CHANCE = 0.5
"""How many of the runs have a queue in them; their producers are fewer and slower."""
PUBLISHING_CHANCE = 0.3
"""In how many of the runs somebody publishes; the same is true of them."""


@dataclass(frozen=True)
class Outcome:
    """What one run was and gave."""

    seed: int
    options: str
    events: int
    acked: int
    commit: int
    happened: dict[str, int]
    fingerprint: str


class Cluster:
    """Nodes, clients, faults."""

    def __init__(self, seed: int, echo: Callable[[str], None] | None = None) -> None:
        self.timeline = Timeline(seed, echo=echo)
        random = self.random = self.timeline.random("options")
        self._fault_random = self.timeline.random("faults")
        self.weather = Weather(random)
        self.network = SimulatedNetwork(self.timeline, self.weather)
        self.watch = Watch()
        self.history = History()
        members = random.choice([1, 3, 3, 3, 3, 5])
        self.faults = sorted(random.sample(sorted(FAULTS), random.randrange(0, 8)))
        spares = 2 if "change members" in self.faults and members > 1 else 0
        bootstrap = Membership(tuple(NodeId(n) for n in range(1, members + 1)))
        snapshot_log_bytes = random.choice([4_000, 20_000, 100_000, 1_000_000])
        append_bytes_max = random.choice([400, 2_000, 8_000])
        write_bytes_max = random.choice([200, 4_000, 1_000_000])
        snapshot_part_bytes = random.choice([100, 3_000, 1_000_000])
        pieces_random = self.timeline.random("snapshot pieces")
        snapshot_slice_bytes = pieces_random.choice([1, 1_000, 100_000])
        snapshot_write_bytes = pieces_random.choice([1, 2_000, 1_000_000])
        self._rot_max = (members - 1) // 2
        if self._rot_max == 0:
            unfit = {"rot", "isolate", "split", "one way", "ring", "clog", "transfer"}
            self.faults = [fault for fault in self.faults if fault not in unfit]
        self.nodes: list[SimulatedNode] = []
        for number in range(1, members + spares + 1):
            node = SimulatedNode(
                number,
                timeline=self.timeline,
                send=self.network.send,
                watch=self.watch,
                bootstrap=bootstrap if number <= members else Membership(),
                snapshot_log_bytes=snapshot_log_bytes,
                append_bytes_max=append_bytes_max,
                write_bytes_max=write_bytes_max,
                snapshot_part_bytes=snapshot_part_bytes,
                snapshot_slice_bytes=snapshot_slice_bytes,
                snapshot_write_bytes=snapshot_write_bytes,
                solo=members == 1,
            )
            self.nodes.append(node)
            self.network.attach(number, node.deliver)
        self.watch.nodes = self.nodes
        self.members = members
        queue_random = self.timeline.random("queue")
        self.queue_clients = (
            self._make_queue_clients(queue_random) if queue_random.random() < QUEUE_CHANCE else []
        )
        publish_random = self.timeline.random("publishing")
        self.publishing_clients = (
            self._make_publishing_clients(publish_random)
            if publish_random.random() < PUBLISHING_CHANCE
            else []
        )
        self.clients = self._make_clients(random.choice([2, 4, 8])) + self.queue_clients
        self.clients += self.publishing_clients
        self.options = (
            f"{members} members, {spares} spare, {self.weather.describe()}, snapshot every"
            f" {snapshot_log_bytes} B, faults: {', '.join(self.faults) or 'none'}"
        )
        for client in self.queue_clients:
            if isinstance(client, Keeper):
                self.options += f", queue: {client.describe()}"

    # What faults and clients use.

    def numbers(self) -> list[int]:
        return [node.number for node in self.nodes]

    node_numbers = numbers

    def leader(self) -> SimulatedNode | None:
        """The running leader of the newest term."""
        leaders = [
            node
            for node in self.nodes
            if node.replica is not None and node.replica.raft.role is Role.LEADER
        ]
        return max(leaders, key=lambda n: n.replica.raft.term if n.replica else 0, default=None)

    def rotten(self) -> list[SimulatedNode]:
        """The nodes whose disks may rot in this run."""
        return self.nodes[: self._rot_max]

    def cut(self, links: list[tuple[int, int]], kind: str) -> None:
        self.timeline.line("net", f"{kind}: " + " ".join(f"{a}>{b}" for a, b in sorted(links)))
        self.network.cut(links, kind)
        self._heal_later()

    def clog(self, source: int, target: int) -> None:
        self.timeline.line("net", f"clogged: {source}>{target}")
        self.network.clog(source, target)
        self._heal_later()

    def call(self, number: int, action: Callable[[Replica], None]) -> None:
        node = self.nodes[number - 1]
        if self._fault_random.random() < 0.01:
            self.timeline.count("request lost")
            return

        def arrive() -> None:
            if node.replica is not None:
                action(node.replica)

        self.timeline.after(self._fault_random.randrange(200, 3_000), lambda: node.ask(arrive))

    # The run.

    def run(self) -> Outcome:
        self.timeline.line("run", f"seed {self.timeline.seed}: {self.options}")
        for node in self.nodes:
            node.schedule(self.random.randrange(100 * MILLISECOND), node.start)
        for client in self.clients:
            if isinstance(client, Operator):
                client.start()
        if self.faults:
            self._fault_later()
        check = self.watch.check
        self.timeline.run_until(SAFETY_US, check)
        self._heal_everything()
        self._await(LEADER_WITHIN_US, "a leader", lambda: self.leader() is not None)
        for client in self.clients:
            client.stopping = True
        self._await(QUIET_WITHIN_US, "every request's end", self._quiet)
        self._drain_queue()
        self._finish_publishing()
        while not self._agree_and_drain():
            self.timeline.count("damage found at the end")
        return Outcome(
            seed=self.timeline.seed,
            options=self.options,
            events=self.timeline.events,
            acked=self.timeline.happened["ack"],
            commit=self.watch.commit,
            happened=dict(self.timeline.happened),
            fingerprint=self.timeline.fingerprint(),
        )

    def _make_clients(self, count: int) -> list[Client]:
        timeline, history = self.timeline, self.history
        operator = Operator("op", timeline, self, history, PARTITIONS)
        clients: list[Client] = [operator]
        busy = bool(self.queue_clients or self.publishing_clients)
        for number in range(min(count, 2) if busy else count):
            producer_id = 1_000 + number if number % 2 == 0 else NO_PRODUCER
            producer = Producer(
                f"p{number}",
                timeline,
                self,
                history,
                partitions=PARTITIONS,
                producer_id=producer_id,
            )
            if busy:
                producer.pause_us *= 3
            clients.append(producer)
        for name in ("r0", "r1"):
            clients.append(Reader(name, timeline, self, history, PARTITIONS))
        clients.append(Committer("group", timeline, self, history))

        def created() -> None:
            for client in clients[1:] + self.queue_clients[:1] + self.publishing_clients[:1]:
                client.start()

        operator.on_created = created
        return clients

    def _make_queue_clients(self, random: Random) -> list[Client]:
        """The keeper, who makes the queue, and then those who use it."""
        queue = self.watch.queue = QueueWatch(self.timeline.count)
        who = (self.timeline, self, self.history, queue)
        keeper = Keeper("keep", *who, rules=draw_rules(random))
        clients: list[Client] = [keeper]
        clients += [Sender(f"s{number}", *who) for number in range(random.choice([1, 2]))]
        clients += [Worker(f"w{number}", *who) for number in range(random.choice([1, 2, 3]))]
        clients += [Coverer(f"c{number}", *who) for number in range(random.choice([0, 0, 1]))]

        def made() -> None:
            for client in clients[1:]:
                client.start()

        keeper.on_made = made
        return clients

    def _make_publishing_clients(self, random: Random) -> list[Client]:
        watch = self.watch.publishing = PublishingWatch(self.timeline.count)
        return make_publishing(self.timeline, self, self.history, watch, random.choice([1, 2, 3]))

    def _fault_later(self) -> None:
        low, high = FAULT_EVERY_MS
        delay = self._fault_random.randrange(low, high) * MILLISECOND
        self.timeline.after(delay, self._strike)

    def _strike(self) -> None:
        if self.timeline.now >= SAFETY_US - 2 * SECOND:
            return
        name = self._fault_random.choice(self.faults)
        FAULTS[name](self, self._fault_random)
        self._fault_later()

    def _drain_queue(self) -> None:
        """All there is left to do in the queue gets done."""
        queue = self.watch.queue
        if queue is None or queue.model is None:
            return  # Perhaps it was never even made.
        keeper = self.queue_clients[0]
        assert isinstance(keeper, Keeper)
        keeper.finish()
        self._await(QUIET_WITHIN_US, "the queue to work", self._quiet)
        drainer = Drainer("dr", self.timeline, self, self.history, queue)
        self.clients.append(drainer)
        drainer.start()
        self._await(QUIET_WITHIN_US, "the queue to be empty", lambda: drainer.done)
        drainer.stopping = True
        self._await(QUIET_WITHIN_US, "the last worker's end", self._quiet)
        queue.check_final()

    def _finish_publishing(self) -> None:
        """Everything that is decided is carried out."""
        watch = self.watch.publishing
        if watch is None or not watch.told:
            return  # Perhaps nothing was ever published.
        founder = self.publishing_clients[0]
        assert isinstance(founder, PublishingFounder)
        founder.finish()
        self._await(QUIET_WITHIN_US, "the last publications", lambda: founder.done)
        watch.check_final()

    def _heal_later(self) -> None:
        delay = self._fault_random.choice([200, 1_500, 4_000, 10_000]) * MILLISECOND
        self.timeline.after(delay, self.network.heal)

    def _heal_everything(self) -> None:
        self.timeline.line("run", "all faults end")
        self.weather.calm()
        self.network.heal()
        for node in self.nodes:
            node.pace.calm()
            node.disk.forget_faults()
            node.disk.capacity_bytes = UNLIMITED_BYTES
            if node.paused:
                node.resume()
        if self.watch.queue is not None:
            # Clocks agree again, and are not behind what one that was wrong has written: else
            # leases would last until they have caught up.
            latest_ms = max(node.clock.wall_ms() for node in self.nodes)
            latest_ms = max(latest_ms, self.watch.queue.time_ms)
            for node in self.nodes:
                node.clock.offset_ms += latest_ms - node.clock.wall_ms()

    def _await(self, within: int, what: str, condition: Callable[[], bool]) -> None:
        end = self.timeline.now + within
        while not condition():
            if self.timeline.now >= end:
                raise broken("Liveness", f"waited {within // SECOND} s in vain for {what}")
            self.timeline.run_until(self.timeline.now + 100 * MILLISECOND, self.watch.check)

    def _quiet(self) -> bool:
        return all(client.idle for client in self.clients)

    def _agreed(self) -> bool:
        leader = self.leader()
        if leader is None or leader.replica is None:
            return False
        raft = leader.replica.raft
        if raft.commit < raft.last_index:
            return False
        for number in raft.membership.everyone():
            replica = self.nodes[number - 1].replica
            if replica is None or replica.halted is not None or replica.raft.damaged:
                return False
            if replica.applied_index != raft.commit:
                return False
        return True

    def _agree_and_drain(self) -> bool:
        """False: reading everything came upon damage that had slept; it must be repaired first."""
        self._await(QUIET_WITHIN_US, "all replicas to agree", self._agreed)
        leader = self.leader()
        assert leader is not None
        assert leader.replica is not None
        self.watch.check_converged(leader.replica.raft.membership)
        self._check_queue(leader.replica.raft.membership)
        try:
            self._drain(leader.replica)
        except DamagedFile as damage:
            self.timeline.line("run", f"reading found: {damage}")
            return False
        return True

    def _check_queue(self, membership: Membership) -> None:
        """Every member says of every message what the log says."""
        queue = self.watch.queue
        for number in membership.everyone() if queue is not None else ():
            replica = self.nodes[number - 1].replica
            assert replica is not None
            machine = replica.machine
            assert isinstance(machine, ShardMachine)
            assert queue is not None
            queue.compare_state(f"n{number}", machine)
            queue.check_conserved(f"n{number}", machine)

    def _drain(self, leader: Replica) -> None:
        """Read everything, on every member: nothing acknowledged may be missing anywhere."""
        for number in leader.raft.membership.everyone():
            replica = self.nodes[number - 1].replica
            assert replica is not None
            for partition in self.history.partitions:
                self._drain_partition(replica, partition)

    def _drain_partition(self, replica: Replica, number: int) -> None:
        acked_end = self.history.partition(number).acked_end
        if not acked_end:
            return  # Perhaps it was never even created.
        bounds = replica.machine.bounds(PartitionId(number))
        self.history.saw_bounds(number, bounds.log_start, bounds.high_watermark, acked_end)
        offset: int = bounds.log_start
        seen: dict[int, bytes] = {}
        while offset < bounds.high_watermark:
            data = replica.fetch(PartitionId(number), Offset(offset), 64 * 1024)
            if not data:
                raise broken("Readable", f"n{replica.node} cannot read {number}@{offset}")
            offset = self.history.saw_bytes(number, data, offset, seen)
        self.history.check_final(number, bounds.log_start, seen)
