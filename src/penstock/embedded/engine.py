"""A node and its native service inside this process, without a socket.

    file:./data     a node on the real disk: durable before it answers, as a broker is
    memory:         the same node on a `MemoryDisk`

Nothing is simulated. The node has its shards, writer threads and files; it leads everything alone,
so it can serve a few milliseconds after it was opened.

**When memory runs out.** `memory:` may reserve `EmbeddedSettings.memory_bytes_max`, 1 GiB. What is
retained for good fills it as it fills a disk. Then sends are refused with `StorageFull`, while
receiving, acking and deleting go on out of the ballast; space comes back when whole segments are
free of what is still needed. If the process gets no memory before that, writing fails the same
way.

**Time.** When a clock is moved by hand, as a test's is, what became due happens at once (see
`engine.cluster.movable_clock`), and no request is answered before that. So a message whose delay is
over is in the next answer, and reaches a receiver that waits for it, without any time passing.
"""

from penstock.core.clock import Clock, SystemClock
from penstock.core.errors import Unavailable
from penstock.core.limits import POLL_PAUSE_SECONDS
from penstock.core.retries import PauseBounds
from penstock.embedded.settings import FILE_SETTINGS, MEMORY_SETTINGS, EmbeddedSettings
from penstock.engine.cluster.movable_clock import ClockMover
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.groups.requests import GroupSettings
from penstock.native.context import Buffer, Reply
from penstock.native.service import Service
from penstock.storage import Disk, LogSettings, RealDisk
from penstock.storage.memory_disk import MemoryDisk
from penstock.wire.requests import Request

MEMORY_DIRECTORY = "memory"
OPEN_PAUSES = PauseBounds(POLL_PAUSE_SECONDS, 2 * POLL_PAUSE_SECONDS)
"""A node alone is ready after a few writes: pauses that grow would make up half of the start."""
OPEN_SECONDS_MAX = 60.0


class EmbeddedEngine:
    """A node of this process that can serve; make one with `await EmbeddedEngine.open(...)`."""

    def __init__(self, node: Node, clock: Clock) -> None:
        self._node = node
        self._service = Service(node)
        self._time = ClockMover(node, clock)

    @classmethod
    async def open(
        cls,
        directory: str | None,
        *,
        clock: Clock | None = None,
        settings: EmbeddedSettings | None = None,
        disk: Disk | None = None,
    ) -> "EmbeddedEngine":
        """Open a directory, or an engine in memory if it is None; returns when it can serve. A
        `disk` is used in place of the real one, or of one in memory.

        Raises `DirectoryRefused` and what opening a log raises."""
        if directory is None:
            settings = settings or MEMORY_SETTINGS
            disk = disk or MemoryDisk(capacity_bytes=settings.memory_bytes_max)
        else:
            settings = settings or FILE_SETTINGS
            disk = disk or RealDisk()
        clock = clock or SystemClock()
        node = await Node.open(
            NodeSettings(
                data=MEMORY_DIRECTORY if directory is None else directory,
                peer_port=None,
                shards=settings.shards,
                tick_ms=settings.tick_ms,
                log=LogSettings(
                    segment_bytes=settings.segment_bytes, ballast_bytes=settings.ballast_bytes
                ),
                # A group's members are all in this process: there is no other process to wait for.
                groups=GroupSettings(initial_delay_ms=0),
            ),
            clock=clock,
            disk=disk,
        )
        try:
            await _wait_ready(node)
            await _forget_ports(node)
        except BaseException:
            await node.close()
            raise
        return cls(node, clock)

    @property
    def node(self) -> Node:
        """The node, for tests and inspection."""
        return self._node

    async def answer(self, request: Request, payload: Buffer = b"") -> Reply:
        """Carry out a request; raise an error if it is refused."""
        if self._node.failed.done():
            raise self._node.failed.result()
        if self._time.behind:
            await self._time.catch_up()
        return await self._service.answer(request, payload)

    async def close(self) -> None:
        """Shut down; everything acknowledged is in the directory at the next start."""
        await self._time.close()
        await self._node.close()

    def abandon(self) -> None:
        """Release everything without the loop, which has ended; nothing acknowledged is lost."""
        self._time.abandon()
        self._node.abandon()


async def _forget_ports(node: Node) -> None:
    """A broker that had this directory before is not to be found where it was."""
    record = node.engine.topics.node(node.engine.topics.node_id)
    if record is not None and (record.kafka or record.http):
        await node.register(kafka="", http="")


async def _wait_ready(node: Node) -> None:
    """A single node needs no other node's answer, only a few writes one after the other."""
    retries = node.topics.retrier.within(OPEN_SECONDS_MAX, OPEN_PAUSES)
    while not _can_serve(node):
        if node.failed.done():
            raise node.failed.result()
        node.look_after_now()
        if not await retries.pause():
            problems = "; ".join(node.health().problems)
            raise Unavailable(f"the engine does not become ready: {problems}")


def _can_serve(node: Node) -> bool:
    """True if the node leads all shards and can serve. A full disk is no reason to wait: acks still
    work."""
    if not all(node.cluster.local_shard(shard).leads_here for shard in node.shards):
        return False
    if node.cluster.queues_behind():
        return False
    try:
        node.engine.topics.receipt_key()
    except Unavailable:
        return False
    return True
