"""A broker under attack, or three: processes, a known set, a good client beside them, and gauges.

`Target` starts `penstock serve` as `tests.cluster` does, so nothing of it outlives the test. Every
process is watched: one that takes more than `RSS_BYTES_MAX` is killed at once, because the machine
is shared, and the case has failed. As a second line its address space is limited.
"""

import asyncio
import contextlib
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from penstock.wire import codec
from penstock.wire.frames import GREETING, PREFIX, Kind, greet, read_prefix, write_prefix
from penstock.wire.requests import Answer, AskTopic, Request, TopicInfo
from tests.abuse.hostile_batches import honest
from tests.abuse.kafka_wire import Address, KafkaConnection, create_topic, leader_of, produce
from tests.abuse.known_set import check_known_set, write_known_set
from tests.abuse.registry import Broken
from tests.abuse.streams import HttpConnection, http
from tests.cluster.processes import Cluster, tail, tracebacks
from tests.cluster.waiting import wait_until

MIB = 1 << 20
RSS_BYTES_MAX = 1536 * MIB
"""A process that takes more is killed."""
ADDRESS_BYTES_MAX = 8 << 30
"""In case that watching comes too late."""
WATCH_SECONDS = 0.02
COUNTED_SECONDS = 4.0
_PAGE = os.sysconf("SC_PAGE_SIZE")
_FAT_BATCHES = 60


@dataclass(frozen=True)
class Sample:
    """An answer that the good client got."""

    what: str
    began: float
    ended: float
    failures: int
    why: str

    @property
    def seconds(self) -> float:
        return self.ended - self.began


class GoodClientProcess:
    """The good client, and the answers it has got so far."""

    def __init__(self, kafka: list[Address], http: Address, log: Path) -> None:
        self.samples: list[Sample] = []
        self._log = log.open("ab")
        self._process = subprocess.Popen(
            [
                *(sys.executable, "-m", "tests.abuse.good_client"),
                *("--kafka", ",".join(f"{host}:{port}" for host, port in kafka)),
                *("--http", f"{http[0]}:{http[1]}"),
            ],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
        )
        self._thread = threading.Thread(target=self._listen, name="good-client", daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            with contextlib.suppress(ValueError, TypeError):
                self.samples.append(Sample(*json.loads(line)))

    @property
    def kinds(self) -> set[str]:
        """The conversations that have had an answer."""
        return {sample.what for sample in list(self.samples)}

    def since(self, moment: float) -> list[Sample]:
        """Answers that came after a moment."""
        return [sample for sample in list(self.samples) if sample.ended >= moment]

    def close(self) -> None:
        """End it."""
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        try:
            self._process.wait(5)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._thread.join(5)
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._log.close()


@dataclass
class Gauge:
    """The memory of one process."""

    pid: int
    now: int = 0
    peak: int = 0
    exceeded: bool = False
    times: list[float] = field(default_factory=list)
    waits: list[float] = field(default_factory=list)
    """How long its loop's thread had waited for a processor by then, in seconds."""

    def note_wait(self) -> None:
        """Read the gauge."""
        self.times.append(time.monotonic())
        self.waits.append(_processor_wait(self.pid))

    def waited(self, began: float, ended: float) -> float:
        """How long it waited for a processor between two moments: the machine's doing."""
        first, last = bisect_left(self.times, began), bisect_left(self.times, ended)
        if first >= len(self.waits):
            return 0.0
        return self.waits[min(last, len(self.waits) - 1)] - self.waits[first]

    def longest_wait(self, began: float, ended: float, window: float) -> float:
        """The most that it waited within so many seconds, between two moments."""
        first, last = bisect_left(self.times, began), bisect_left(self.times, ended)
        moments = self.times[first:last]
        return max((self.waited(at, min(at + window, ended)) for at in moments), default=0.0)


class Watch:
    """Reads the memory of processes, and kills one that takes too much."""

    def __init__(self) -> None:
        self.gauges: dict[int, Gauge] = {}
        self.proxy: Gauge | None = None
        """What the nodes' links pass through; its memory is nobody's concern."""
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="memory-watch", daemon=True)
        self._thread.start()

    def begin(self, number: int, pid: int) -> None:
        """Watch a process in place of the one there was."""
        self.gauges[number] = Gauge(pid, now=rss_of(pid), peak=rss_of(pid))

    def all(self) -> list[Gauge]:
        """The processes that an answer may have to wait for."""
        gauges = list(self.gauges.values())
        return [*gauges, self.proxy] if self.proxy is not None and len(gauges) > 1 else gauges

    def reset(self) -> None:
        """Forget the peaks."""
        for gauge in self.gauges.values():
            gauge.peak = gauge.now

    def close(self) -> None:
        """Stop."""
        self._end.set()
        self._thread.join(5)

    def _run(self) -> None:
        while not self._end.wait(WATCH_SECONDS):
            if self.proxy is not None:
                self.proxy.note_wait()
            for gauge in list(self.gauges.values()):
                gauge.now = rss_of(gauge.pid)
                gauge.note_wait()
                gauge.peak = max(gauge.peak, gauge.now)
                if gauge.now > RSS_BYTES_MAX and not gauge.exceeded:
                    gauge.exceeded = True
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(gauge.pid, signal.SIGKILL)


