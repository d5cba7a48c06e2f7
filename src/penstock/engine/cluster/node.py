"""One node of a cluster: it combines the directory, the shards and the links, and runs them.

    data directory      node                  who this node is (see `node_file`)
                        lock                  held while the node runs
                        shard-0 shard-1 …     one log each (see `storage`)

                        cluster-key           what proves that it belongs to its cluster (`keyring`)

Order of start: lock the directory; listen to peers; found or join a cluster if the directory is
new; open the shards; tick. Order of stop: hand leadership over; stop looking after things; close
the shards, which finish what they are writing; close the links.

Where a peer is: what this node was started with counts, then what the catalog says.

A node that is alone listens to no peers: its port is opened when a second node is added. A node
without a peer port, as an engine inside another program is, can only be alone; the directory of a
larger cluster is refused.

Long because here all parts of a node meet, and are started and stopped in order.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

import msgspec

from penstock.core.clock import Clock, SystemClock
from penstock.core.entries import Membership
from penstock.core.errors import (
    InvalidRequest,
    LocalError,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownNode,
)
from penstock.core.memory_budget import MemoryBudget
from penstock.core.retries import POLL, Retrier
from penstock.core.types import CATALOG_SHARD, NO_NODE, NodeId, PartitionId, ShardId, Term
from penstock.core.version import __version__
from penstock.engine.cluster.administration import Cluster
from penstock.engine.cluster.backups.cut import Cuts
from penstock.engine.cluster.call_table import serve_calls
from penstock.engine.cluster.directory_lock import hold_directory
from penstock.engine.cluster.founding import (
    INTRODUCE,
    Introduction,
    Welcome,
    find_cluster,
    found_alone,
)
from penstock.engine.cluster.keys.key_distribution import KeyDistribution
from penstock.engine.cluster.keys.key_store import Keyring
from penstock.engine.cluster.node_checks import check_cluster, is_founder, is_member, not_alone
from penstock.engine.cluster.node_file import NodeFile, check_node, load_node_file, store_node_file
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.cluster.placement import found, founding_members
from penstock.engine.cluster.status import NodeHealth
from penstock.engine.cluster.stewardship import Stewardship
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.engine import Engine
from penstock.engine.groups.coordinator import Coordinator
from penstock.engine.groups.groups import Groups
from penstock.engine.groups.lag import Lag
from penstock.engine.inspection.audit import Audit
from penstock.engine.inspection.delivery_counters import DeliveryCounters
from penstock.engine.inspection.events import Events
from penstock.engine.inspection.limited_log import LimitedLog
from penstock.engine.inspection.log_queries import LogQueries
from penstock.engine.inspection.pipeline_reports import PipelineReports
from penstock.engine.inspection.queue_survey import QueueSurvey
from penstock.engine.inspection.sampler import Sampler
from penstock.engine.inspection.traces.trace import Traces
from penstock.engine.inspection.worker_survey import WorkerSurvey
from penstock.engine.moves.dead_letters import DeadLetters
from penstock.engine.moves.message_copier import MessageCopier
from penstock.engine.moves.moves import Moves
from penstock.engine.peers.calls import UNREADABLE, RemoteCalls
from penstock.engine.peers.exchange import Caller
from penstock.engine.peers.forwarder import Forwarder
from penstock.engine.peers.frames import QUEUES_2, LinkIdentity
from penstock.engine.peers.leaders import Leader, Leaders, encode_notice
from penstock.engine.peers.links import Links, LinkStatistics
from penstock.engine.peers.message_check import check_jump
from penstock.engine.replica.local_shards import LocalShards, ShardHooks
from penstock.engine.replica.network import PeerMessage
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.publications import Publications
from penstock.engine.topics.topics import Topics
from penstock.machines.catalog import NodeRecord
from penstock.machines.catalog_commands import RegisterNode
from penstock.machines.machine import Effect, WakeReaders
from penstock.storage import Disk, Lock, RealDisk

logger = logging.getLogger("penstock.peers")

LEADS_NOTICE = "leads"
NOTICE_TICKS = 10
PLACES_TICKS = 10
HAND_OVER_SECONDS = 3.0
FIRST_ELECTION_SECONDS = 3.0
REMOVED_TICKS = 50
NOWHERE = "localhost:1"
"""The address in the catalog of a node that has no peer port: nothing listens there. The node
registers its own address when it is started with a port."""


class Node:
    """A running node; make one with `await Node.open(...)`."""

    def __init__(
        self,
        settings: NodeSettings,
        lock: Lock,
        *,
        clock: Clock,
        disk: Disk,
        announce: Callable[[str], None],
        memory: MemoryBudget,
    ) -> None:
        self.memory = memory
        """The memory budget of all connections of this node, from clients and peers."""
        self._loop = asyncio.get_running_loop()
        self._settings = settings
        self._lock = lock
        self._clock = clock
        self._retrier = Retrier(
            now=lambda: clock.monotonic_ms() / 1_000,
            random=random.SystemRandom(),
            sleep=asyncio.sleep,
        )
        self._disk = disk
        self.events = Events(settings.node_id, clock)
        self._announce = announce = self.events.overheard(announce)
        self._file: NodeFile | None = None
        self.failed: asyncio.Future[PenstockError] = self._loop.create_future()
        """Done when the node cannot go on, with the reason."""
        self.peer_address = ""
        complaints = LimitedLog(logger, clock, "connections of strangers")
        self._links = Links(
            LinkIdentity("", settings.node_id, "", __version__),
            on_message=self._receive,
            on_request=self._answer,
            on_notice=self._take_notice,
            on_change=self._link_changed,
            announce=announce,
            complain=lambda line: complaints.note(f"node {settings.node_id} {line}"),
            is_member=self._is_member,
            memory=memory,
            dialled_networks=settings.dialled_networks,
        )
        self._keyring = Keyring(disk, settings.data, settings.cluster_key_file, announce)
        self._listening = asyncio.Lock()
        self._listens = False
        self._registered: RegisterNode | None = None
        self.calls = RemoteCalls(settings.node_id, self._links, self._leader_of)
        self.calls.serve(INTRODUCE, self._welcome)  # A founder is asked before it has any shard.
        self.events.calls = self.calls
        self._leaders = Leaders()
        self._peers: dict[NodeId, str] = {}
        self._peers_revision = -1
        self._ticks = 0
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._moving = False
        self._assembled = False
        self.notices: dict[str, Callable[[bytes], None]] = {}
        """The receivers of notices from other nodes, besides those about leaders."""

    @classmethod
    async def open(
        cls,
        settings: NodeSettings,
        *,
        clock: Clock | None = None,
        disk: Disk | None = None,
        announce: Callable[[str], None] = lambda _line: None,
        memory: MemoryBudget | None = None,
    ) -> "Node":
        """Start the node; waits for the other founders if it has a cluster to found. Its ports
        share the `memory` budget.

        Raises `DirectoryRefused` and what opening a log raises."""
        check_cluster(settings.node_id, settings.cluster, settings.peer_port)
        disk = disk or RealDisk()
        await asyncio.to_thread(disk.make_directory, settings.data)
        lock = hold_directory(disk, settings.data)
        node = cls(
            settings,
            lock,
            clock=clock or SystemClock(),
            disk=disk,
            announce=announce,
            memory=memory or MemoryBudget(),
        )
        try:
            await node._start()
        except BaseException:
            await node._give_up()
            raise
        return node

    async def _start(self) -> None:
        settings, disk = self._settings, self._disk
        self.peer_address = NOWHERE
        if settings.peer_port:
            self.peer_address = _joined(settings.peer_host, settings.peer_port)
        file = load_node_file(disk, settings.data)
        if file is None:
            file = NodeFile(node=settings.node_id, incarnation=secrets.token_hex(8))
        check_node(file, settings.node_id, settings.data)
        self._file = file
        founds_alone = not file.cluster_id and len(settings.cluster) <= 1
        if settings.peer_port is not None:
            self._keyring.open(file, alone=founds_alone)
            self._links.set_keys(self._keyring.keys, required=self._keyring.required)
        self._identify(file)
        if not founds_alone and file.founders.keys() != {file.node}:
            if settings.peer_port is None:
                raise not_alone(settings.data)
            await self._listen()
        if not file.cluster_id:
            found_file = await self._find_cluster(file)
            file = msgspec.structs.replace(found_file, keyed=self._keyring.required)
            store_node_file(disk, settings.data, file)
            self._file = file
            self._identify(file)
        self._assemble(file)
        # What is on disk, and what this node founds; the catalog tells of more later.
        here = {*self._shards.on_disk(), CATALOG_SHARD}
        every = [ShardId(number) for number in range(file.shards + 1)]
        here |= {one for one in every if file.node in self._founders_of(one).everyone()}
        outcomes = await asyncio.gather(
            *(self._shards.open(one, self._founders_of(one)) for one in sorted(here)),
            return_exceptions=True,
        )
        for outcome in outcomes:
            if outcome is not None:
                raise outcome
        self._set_peers()
        if self._peers or any(map(self._has_others, self._shards)):
            await self._listen()
        self._tick()
        if len(file.founders) > 1:
            self._spawn(self._stand_first(file))

    def _identify(self, file: NodeFile) -> None:
        self._links.set_identity(
            LinkIdentity(file.cluster_id, file.node, file.incarnation, __version__)
        )

    async def _listen(self) -> None:
        """Open the peer port, if it is not open yet; raises if that cannot be done."""
        settings = self._settings
        async with self._listening:
            if self._listens:
                return
            if settings.peer_port is None:
                raise InvalidRequest(
                    "this node has no peer port, so no other can join it; open the directory with"
                    " `penstock serve`"
                )
            self.peer_address = _joined(
                *await self._links.start(settings.peer_host, settings.peer_port)
            )
            self._listens = True
            if self._registered is not None:  # With an address that cannot be dialled.
                await self.register(kafka=self._registered.kafka, http=self._registered.http)

    async def _listen_late(self) -> None:
        """The catalog tells of others only now that it is led."""
        try:
            await self._listen()
        except PenstockError as error:
            self._fail(error)

    def _has_others(self, shard: ShardId) -> bool:
        """Whether other nodes take part in a shard that is here. Its log says so also where the
        catalog cannot yet, because what follows its snapshot is applied when a leader is known."""
        raft = self._shards.raft(shard)
        members = raft.membership.everyone() if raft is not None else ()
        return any(node != self._settings.node_id for node in members)

    async def _give_up(self) -> None:
        """The start failed: let go of what it had got hold of."""
        if self._assembled:
            await self._shards.close()
        await self._links.close()
        self._lock.release()

    async def _stand_first(self, file: NodeFile) -> None:
        """A new cluster need not wait for an election timeout: the preferred leaders stand at
        once."""
        retries = self._retrier.within(FIRST_ELECTION_SECONDS, POLL)
        while len(self.topics.alive()) < len(file.founders):
            if not await retries.pause():
                return
        placement = found(file.shards, file.founders)
        for shard in self._shards:
            running = self._shards.get(shard)
            first = placement.get(shard, (min(file.founders),))[0]
            if running is not None and first == file.node:
                raft = running.replica.raft
                if raft.last_index == 0 and raft.leader == NO_NODE:
                    running.replica.campaign()

    async def _find_cluster(self, new: NodeFile) -> NodeFile:
        settings = self._settings
        if len(settings.cluster) <= 1:
            return found_alone(new, settings.shards)
        # The others learn this incarnation: after a crash it must be the same.
        store_node_file(self._disk, settings.data, new)
        self._links.set_peers(settings.cluster)
        return await find_cluster(
            new, settings.shards, settings.cluster, self.calls, self._retrier, self._announce
        )

    def _assemble(self, file: NodeFile) -> None:
        settings = self._settings
        self._shards = LocalShards(
            settings.data,
            cluster_id=file.cluster_id,
            node=file.node,
            network=self._links.network,
            clock=self._clock,
            retrier=self._retrier,
            disk=self._disk,
            log=settings.log,
            history_bytes=settings.history_bytes,
            state_bytes_max=settings.state_bytes_max,
            hooks=ShardHooks(
                on_opened=self._shard_opened,
                on_effect=self._shard_effect,
                on_leadership=self._shard_leadership,
                on_failed=self._fail,
                announce=self._announce,
            ),
        )
        forwarder = Forwarder(self._shards, self.calls, self._retrier, self._leader_of)
        self.topics = Topics(
            file.node,
            file.cluster_id,
            file.shards,
            shards=self._shards,
            leaders=self._leaders,
            forwarder=forwarder,
            calls=self.calls,
            alive=lambda: self._links.members() | {file.node},
            clock=self._clock,
            retrier=self._retrier,
            settings=settings.engine,
            directory=settings.data,
        )
        self._assemble_services(forwarder)
        founders = {
            node: NodeRecord(node, self._own_or_listed(node), incarnation=incarnation)
            for node, incarnation in file.founders.items()
        }
        self._stewardship = Stewardship(
            self.topics,
            self.groups,
            self.cluster,
            self._shards,
            founders,
            self._announce,
            lambda: self._links.members_saying(QUEUES_2),
        )
        self._assembled = True
        self._serve_calls(forwarder)

    def _serve_calls(self, forwarder: Forwarder) -> None:
        serve_calls(
            self.calls,
            forwarder=forwarder,
            cluster=self.cluster,
            cuts=self.cuts,
            catalog_versions=self.topics.catalog_versions,
            publications=self.publications,
            delivery=self.delivery,
            moves=self.moves,
            lag=self.lag,
            survey=self.survey,
            log_queries=self.log_queries,
            traces=self.traces,
            sampler=self.sampler,
            events=self.events,
            audit=self.audit,
            pipeline_reports=self.pipeline_reports,
            workers=self.workers,
            keys=self.keys,
        )

    def _assemble_services(self, forwarder: Forwarder) -> None:
        shards, calls, topics = self._shards, self.calls, self.topics
        self.survey = QueueSurvey(topics, shards, calls)
        self.delivery = DeliveryService(topics, forwarder, calls, self._clock, self.survey.places)
        self.groups = Groups(
            topics, shards, self._clock, self._settings.groups, topics.catalog_versions
        )
        self.delivery_counters = DeliveryCounters(
            self._topic_of, lambda name: topics.catalog.topic(name) is not None
        )
        self.cluster = Cluster(topics, shards, calls, self._listen)
        self.keys = KeyDistribution(
            self._keyring,
            self._links,
            calls,
            topics,
            leads_catalog=lambda: shards.leads(CATALOG_SHARD),
            on_required=self._require_key,
            spawn=self._spawn,
            announce=self._announce,
        )
        self.lag = Lag(topics, self.groups, shards, calls)
        self.cuts = Cuts(topics, shards, calls, self._clock)
        self.log_queries = LogQueries(topics, shards, calls, self.lag, forwarder)
        self.sampler = Sampler(topics, self.groups, shards, calls, self.delivery, self.lag)
        self.pipeline_reports = PipelineReports(topics, shards, calls)
        self.workers = WorkerSurvey(topics, shards, calls)
        self.audit = Audit(topics, self.delivery, shards, calls, self._spawn)
        copier = MessageCopier(topics, self.delivery, forwarder.change)
        self._dead_letters = DeadLetters(topics, shards, self.delivery, copier, self._announce)
        self.moves = Moves(
            topics,
            self.delivery,
            self.survey.places,
            shards,
            calls,
            copier,
            forwarder.change,
            self._announce,
        )
        self.traces = Traces(topics, self.survey, self.moves, shards, calls)
        self.publications = Publications(topics, shards, calls, self._announce)
        self.engine = Engine(
            topics=topics,
            delivery=self.delivery,
            groups=self.groups,
            moves=self.moves,
            publications=self.publications,
            survey=self.survey,
        )

    def _founders_of(self, shard: ShardId) -> Membership:
        assert self._file is not None, "the node does not know its cluster yet"
        if not self._file.founders:
            return Membership()
        return founding_members(shard, self._file.shards, self._file.founders)

    def _leader_of(self, shard: ShardId) -> Leader:
        return self.topics.leader(shard)

    def _topic_of(self, partition: PartitionId) -> str:
        catalog = self._shards.get(CATALOG_SHARD)
        owner = None if catalog is None else catalog.machine.catalog.owner(partition)
        return "" if owner is None else owner[0].name

    def _own_or_listed(self, node: NodeId) -> str:
        return self._settings.cluster.get(node) or self.peer_address

    # Life.

    async def register(self, *, kafka: str, http: str) -> None:
        """Tell the cluster where this node is to be found; tried until it is taken."""
        assert self._file is not None, "the node does not know its cluster yet"
        self._registered = RegisterNode(
            node=self._file.node,
            peer=self._own_or_listed(self._file.node),
            kafka=kafka,
            http=http,
            incarnation=self._file.incarnation,
            rack=self._settings.rack,
        )
        self._spawn(self._register(self._registered))

    async def _register(self, command: RegisterNode) -> None:
        retries = self._retrier.endless(POLL)
        while True:
            try:
                await self.topics.change_catalog(command)
            except (Unavailable, OutcomeUnknown) as error:
                await retries.pause(error)
            except LocalError as refusal:
                if self.topics.catalog.shards:
                    self._fail(refusal)
                    return
                await retries.pause()  # The catalog is being founded.
            else:
                return

    @property
    def shards(self) -> LocalShards:
        """The shards that this node holds."""
        return self._shards

    def link_statistics(self) -> LinkStatistics:
        """The statistics of the links to other nodes."""
        return self._links.statistics()

    def health(self) -> NodeHealth:
        return self.cluster.health()

    async def hand_over(self) -> None:
        """Let others lead what this node leads, as far as another node can."""
        await self._stewardship.close()
        if len(self.topics.alive()) > 1:
            await self.cluster.hand_over_everything(HAND_OVER_SECONDS)

    async def close(self) -> None:
        """Stop in good order; `hand_over` first, unless the others should notice by themselves."""
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await self._stewardship.close()
        for coordinator in self.groups.coordinators.values():
            await coordinator.close()
        await self.moves.close()
        await self.publications.close()
        await self._dead_letters.close()
        await self.delivery.shut()
        self.topics.close()
        await self._close_shards()
        await self._links.close()
        self._lock.release()

    def abandon(self) -> None:
        """Release the directory without a shutdown, as a crash would. For a node whose loop has
        ended: nothing can be awaited on it, and what was acknowledged is safe."""
        self._shards.abandon()
        self._lock.release()

    async def _close_shards(self) -> None:
        """Time goes on meanwhile: who waits for a majority that is gone must notice."""
        closing = asyncio.create_task(self._shards.close())
        while not closing.done():
            self._shards.tick()
            await asyncio.wait([closing], timeout=self._settings.tick_ms / 1_000)
        await closing

    def look_after_now(self) -> None:
        """Do the periodic work now, as the next tick would: the clock was moved, or a test cannot
        wait. Raft's own time passes no faster by that: on a slow disk an election would be over
        before its vote is written, again and again, and never be won."""
        assert len(self.topics.alive()) == 1, "the others' time passes more slowly"
        self._look_after()
        self.topics.waiting.clock_moved()

    def _tick(self) -> None:
        self._timer = self._loop.call_later(self._settings.tick_ms / 1_000, self._tick)
        self._shards.tick()
        self._look_after()

    def _look_after(self) -> None:
        self._ticks += 1
        for coordinator in self.groups.led_coordinators():
            coordinator.tick()
        self.groups.share.tick()
        if self._shards.get(CATALOG_SHARD) is None:
            return  # Its replica has halted and is opened again; the rest needs the catalog.
        self._stewardship.tick()
        self._dead_letters.tick()
        self.moves.tick()
        self.publications.tick()
        if self._settings.peer_port is not None:
            self.keys.tick()
        if self.topics.catalog.revision != self._peers_revision:
            self._set_peers()
        if self._ticks % NOTICE_TICKS == 0:
            self._links.review_members()
            self._tell_what_is_led()
        if self._ticks % PLACES_TICKS == 0 and not self._moving:
            self._moving = True
            self._spawn(self._follow_placement())

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _fail(self, error: PenstockError) -> None:
        if not self.failed.done():
            self.failed.set_result(error)

    def _set_peers(self) -> None:
        catalog = self.topics.catalog
        self._peers_revision = catalog.revision
        addresses = {node: record.peer for node, record in catalog.nodes.items()}
        if not catalog.shards:
            addresses = dict(self._settings.cluster)
        else:
            listed = self._settings.cluster
            addresses |= {node: listed[node] for node in addresses.keys() & listed.keys()}
        addresses.pop(self._settings.node_id, None)
        if addresses and self._settings.peer_port is None:
            self._fail(not_alone(self._settings.data))
        elif addresses != self._peers:
            self._peers = addresses
            self._links.set_peers(addresses, listed=set(self._settings.cluster.values()))
            if self._assembled and addresses and not self._listens:
                self._spawn(self._listen_late())
        self._links.review_members()

    async def _follow_placement(self) -> None:
        """Open shards that are placed here; drop those that have moved away."""
        try:
            if self._shards.leaderless_ticks(CATALOG_SHARD) >= REMOVED_TICKS:
                await self._ask_whether_removed()
            for shard, nodes in sorted(self.topics.catalog.placement.items()):
                placed = self.topics.node_id in nodes
                if placed and not self._shards.holds(shard):
                    await self._shards.open(shard, Membership())
                elif not placed and self._shards.holds(shard):
                    await self._drop_if_gone(shard)
        except PenstockError as error:
            self._announce(f"cannot follow the placement of shards: {error}")
        finally:
            self._moving = False

    async def _ask_whether_removed(self) -> None:
        """A removed node gets no message that says so: it only finds that no leader contacts it."""
        assert self._file is not None, "the node does not know its cluster yet"
        me = Introduction(
            node=self._file.node,
            incarnation=self._file.incarnation,
            shards=self._file.shards,
            cluster=(),
        )
        for node in sorted(self._links.connected()):
            welcome = await self.calls.ask_node(node, INTRODUCE, me)
            if welcome.confirmed and not welcome.known:
                self._fail(
                    UnknownNode(
                        f"node {me.node} was removed from the cluster, and its id is not used"
                        " again; to bring this machine back, empty its data directory and add it"
                        " under a new --node-id"
                    )
                )
                return

    async def _drop_if_gone(self, shard: ShardId) -> None:
        """Only when the shard's leader does not count this node any more."""
        if self.topics.leader(shard).node in (NO_NODE, self.topics.node_id):
            return
        status = await self.cluster.shard(shard)
        if status.leads_here and self.topics.node_id not in status.voters + status.learners:
            if status.leader != self.topics.node_id:
                await self._shards.drop(shard)
                self._announce(f"shard {shard} has moved away; its files are removed")

    # Shards.

    def _shard_opened(self, shard: ShardId, running: Shard) -> None:
        before = self.groups.coordinators.get(shard)
        if before is not None:
            self._spawn(before.close())
        self.groups.coordinators[shard] = Coordinator(
            running.machine.groups, running.change, self._clock, self._settings.groups
        )

    def _shard_effect(self, shard: ShardId, effect: Effect) -> None:
        if type(effect) is WakeReaders:
            self.topics.waiting.wake(effect.partition)
        else:
            self.groups.coordinators[shard].on_effect(effect)

    def _shard_leadership(self, shard: ShardId, leads: bool) -> None:
        running = self._shards.get(shard)
        if running is not None:
            self.delivery_counters.leadership(shard, running.machine.queues, leads)
        self.groups.coordinators[shard].leadership(leads)
        self.topics.waiting.wake_all()
        if leads:
            self._tell_what_is_led()
            if shard == CATALOG_SHARD:
                self._stewardship.lead_catalog()

    # Peers.

    def _receive(self, shard: ShardId, message: PeerMessage) -> None:
        raft = self._shards.raft(shard)
        if raft is not None:
            check_jump(message, raft.term)
            self._shards.receive(shard, message)

    def _link_changed(self, node: NodeId, connected: bool) -> None:
        if connected and self._file is not None and self._file.cluster_id:
            self._tell(node, self._led())

    def _led(self) -> list[tuple[ShardId, Term]]:
        led = [(shard, self._shards.get(shard)) for shard in self._shards]
        return [
            (shard, running.replica.raft.term)
            for shard, running in led
            if running is not None and running.replica.leads
        ]

    def _tell_what_is_led(self) -> None:
        led = self._led()
        for node in self._links.members():
            self._tell(node, led)

    def _tell(self, node: NodeId, led: list[tuple[ShardId, Term]]) -> None:
        self._links.notify(node, LEADS_NOTICE, encode_notice(led))

    def notify_all(self, method: str, body: bytes) -> None:
        """Send a notice to every connected node. Nodes that do not know it ignore it."""
        for node in self._links.members():
            self._links.notify(node, method, body)

    def _take_notice(self, source: NodeId, method: str, body: bytes) -> None:
        try:
            if method == LEADS_NOTICE:
                self._leaders.take_notice(source, body)
            elif method in self.notices:
                self.notices[method](body)
        except UNREADABLE as error:
            self._announce(f"node {source} sent a notice that cannot be read: {error}")

    def _answer(self, caller: Caller, name: str, body: bytes) -> Awaitable[bytes]:
        return self.calls.answer(caller, name, body)

    def _require_key(self) -> None:
        assert self._file is not None, "the node does not know its cluster yet"
        self._file = self._keyring.require(self._file)

    def _is_member(self, identity: LinkIdentity) -> bool:
        """Whether who says this, and has proven it, is a member of this node's cluster."""
        founders = self._file.founders if self._file is not None else {}
        raft = self._shards.raft(CATALOG_SHARD) if self._assembled else None
        if raft is None or not self.topics.catalog.shards:
            return is_founder(identity.node, identity.incarnation, founders)
        return is_member(identity.node, identity.incarnation, self.topics.catalog, raft.leader)

    async def _welcome(self, asked: Introduction) -> Welcome:
        """Answer a node that introduces itself."""
        settings, file = self._settings, self._file
        if file is None:
            raise Unavailable("this node is just starting")
        if not file.cluster_id:
            listed = dict.fromkeys(settings.cluster, "") | {file.node: file.incarnation}
            return Welcome(shards=settings.shards, founders=listed)
        welcome = Welcome(cluster_id=file.cluster_id, shards=file.shards, founders=file.founders)
        running = self._shards.get(CATALOG_SHARD)
        if running is None:
            return msgspec.structs.replace(welcome, unwritten=False)
        if running.replica.leads and self.topics.catalog.shards:
            await running.wait_current()
            record = self.topics.catalog.nodes.get(asked.node)
            return msgspec.structs.replace(
                welcome,
                unwritten=False,
                confirmed=True,
                known=record is not None,
                incarnation=record.incarnation if record else "",
            )
        leader = self.topics.leader(CATALOG_SHARD).node
        if leader not in (NO_NODE, self.topics.node_id):
            return await self.calls.ask_node(leader, INTRODUCE, asked)
        return msgspec.structs.replace(welcome, unwritten=running.replica.raft.last_index == 0)


def _joined(host: str, port: int) -> str:
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
