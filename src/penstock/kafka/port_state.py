"""What all connections of a Kafka port share: the engine, the table, the bounds and the counters.

Back-pressure. What clients make this node hold is drawn on the memory budget of the node
(`core/memory_budget.py`), which all its ports share. Without room, connections stop reading where
they are, in the middle of a request if need be, and go on in the order in which they stopped. A
request that stays incomplete is given up after a while, so that clients that send half of one
cannot block the others for good.
"""

import asyncio
import logging
from collections import Counter
from collections.abc import Mapping
from typing import TYPE_CHECKING

import msgspec

from penstock.core import limits
from penstock.core.clock import Clock
from penstock.core.front_end import FrontEndStatistics
from penstock.core.memory_budget import MemoryBudget
from penstock.core.request_times import RequestReading, RequestTimes
from penstock.engine.inspection.limited_log import LimitedLog
from penstock.kafka.answer_memory import LongAnswers
from penstock.kafka.api import Api
from penstock.kafka.error_names import name_of
from penstock.kafka.metadata_cache import MetadataCache
from penstock.kafka.native_listener import NativeListener
from penstock.kafka.parked_fetches import ParkedFetches
from penstock.kafka.sequence_gaps import SequenceGaps
from penstock.kafka.share_sessions import ShareSessions
from penstock.kafka.turn_queue import TurnQueue

if TYPE_CHECKING:
    from penstock.engine.cluster.administration import Cluster
    from penstock.engine.engine import Engine
    from penstock.kafka.connection import Connection

log = logging.getLogger("penstock.kafka")

PROTOCOL = "kafka"


class KafkaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may change about the Kafka port."""

    request_bytes_max: int = limits.KAFKA_REQUEST_BYTES_MAX
    connections_max: int = limits.KAFKA_CONNECTIONS_MAX
    connection_idle_ms: int = limits.KAFKA_CONNECTION_IDLE_MS
    frame_ms_max: int = limits.KAFKA_FRAME_MS_MAX
    fetch_bytes_max: int = limits.KAFKA_FETCH_BYTES_MAX


class PortState:
    """Shared by the connections of one port, all on one loop."""

    def __init__(
        self,
        engine: "Engine",
        apis: Mapping[int, Api],
        settings: KafkaSettings,
        clock: Clock,
        cluster: "Cluster | None" = None,
        native_listener: NativeListener | None = None,
        memory: MemoryBudget | None = None,
    ) -> None:
        self.engine = engine
        self.memory = memory or MemoryBudget()
        self.complaints = LimitedLog(log, clock, "Kafka clients")
        self.native_listener = native_listener
        self.cluster = cluster
        self.apis = apis
        self.flexible_from = {key: api.flexible_from for key, api in apis.items()}
        self.settings = settings
        self.clock = clock
        self.connections: set[Connection] = set()
        # A read is always followed by its delivery before the next one: all can land in one place.
        self.landing = memoryview(bytearray(limits.KAFKA_LANDING_BYTES))
        self.metadata_cache = MetadataCache()
        self.sequence_gaps = SequenceGaps()
        self.share_sessions = ShareSessions(engine, clock)
        self.times = RequestTimes()
        self.histograms = {key: self.times.of(api.name) for key, api in apis.items()}
        self.flow = engine.topics.traffic.of(PROTOCOL)
        self.throttled = 0
        """How often a connection had to wait for room."""
        self.parked_fetches = ParkedFetches()
        self.turns = TurnQueue(limits.KAFKA_SLICES_PER_TURN)
        """Of long requests, whose time slices are used up."""
        self.long_answers = LongAnswers()
        self.fetches_held_bytes = 0
        """What fetches that wait for more have read."""
        self.requests: list[int] = [0] * (max(apis, default=0) + 1)
        self.errors: Counter[tuple[int, int]] = Counter()
        self.bytes_in = 0
        self.bytes_out = 0
        self.accepted = 0
        self.refused = 0
        self.faulted = 0
        self.tasks: set[asyncio.Task[None]] = set()
        """Long requests, each carried out by a task of its own."""
        self._to_flush: list[Connection] = []
        self._empty: asyncio.Event | None = None

    def leave(self, connection: "Connection") -> None:
        """The connection is gone."""
        self.connections.discard(connection)
        self.share_sessions.connection_lost(connection)
        if not self.connections and self._empty is not None:
            self._empty.set()

    async def wait_empty(self) -> None:
        """Wait until no connection is left."""
        self._empty = asyncio.Event()
        if self.connections:
            await self._empty.wait()

    def flush_soon(self, connection: "Connection") -> None:
        """Have the connection send what it has at the end of this turn of the loop."""
        if not self._to_flush:
            asyncio.get_running_loop().call_soon(self._flush)
        self._to_flush.append(connection)

    def _flush(self) -> None:
        connections, self._to_flush = self._to_flush, []
        for connection in connections:
            connection.flush()

    def count_error(self, key: int, code: int) -> None:
        """Note an error code that was answered."""
        self.errors[key, code] += 1

    def front_end(self) -> FrontEndStatistics:
        """What all front-ends can say of themselves."""
        errors = {
            (self.apis[key].name, name_of(code)): count
            for (key, code), count in self.errors.items()
        }
        return FrontEndStatistics(
            protocol=PROTOCOL,
            requests=RequestReading(self.times.statistics().times, errors),
            connections=len(self.connections),
            accepted=self.accepted,
            refused=self.refused,
            faulted=self.faulted,
            throttled=self.throttled,
            bytes_in=self.bytes_in,
            bytes_out=self.bytes_out,
            held_bytes=self.memory.held_by(PROTOCOL),
        )
