"""A broker for tests: one node with a Kafka and native port, in this process, on real files.

`open_broker` runs on the loop of a test. `ThreadedBroker` has a loop and a thread of its own, for
clients that block.
"""

import asyncio
import threading
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Self, TypeVar

import msgspec

from penstock.core.limits import MIB
from penstock.core.memory_budget import MemoryBudget
from penstock.core.types import ShardId
from penstock.engine.cluster.node import Node
from penstock.engine.cluster.node_settings import NodeSettings
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.topics.topics import EngineSettings
from penstock.kafka import KafkaListener, KafkaSettings
from penstock.native.listener import NativeConnections
from penstock.native.service import Service
from penstock.storage import LogSettings

START_SECONDS_MAX = 60.0

T = TypeVar("T")


class Broker(msgspec.Struct):
    """A running node and its Kafka port."""

    node: Node
    listener: KafkaListener
    host: str
    port: int

    @property
    def address(self) -> str:
        """What clients call `bootstrap.servers`."""
        return f"{self.host}:{self.port}"


@asynccontextmanager
async def open_broker(
    data: Path,
    kafka: KafkaSettings | None = None,
    engine: EngineSettings | None = None,
    memory: MemoryBudget | None = None,
) -> AsyncIterator[Broker]:
    """A broker that is ready: it leads all its shards and knows its own address."""
    node = await Node.open(
        NodeSettings(
            data=str(data),
            shards=2,
            log=LogSettings(segment_bytes=16 * MIB, ballast_bytes=0),
            engine=engine or EngineSettings(),
            groups=GroupSettings(initial_delay_ms=0),
        ),
        memory=memory,
    )
    native_listener = NativeConnections(Service(node))
    listener = KafkaListener(
        node.engine,
        kafka,
        cluster=node.cluster,
        native_listener=native_listener,
        memory=node.memory,
    )
    try:
        host, port = await listener.start("127.0.0.1", 0)
        await node.register(kafka=f"{host}:{port}", http="")
        async with asyncio.timeout(START_SECONDS_MAX):
            await _wait_ready(node)
        yield Broker(node, listener, host, port)
    finally:
        await listener.close(grace_seconds=1.0)
        await node.close()


async def _wait_ready(node: Node) -> None:
    engine = node.engine
    while True:
        record = engine.topics.node(engine.topics.node_id)
        shards = map(ShardId, engine.topics.shards())
        led = all(engine.topics.leader(shard).node == engine.topics.node_id for shard in shards)
        if led and record is not None and record.kafka:
            return
        await asyncio.sleep(0)  # The node's own timers bring it about.


class ThreadedBroker:
    """A broker that lives in a thread, from `with` to the end of its block."""

    def __init__(self, data: Path, engine: EngineSettings | None = None) -> None:
        self._data = data
        self._engine = engine
        self._ready = threading.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stop: asyncio.Event | None = None
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._run, name="broker")
        self.broker: Broker | None = None

    @property
    def address(self) -> str:
        """What clients call `bootstrap.servers`."""
        assert self.broker is not None
        return self.broker.address

    def call(self, work: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the broker's loop; for what tests ask of the engine itself."""
        assert self._loop is not None
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(START_SECONDS_MAX)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(START_SECONDS_MAX)
        if self._failure is not None:
            raise self._failure
        return self

    def __exit__(self, *_exc: object) -> None:
        if self._loop is not None and self._stop is not None:
            self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(START_SECONDS_MAX)
        assert not self._thread.is_alive(), "the broker does not stop"
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        import uvloop

        try:
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                runner.run(self._serve())
        except BaseException as error:  # noqa: BLE001
            self._failure = error
        finally:
            self._ready.set()

    async def _serve(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._stop = asyncio.Event()
        async with open_broker(self._data, engine=self._engine) as broker:
            self.broker = broker
            self._ready.set()
            await self._stop.wait()