def _processor_wait(pid: int) -> float:
    try:
        return int(Path(f"/proc/{pid}/schedstat").read_text("ascii").split()[1]) / 1e9
    except (FileNotFoundError, ProcessLookupError, ValueError, IndexError):
        return 0.0


def rss_of(pid: int) -> int:
    """The memory a process takes, without what it shares with files and others; 0 if it is gone."""
    try:
        resident, shared = Path(f"/proc/{pid}/statm").read_text("ascii").split()[1:3]
    except (FileNotFoundError, ProcessLookupError, ValueError):
        return 0
    return (int(resident) - int(shared)) * _PAGE


@dataclass
class Target:
    """What a case attacks."""

    cluster: Cluster
    watch: Watch
    directory: Path
    good: GoodClientProcess | None = None
    notes: dict[str, Any] = field(default_factory=dict)
    """What earlier cases on this broker have prepared."""
    attacked: int = 1
    """The node that a case reaches at `kafka`, `http` and `peer`."""

    # Where it is.

    @property
    def kafka(self) -> Address:
        return _split(self.cluster.nodes[self.attacked].kafka)

    @property
    def http(self) -> Address:
        return _split(self.cluster.nodes[self.attacked].http)

    @property
    def peer(self) -> Address:
        return self.cluster.nodes[self.attacked].peer

    @property
    def all_kafka(self) -> list[Address]:
        return [_split(node.kafka) for node in self.cluster.nodes.values()]

    @property
    def all_peers(self) -> dict[int, Address]:
        return {number: node.peer for number, node in self.cluster.nodes.items()}

    # Its life.

    def start(self) -> None:
        """Start every node, with its limits and under watch."""
        for number in self.cluster.nodes:
            self.cluster.launch(number)
            self._limit(number)
        for number in self.cluster.nodes:
            self.cluster.wait_ready(number)

    def _limit(self, number: int) -> None:
        process = self.cluster.nodes[number].process
        assert process is not None
        resource.prlimit(process.pid, resource.RLIMIT_AS, (ADDRESS_BYTES_MAX, ADDRESS_BYTES_MAX))
        self.watch.begin(number, process.pid)

    async def prepare(self) -> None:
        """Write the known set and start the good client."""
        await write_known_set(self.all_kafka, self.http)
        self.good = GoodClientProcess(self.all_kafka, self.http, self.directory / "good-client.txt")
        good = self.good
        wait_until(
            lambda: len(good.kinds) >= 6,
            lambda: f"the good client gets no answers: {good.kinds}",
            seconds=60,
        )

    def end_good_client(self) -> None:
        """Before the broker is stopped."""
        if self.good is not None:
            self.good.close()
            self.good = None

    def kill_and_restart(self) -> float:
        """kill -9 of every node, and how long it takes until all are ready again."""
        self.end_good_client()
        for number in self.cluster.nodes:
            self.cluster.kill(number)
        began = time.monotonic()
        self.start()
        return time.monotonic() - began

    async def missing(self) -> list[str]:
        """What is not there any more of the known set."""
        return await check_known_set(self.all_kafka, self.http)

    def is_alive(self) -> bool:
        """Every process runs."""
        return all(node.running for node in self.cluster.nodes.values())

    def log_bytes(self) -> int:
        """How much all nodes have logged so far."""
        return sum(_size(Path(node.log_file)) for node in self.cluster.nodes.values())

    def log_since(self, position: Mapping[int, int]) -> str:
        """What was logged after `log_positions`."""
        text = ""
        for number, node in self.cluster.nodes.items():
            with contextlib.suppress(FileNotFoundError), Path(node.log_file).open("rb") as file:
                file.seek(position.get(number, 0))
                text += file.read(64 * MIB).decode(errors="replace")
        return text

    def log_positions(self) -> dict[int, int]:
        """Where the logs end now."""
        return {number: _size(Path(node.log_file)) for number, node in self.cluster.nodes.items()}

    def tracebacks(self) -> list[str]:
        """All there are in the logs."""
        logs = [Path(node.log_file) for node in self.cluster.nodes.values()]
        return [text for log in logs for text in tracebacks(log)]

    def tail(self) -> str:
        """The last lines of the logs."""
        return "\n".join(tail(Path(node.log_file), 15) for node in self.cluster.nodes.values())

    # What it counts.

    async def metrics(self, number: int) -> str:
        """The metrics of a node; empty if it does not answer."""
        _, _, body = await http(_split(self.cluster.nodes[number].http), "GET", "/metrics")
        return body.decode()

    async def count(self, name: str, number: int = 1) -> float:
        """A metric of a node, summed up over labels that begin like these."""
        lines = (await self.metrics(number)).splitlines()
        return sum(float(line.split()[-1]) for line in lines if line.startswith(name))

    async def wait_counted(self, name: str, least: float, number: int = 1) -> bool:
        """Wait until a metric has grown so far; the page of metrics is up to a second old."""
        end = time.monotonic() + COUNTED_SECONDS
        while await self.count(name, number) < least:
            if time.monotonic() > end:
                return False
            await asyncio.sleep(0.2)
        return True

    async def terms(self) -> dict[int, int]:
        """The newest term of each shard that any node knows."""
        found: dict[int, int] = {}
        for node in self.cluster.nodes.values():
            status, _, body = await http(_split(node.http), "GET", "/v1/cluster")
            for shard in json.loads(body)["shards"] if status == 200 else ():
                number = int(shard["shard"])
                found[number] = max(found.get(number, 0), int(shard["term"]))
        return found

    async def busiest_leader(self) -> int:
        """The node that leads most shards: the one whose standstill would make others elect."""
        led = {
            number: await self.count("penstock_raft_leader{", number)
            for number in self.cluster.nodes
        }
        return max(led, key=lambda number: led[number])

    # What cases need.

    async def topic(
        self, name: str, partitions: int = 1, configs: Mapping[str, str] | None = None
    ) -> TopicInfo:
        """A topic, made if need be."""
        code = await create_topic(self.kafka, name, partitions, configs)
        if code:
            raise Broken(f"topic {name} was not made: error {code}")
        return await self.info(name)

    async def info(self, name: str) -> TopicInfo:
        """A topic as native clients see it."""
        answer, _ = await native_call(self.kafka, AskTopic(name))
        assert isinstance(answer, TopicInfo), answer
        return answer

    async def leader(self, topic: str, index: int = 0) -> KafkaConnection:
        """A connection with the leader of a partition."""
        address = await leader_of(self.kafka, topic, index)
        if address is None:
            raise OSError(f"{topic} {index} has no leader")
        return await KafkaConnection.open(address)

    async def produce(self, topic: str, index: int, records: bytes) -> int:
        """Append one batch; the error code."""
        connection = await self.leader(topic, index)
        try:
            return int((await produce(connection, topic, index, records)).error_code)
        finally:
            connection.close()

    async def fat_topic(self) -> str:
        """A topic with 58 MiB in one partition, more than the largest answer to a fetch."""
        if "fat" not in self.notes:
            await self.topic("fat", 1, {"max.message.bytes": str(4 * MIB)})
            connection = await self.leader("fat")
            for number in range(_FAT_BATCHES):
                values = [bytes([number]) * 1_000_000]
                row = await produce(connection, "fat", 0, honest(values))
                assert row.error_code == 0, f"error {row.error_code}"
            connection.close()
            self.notes["fat"] = True
        return "fat"

    async def queue_url(self, name: str, attributes: Mapping[str, str] | None = None) -> str:
        """The URL of an SQS queue, made if need be."""
        connection = await HttpConnection.open(self.http)
        try:
            made = await connection.sqs(
                "CreateQueue", {"QueueName": name, "Attributes": dict(attributes or {})}
            )
            return str(made["QueueUrl"])
        finally:
            connection.close()

    async def sqs(self, action: str, document: Mapping[str, object]) -> dict[str, Any]:
        """One action of SQS; raises ValueError if it is refused."""
        connection = await HttpConnection.open(self.http)
        try:
            return await connection.sqs(action, document)
        finally:
            connection.close()


