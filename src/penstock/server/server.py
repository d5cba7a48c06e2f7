"""One broker process: the order in which its parts start, and how it ends.

    start   the ports are tried; HTTP's is taken, and answers there (alive, not ready);
            the node opens its shards and finds its cluster, which may take as long as the
            others take; the Kafka port is taken and the cluster told of it; when the node can
            serve, clients are let in, and it says so
    stop    not ready any more; leadership goes to others, shard by shard, each when the requests
            under way in it are answered; the Kafka port, which told clients where to go meanwhile,
            and SQS's server finish what is left, for a bounded time; shards are closed; HTTP last,
            so that a probe sees "stopping" and not silence

A first SIGTERM or SIGINT asks for a stop, a second one ends the process at once: everything that
was acknowledged is on disk, so that is safe, only slower to start from. When the node cannot go on,
the reason is raised out of `run` and becomes the process's last line.

A server may also be a guest in another program, as in the tests of one: then signals, the limit of
open files and the collector of garbage are that program's, and the disk and the clock may be too.
"""

import asyncio
import contextlib
import gc
import logging
import math
import os
import signal
import socket
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import msgspec

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import LocalError, PenstockError
from penstock.core.extras import require
from penstock.core.front_end import FrontEndStatistics
from penstock.core.memory_budget import MemoryBudget
from penstock.core.retries import POLL
from penstock.core.types import NodeId
from penstock.engine.cluster.movable_clock import ClockMover
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.replica.loop_watchdog import LoopWatchdog
from penstock.engine.topics.topics import EngineSettings
from penstock.kafka.listener import KafkaListener
from penstock.kafka.port_state import KafkaSettings
from penstock.native.listener import NativeConnections
from penstock.native.service import Service
from penstock.server.checks import advertised
from penstock.server.config import Config
from penstock.server.http_port import PACKAGES, PATIENCE_SECONDS, HttpPort
from penstock.server.logs import event_fields
from penstock.server.notation import Address
from penstock.server.ports import check_free, is_about_place, refusal
from penstock.server.process import (
    check_asserts,
    make_data_directory,
    raise_open_files_limit,
    release_freed_memory,
)
from penstock.server.ready_file import (
    remove_old_ready_file,
    remove_ready_file,
    write_ready_file,
)
from penstock.server.sources import LoadedConfig
from penstock.storage import Disk, LogSettings, RealDisk
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings
from penstock.web.broker import Phase, SettingRow

if TYPE_CHECKING:
    from penstock.server.http_front import HttpFront
    from penstock.watch.watch import Watch

FILES_BESIDES_CONNECTIONS = 512
STOP_SIGNALS = (signal.SIGTERM, signal.SIGINT)
CLOSE_SECONDS_MAX = 30.0
"""Besides the grace for requests: to hand over, to finish writing, to snapshot."""
WATCH_FOLDER = "watch"
"""Below the data directory: what the charts go back to."""

logger = logging.getLogger("penstock.server")


class Places(msgspec.Struct, frozen=True, kw_only=True):
    """The addresses of a broker that is ready; also the content of the ready file."""

    node: NodeId
    pid: int
    data: str
    kafka: str
    http: str
    peer: str
    sqs: str = ""
    """A URL; nothing if SQS is not served."""

    def describe(self) -> str:
        """Format the addresses for the log."""
        sqs = f" sqs={self.sqs}" if self.sqs else ""
        return f"kafka={self.kafka} http={self.http} peer={self.peer}{sqs}"


