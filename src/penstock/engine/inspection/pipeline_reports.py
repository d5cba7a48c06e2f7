"""The last report of every pipeline, asked of any node.

Reports are messages of a compacted topic (see `core.pipeline_report`). A node that holds a replica
of its partition reads them there, a heartbeat late at most; others ask one that does. What was read
is kept, so that each look reads only what is new.
"""

import contextlib
from types import NoneType

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidBatch, NotLeader, PenstockError
from penstock.core.limits import MIB
from penstock.core.message_batches import iter_batches, open_messages
from penstock.core.pipeline_report import TOPIC, PipelineReport
from penstock.core.records import read_header
from penstock.core.types import Offset, PartitionId
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.replica.shard import Shard
from penstock.engine.topics.topics import Topics

PIPELINES = RemoteCall("pipelines", NoneType, list[PipelineReport])
PIPELINES_MAX = 1_000
READ_BYTES = 1 * MIB
READS_MAX = 64
"""For one look; the next look goes on from there."""


class PipelineReports:
    """The reports that this node can read, or that the leader of their partition has."""

    def __init__(self, topics: Topics, shards: LocalShards, calls: RemoteCalls) -> None:
        self._topics = topics
        self._shards = shards
        self._calls = calls
        self._partition: PartitionId | None = None
        self._next = Offset(0)
        self._found: dict[str, PipelineReport] = {}

    async def reports(self) -> list[PipelineReport]:
        """By name; none if no pipeline ever ran, or no leader can be asked."""
        topic = self._topics.catalog.topic(TOPIC)
        if topic is None:
            return []
        shard = self._topics.shard_of(topic.partitions[0])
        if self._shards.get(shard) is not None:
            return await self.reports_here(None)
        try:
            return await self._calls.ask_leader(shard, PIPELINES, None)
        except NotLeader:
            return []

    async def reports_here(self, _asked: None) -> list[PipelineReport]:
        """Return the reports in this node's replica."""
        topic = self._topics.catalog.topic(TOPIC)
        if topic is None:
            return []
        partition = topic.partitions[0]
        if partition != self._partition:  # The topic is new, or was made anew.
            self._partition, self._next, self._found = partition, Offset(0), {}
        shard = self._shards.get(self._topics.shard_of(partition))
        if shard is not None:
            # It may be being opened, or trimmed: then what is known so far is shown.
            with contextlib.suppress(PenstockError):
                self._read_on(shard, partition)
        now_ms = self._topics.clock.wall_ms()
        found = [self._found[name] for name in sorted(self._found)]
        return [msgspec.structs.replace(one, state=one.state_at(now_ms)) for one in found]

    def _read_on(self, shard: Shard, partition: PartitionId) -> None:
        bounds = shard.machine.bounds(partition)
        self._next = max(self._next, bounds.log_start)
        for _ in range(READS_MAX):
            if self._next >= bounds.high_watermark:
                return
            data = shard.fetch(partition, self._next, READ_BYTES)
            if not data:
                return
            for batch in iter_batches(data):
                self._take(batch)

    def _take(self, batch: memoryview) -> None:
        end = Offset(read_header(batch).last_offset + 1)
        try:
            for message in open_messages(batch)[1]:
                if message.offset >= self._next:
                    self._note((message.key or b"").decode("utf-8", "replace"), message.value)
        except InvalidBatch:
            pass  # It cannot be opened; the next report of its pipeline will be in another.
        self._next = max(self._next, end)

    def _note(self, name: str, value: bytes | None) -> None:
        if value is None:
            self._found.pop(name, None)
            return
        try:
            report = decode_json(value, PipelineReport)
        except msgspec.DecodeError:
            return  # Clients may write to a topic; what is no report is skipped.
        if name in self._found or len(self._found) < PIPELINES_MAX:
            self._found[name] = report