def _split(text: str) -> Address:
    host, port = text.rsplit(":", 1)
    return host, int(port)


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


async def native_call(
    address: Address, request: Request, payload: bytes = b""
) -> tuple[Answer | None, bytes]:
    """One request of the native protocol; None if it was refused or the connection ended."""
    connection = await KafkaConnection.open(address)
    reader, writer = connection.reader, connection.writer
    try:
        writer.write(greet() + native_frame(request, 1, payload))
        await reader.readexactly(GREETING.size)
        data = await reader.readexactly(PREFIX.size)
        head = read_prefix(data, 0, 1 << 30)
        body = await reader.readexactly(head.head_bytes)
        extra = await reader.readexactly(head.payload_bytes)
        if head.kind is not Kind.ANSWER:
            return None, body
        return codec.decode_answer(body), extra
    except (OSError, EOFError):
        return None, b""
    finally:
        connection.close()


def native_frame(request: Request | bytes, number: int, payload: bytes = b"") -> bytes:
    """A request as a frame; `bytes` are taken as the head."""
    head = request if isinstance(request, bytes) else msgspec.msgpack.encode(request)
    return write_prefix(Kind.REQUEST, number, len(head), len(payload)) + head + payload


@contextlib.contextmanager
def open_target(
    *,
    nodes: int = 1,
    flags: tuple[str, ...] = (),
    on_start: Callable[[Target], None] | None = None,
) -> Iterator[Target]:
    """A broker that is ready, in a directory of its own, in memory if there is room."""
    home = "/dev/shm"
    if not os.access(home, os.W_OK) or shutil.disk_usage(home).free < 3 << 30:
        home = tempfile.gettempdir()
    with tempfile.TemporaryDirectory(prefix="penstock-abuse-", dir=home) as name:
        directory = Path(name)
        watch = Watch()
        try:
            with Cluster(
                directory,
                nodes=nodes,
                shards=2,
                flags=("--storage.segment-size", "16MiB", "--storage.ballast-size", "1MiB", *flags),
            ) as cluster:
                watch.proxy = Gauge(cluster.network.pid)
                target = Target(cluster, watch, directory)
                try:
                    target.start()
                    if on_start is not None:
                        on_start(target)
                    yield target
                finally:
                    target.end_good_client()
        finally:
            watch.close()