class Server:
    """A broker; `await run()` returns when it was asked to stop and has stopped."""

    def __init__(
        self,
        loaded: LoadedConfig,
        *,
        on_ready: Callable[[Places], None] = lambda _places: None,
        guest: bool = False,
        disk: Disk | None = None,
        clock: Clock | None = None,
    ) -> None:
        """A `disk` is used in place of the real one; a `clock` that is moved needs a node that is
        alone."""
        assert loaded.config.broker.data is not None, "a broker needs a directory"
        self._guest = guest
        self._disk = disk
        self._clock = clock or SystemClock()
        self._watchdog: LoopWatchdog | None = None
        self._time: ClockMover | None = None
        self._loaded = loaded
        self._config: Config = loaded.config
        self._on_ready = on_ready
        self._phase = Phase.STARTING
        self._waiting_for = "the log is being opened"
        self._stop = asyncio.Event()
        self._failed: asyncio.Future[PenstockError] = asyncio.get_running_loop().create_future()
        self._node: Node | None = None
        self._watch: Watch | None = None
        self._serving = False
        self._kafka: KafkaListener | None = None
        self._http_port: HttpPort | None = None
        self._http_coming: asyncio.Task[None] | None = None
        self._http: HttpFront | None = None
        self._native_listener: NativeConnections | None = None
        self._hosts: set[str] = set(self._config.web.hosts)
        limits = self._config.limits
        self.memory = MemoryBudget(
            max(limits.memory_bytes_max, limits.requests_held_bytes_max),
            connections_per_address_max=limits.connections_per_address_max,
            release=None if self._guest else release_freed_memory,
        )
        """The memory that the connections of all ports may hold together."""
        self._ready_file: str | None = None
        self._data = os.path.abspath(loaded.config.broker.data)

    # What HTTP asks.

    @property
    def config(self) -> Config:
        return self._config

    @property
    def phase(self) -> Phase:
        return self._phase

    @property
    def node(self) -> Node | None:
        return self._node

    @property
    def watch(self) -> "Watch | None":
        return self._watch

    def problems(self) -> list[str]:
        """Return the reasons why it does not serve."""
        if self._phase is Phase.STOPPING:
            return ["it is stopping"]
        if self._node is None:
            return [self._waiting_for]
        problems = list(self._node.health().problems)
        if self._phase is Phase.STARTING and not problems:
            problems = ["the ports are being opened"]
        return problems

    def warnings(self) -> list[str]:
        """Return the functions that are unavailable although it serves."""
        return [] if self._node is None else list(self._node.health().warnings)

    def settings(self) -> list[SettingRow]:
        return [
            SettingRow(name=entry.name, value=entry.written(value), source=str(source))
            for entry, value, source in self._loaded.rows()
        ]

    def hosts(self) -> set[str]:
        return self._hosts

    def front_ends(self) -> list[FrontEndStatistics]:
        """Return the statistics of each protocol that is served."""
        found: list[FrontEndStatistics] = []
        if self._kafka is not None:
            found.append(self._kafka.front_end())
        if self._native_listener is not None:
            found.append(self._native_listener.front_end())
        if self._http is not None:
            found += self._http.front_ends()
        return found

    @property
    def read_only(self) -> bool:
        return self._config.web.read_only

    # Life.

    async def run(self) -> None:
        """Serve until a signal, or `stop`, says so. Raises what makes it impossible to go on."""
        with contextlib.nullcontext() if self._guest else self._signals():
            try:
                await self._serve()
            finally:
                await self._close()

    def stop(self) -> None:
        """Ask for a stop in good order."""
        self._phase = Phase.STOPPING
        self._stop.set()

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        loop = asyncio.get_running_loop()
        for number in STOP_SIGNALS:
            loop.add_signal_handler(number, self._take_signal, number)
        try:
            yield
        finally:
            for number in STOP_SIGNALS:
                loop.remove_signal_handler(number)

    def _take_signal(self, number: signal.Signals) -> None:
        for each in STOP_SIGNALS:
            # The next one is the system's: it ends the process even if the loop hangs.
            asyncio.get_running_loop().remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)
        logger.info("%s: stopping", number.name)
        self.stop()

    async def _serve(self) -> None:
        require("server", "A broker", PACKAGES)
        self._check_ports()
        if self._loaded.file is not None:
            logger.info("settings are read from %s", self._loaded.file)
        self._warn_of_reach()
        if self._disk is None:
            check_asserts()
            make_data_directory(self._data)
        if not self._guest:
            self._make_room_for_files()
        starting = asyncio.create_task(self._start(), name="start")
        stopping = asyncio.create_task(self._stop.wait(), name="stop")
        try:
            await asyncio.wait(
                (starting, stopping, self._failed), return_when=asyncio.FIRST_COMPLETED
            )
            if starting.done():
                starting.result()
                await asyncio.wait((stopping, self._failed), return_when=asyncio.FIRST_COMPLETED)
            if self._failed.done():
                raise self._failed.result()
        finally:
            for task in (starting, stopping):
                task.cancel()
            await asyncio.wait((starting, stopping))

    def _make_room_for_files(self) -> None:
        room_for_files = raise_open_files_limit()
        connections_max = self._config.limits.connections_max
        if self._config.sqs.enabled:
            connections_max += self._config.sqs.connections_max
        if room_for_files < connections_max + FILES_BESIDES_CONNECTIONS:
            logger.warning(
                "this process may open %d files, which is too few for %d connections"
                " (limits.connections_max and sqs.connections_max); raise it with ulimit -n or"
                " LimitNOFILE=",
                room_for_files,
                connections_max,
            )

    def _check_ports(self) -> None:
        broker = self._config.broker
        for name, address in (
            ("kafka", broker.kafka), ("http", broker.http), ("peer", broker.peer)
        ):  # fmt: skip
            check_free(name, address)

    def _warn_of_reach(self) -> None:
        broker = self._config.broker
        for address in (broker.kafka, broker.http):
            if not address.is_loopback:
                logger.warning(
                    "insecure: every client that reaches %s may read and change everything", address
                )
        if not broker.peer.is_loopback:
            logger.warning(
                "insecure: what nodes say to each other at %s is not encrypted", broker.peer
            )

    async def _start(self) -> None:
        broker = self._config.broker
        if broker.ready_file is not None:
            remove_old_ready_file(broker.ready_file)
        http = await self._take_http()
        node = await self._open_node()
        kafka = await self._start_kafka(node)
        told_kafka = advertised(kafka, broker.advertise_kafka)
        told_http = advertised(http, broker.advertise_http, fallback=told_kafka)
        self._hosts |= {told_kafka.host, told_http.host, socket.gethostname()}
        await node.register(kafka=str(told_kafka), http=str(told_http))
        retries = node.topics.retrier.endless(POLL)
        while problem := _unready(node, str(told_kafka)):
            self._say_waiting(problem)
            await self._serve_readers(node)
            await retries.pause()
        for warning in node.health().warnings:
            logger.warning("%s; clients are served", warning)
        await self._let_clients_in()
        self._phase = Phase.SERVING
        self._freeze()
        places = Places(
            node=self._config.node,
            pid=os.getpid(),
            data=self._data,
            kafka=str(kafka),
            http=str(http),
            peer=node.peer_address,
            sqs=f"http://{http}" if self._config.sqs.enabled else "",
        )
        if broker.ready_file is not None:
            self._ready_file = broker.ready_file
            write_ready_file(broker.ready_file, places)
        logger.info("ready %s", places.describe())
        self._on_ready(places)
        assert self._http_port is not None, "the port was taken"
        self._http_port.want()

    def _freeze(self) -> None:
        """Exempt the existing objects from garbage collection: they stay until the process ends."""
        if not self._guest:
            gc.freeze()

    async def _serve_readers(self, node: Node) -> None:
        """Serve committed messages on a node that finds no majority, ready or not."""
        if not self._serving and node.health().read_only:
            logger.warning("no majority can be found: serving reads only until there is one")
            await self._let_clients_in()

    async def _let_clients_in(self) -> None:
        assert self._kafka is not None, "the port was reserved"
        if not self._serving:
            self._serving = True
            await self._kafka.serve()
            if self._config.sqs.enabled:
                logger.info("SQS requests are accepted without checking their signatures")
            self._follow_node()

    async def _take_http(self) -> Address:
        """Bind the port. It is served at the first connection, or when there is time."""
        wanted = self._config.broker.http
        try:
            port = await HttpPort.take(_number(wanted.host), wanted.port)
        except OSError as error:
            raise refusal("http", wanted, error) from error
        self._http_port = port
        self._http_coming = asyncio.create_task(self._serve_http(port), name="http")
        return port.address

    async def _serve_http(self, port: HttpPort) -> None:
        try:
            self._http = await port.serve(self)
        except Exception as error:
            logger.exception("what answers HTTP cannot be loaded; this is a bug of Penstock")
            if not self._failed.done():
                self._failed.set_result(LocalError(f"HTTP cannot be served: {error}"))
            return
        self._follow_node()
        if self._phase is Phase.SERVING:
            self._freeze()

    def _follow_node(self) -> None:
        """Whichever comes last, what answers HTTP or the node that is asked about: the watch begins
        when both are there, and SQS is served once the node serves."""
        if self._http is None or self._node is None:
            return
        if self._watch is None:
            self._watch = self._http.start_watch(
                self._node,
                alert_settings(self._config),
                RealDisk() if self._disk is None else self._disk,
                os.path.join(self._data, WATCH_FOLDER),
            )
        if self._serving:
            self._http.serve_sqs(self._node.engine)

    async def _start_kafka(self, node: Node) -> Address:
        wanted = self._config.broker.kafka
        limits = self._config.limits
        settings = KafkaSettings(
            request_bytes_max=limits.request_bytes_max,
            connections_max=limits.connections_max,
            connection_idle_ms=limits.connection_idle_ms,
            fetch_bytes_max=limits.fetch_bytes_max,
        )
        native_listener = self._native_listener = NativeConnections(
            Service(node), connection_idle_ms=limits.connection_idle_ms
        )
        listener = KafkaListener(
            node.engine,
            settings,
            cluster=node.cluster,
            native_listener=native_listener,
            memory=self.memory,
        )
        try:
            bound = await listener.reserve(_number(wanted.host), wanted.port)
        except OSError as error:
            raise refusal("kafka", wanted, error) from error
        self._kafka = listener
        return Address(*bound)

    async def _open_node(self) -> Node:
        peer = self._config.broker.peer
        try:
            node = await Node.open(
                node_settings(self._config),
                clock=self._clock,
                disk=self._disk,
                announce=self._announce,
                memory=self.memory,
            )
        except OSError as error:
            if is_about_place(error):
                raise refusal("peer", peer, error) from error
            raise
        self._node = node
        self._time = ClockMover(node, self._clock)
        if not self._guest:
            self._watchdog = LoopWatchdog(node.engine.topics.slow_requests.note_stall)
            self._watchdog.start()
        slow_ms = self._config.log.slow_request_ms
        node.engine.topics.slow_requests.seconds = slow_ms / 1_000 if slow_ms else math.inf
        self._follow_node()
        if self._http_port is not None:
            asyncio.get_running_loop().call_later(PATIENCE_SECONDS, self._http_port.want)
        node.failed.add_done_callback(self._note_failure)
        return node

    def _announce(self, line: str) -> None:
        node = self._config.broker.node_id
        logger.info("node %d %s", node, line, extra={"node": node, **event_fields(line)})
        if self._node is None:
            self._waiting_for = line

    def _say_waiting(self, problem: str) -> None:
        if problem != self._waiting_for:
            self._waiting_for = problem
            logger.info("not ready yet: %s", problem)

    def _note_failure(self, failed: "asyncio.Future[PenstockError]") -> None:
        if not failed.cancelled() and not self._failed.done():
            self._failed.set_result(failed.result())

    async def _close(self) -> None:
        self._phase = Phase.STOPPING
        if self._watchdog is not None:
            self._watchdog.stop()
        if self._http_coming is not None:
            self._http_coming.cancel()
            await asyncio.wait((self._http_coming,))
        if self._ready_file is not None:
            remove_ready_file(self._ready_file)
        grace_seconds = self._config.limits.stop_grace_ms / 1_000
        try:
            async with asyncio.timeout(grace_seconds + CLOSE_SECONDS_MAX):
                if self._watch is not None:
                    await self._watch.close()
                if self._node is not None and not self._failed.done():
                    await self._node.hand_over()
                async with asyncio.TaskGroup() as closing:
                    if self._kafka is not None:
                        closing.create_task(self._kafka.close(grace_seconds))
                    if self._http is not None:
                        closing.create_task(self._http.close_sqs(grace_seconds))
                if self._time is not None:
                    await self._time.close()
                if self._node is not None:
                    await self._node.close()
        except TimeoutError:
            logger.warning("stopping took too long; what is left is abandoned, nothing is lost")
        if self._http is not None:
            await self._http.close()
        elif self._http_port is not None:
            self._http_port.close()
        logger.info("stopped")


def _unready(node: Node, kafka: str) -> str:
    """Why clients cannot be served yet; nothing if they can."""
    problems = node.health().problems
    if problems:
        return problems[0]
    record = node.engine.topics.node(node.engine.topics.node_id)
    if record is None or record.kafka != kafka:
        return "the cluster does not know yet where this node is"
    return ""


def node_settings(config: Config) -> NodeSettings:
    """The part of the configuration that concerns the node."""
    broker, storage, groups = config.broker, config.storage, config.groups
    cluster = {member.node: str(member.address) for member in broker.cluster}
    if broker.advertise_peer is not None:
        cluster[config.node] = str(broker.advertise_peer)
    assert broker.data is not None, "a broker needs a directory"
    return NodeSettings(
        data=broker.data,
        node_id=config.node,
        cluster=cluster,
        peer_host=_number(broker.peer.host),
        peer_port=broker.peer.port,
        cluster_key_file=broker.cluster_key_file,
        dialled_networks=broker.peer_networks,
        shards=broker.shards,
        rack=broker.rack,
        tick_ms=config.raft.tick_ms,
        log=LogSettings(
            segment_bytes=storage.segment_bytes,
            ballast_bytes=storage.ballast_bytes,
            index_cache_bytes=storage.index_cache_bytes,
        ),
        history_bytes=storage.history_bytes,
        state_bytes_max=storage.state_bytes_max,
        engine=EngineSettings(
            default_partitions=config.topics.partitions_default,
            topic_partitions_max=config.topics.partitions_max,
            partitions_max=config.topics.partitions_total_max,
            auto_create_topics=config.topics.auto_create,
        ),
        groups=GroupSettings(
            session_min_ms=groups.session_min_ms,
            session_max_ms=groups.session_max_ms,
            initial_delay_ms=groups.initial_delay_ms,
            members_max=groups.members_max,
            offset_retention_ms=groups.offset_retention_ms,
        ),
    )


def alert_settings(config: Config) -> AlertSettings:
    """The part of the configuration that concerns the watch."""
    alerts = config.alerts
    return AlertSettings(
        enabled=alerts.enabled,
        levels={name: getattr(alerts, name) for name in RULES},
        hold_ms=alerts.hold_ms,
        clear_ms=alerts.clear_ms,
        webhook=alerts.webhook or "",
        runbooks=alerts.runbooks or "",
    )


def _number(host: str) -> str:
    """`localhost` is two addresses, and a client may try the one that is not bound."""
    return "127.0.0.1" if host == "localhost" else host
