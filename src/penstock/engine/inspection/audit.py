"""The audit log: administrative actions as lines in the node's log and as records of the cluster.

Actions on queues, groups and the cluster are recorded when they are done: the address they came
from, the request, and its outcome. Traffic is not recorded: nothing could be found in it.

A record is a JSON message of the internal topic `__audit`, which keeps 90 days. The line is in the
log of the node that was asked at once; the record follows as soon as the topic's leader takes it,
and is given up after a minute: an action must not wait for its own record. A node that holds a
replica reads records there; others ask the leader.
"""

import contextlib
import logging
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import InvalidBatch, InvalidRequest, NotLeader, PenstockError, TopicExists
from penstock.core.internal_topics import AUDIT_TOPIC
from penstock.core.limits import AUDIT_CHARACTERS_MAX, AUDIT_LINES_MAX, AUDIT_WAITING_MAX, MIB
from penstock.core.message import NewMessage
from penstock.core.message_batches import iter_batches, open_messages
from penstock.core.records import read_header
from penstock.core.topic import Topic
from penstock.core.types import NodeId, Offset
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.peers.calls import RemoteCall, RemoteCalls
from penstock.engine.replica.local_shards import LocalShards
from penstock.engine.topics.topics import Topics

WRITE_SECONDS_MAX = 60.0
READ_BYTES = 4 * MIB
CONFIGS = {"retention.ms": str(90 * 86_400_000)}

logger = logging.getLogger("penstock.audit")


class AuditLine(msgspec.Struct, frozen=True, kw_only=True):
    """An action of an operator."""

    at_ms: int
    node: NodeId
    """The node that received it."""
    who: str
    """The client that sent it."""
    action: str
    target: str
    detail: str = ""
    outcome: str = "done"


AUDIT = RemoteCall("audit", int, list[AuditLine])


class Audit:
    """Notes orders given to this node, and shows those given to any."""

    def __init__(
        self,
        topics: Topics,
        delivery: DeliveryService,
        shards: LocalShards,
        calls: RemoteCalls,
        spawn: Callable[[Coroutine[Any, Any, None]], None],
    ) -> None:
        """`spawn` runs something beside, until the node closes."""
        self._topics = topics
        self._delivery = delivery
        self._shards = shards
        self._calls = calls
        self._spawn = spawn
        self._waiting: deque[AuditLine] = deque(maxlen=AUDIT_WAITING_MAX)
        self._writing = False

    def note(
        self, who: str, action: str, target: str, detail: str = "", outcome: str = "done"
    ) -> None:
        """Record an action."""
        line = AuditLine(
            at_ms=self._topics.clock.wall_ms(),
            node=self._topics.node_id,
            who=_short(who),
            action=_short(action),
            target=_short(target),
            detail=_short(detail),
            outcome=_short(outcome),
        )
        logger.info(
            "%s: %s %s%s (%s)",
            line.who,
            line.action,
            line.target,
            f" {line.detail}" if line.detail else "",
            line.outcome,
            extra={"who": line.who, "action": line.action, "target": line.target},
        )
        self._waiting.append(line)
        if not self._writing:
            self._writing = True
            self._spawn(self._write())

    async def recent(self, limit: int) -> list[AuditLine]:
        """The last records, the newest first; none if no leader can be asked."""
        topic = self._topics.catalog.topic(AUDIT_TOPIC)
        if topic is None:
            return []
        shard = self._topics.shard_of(topic.partitions[0])
        if self._shards.get(shard) is not None:
            return self._read(topic, limit)
        try:
            return await self._calls.ask_leader(shard, AUDIT, limit)
        except NotLeader:
            return []

    async def recent_here(self, limit: int) -> list[AuditLine]:
        """The last records that the replica of this node has."""
        if not 0 <= limit <= AUDIT_LINES_MAX:
            raise InvalidRequest(f"0 to {AUDIT_LINES_MAX} lines of the audit, not {limit}")
        topic = self._topics.catalog.topic(AUDIT_TOPIC)
        return [] if topic is None else self._read(topic, limit)

    # Writing.

    async def _write(self) -> None:
        retries = self._topics.retrier.within(WRITE_SECONDS_MAX)
        while self._waiting:
            lines = list(self._waiting)
            try:
                topic = await self._topic()
                messages = [NewMessage(msgspec.json.encode(line)) for line in lines]
                await self._delivery.send(topic, messages, index=0)
            except PenstockError as error:
                # It may be there twice then, which is better than not at all.
                logger.debug("the record of an order has to wait: %s", error)
                if not await retries.pause(error):
                    break
                continue
            retries = self._topics.retrier.within(WRITE_SECONDS_MAX)
            for line in lines:
                if self._waiting and self._waiting[0] is line:
                    self._waiting.popleft()
        if self._waiting:
            logger.warning("%d orders are in this log only", len(self._waiting))
            self._waiting.clear()
        self._writing = False

    async def _topic(self) -> Topic:
        topic = self._topics.catalog.topic(AUDIT_TOPIC)
        if topic is None:
            try:
                return await self._topics.create_topic(AUDIT_TOPIC, 1, CONFIGS, internal=True)
            except TopicExists:  # Another node was quicker.
                return self._topics.topic(AUDIT_TOPIC)
        return topic

    # Reading.

    def _read(self, topic: Topic, limit: int) -> list[AuditLine]:
        partition = topic.partitions[0]
        shard = self._shards.get(self._topics.shard_of(partition))
        if shard is None:
            return []
        found: deque[AuditLine] = deque(maxlen=limit)
        with contextlib.suppress(PenstockError):  # It is being opened, or trimmed.
            bounds = shard.machine.bounds(partition)
            begin = max(bounds.log_start, bounds.high_watermark - limit)
            while begin < bounds.high_watermark:
                data = shard.fetch(partition, Offset(begin), READ_BYTES)
                if not data:
                    break
                for batch in iter_batches(data):
                    begin = _take(batch, found, begin)
        return list(reversed(found))


def _take(batch: memoryview, found: "deque[AuditLine]", begin: int) -> int:
    """The records of a batch from an offset on; returns where the next batch begins."""
    with contextlib.suppress(InvalidBatch):
        for message in open_messages(batch)[1]:
            # Clients may write to a topic; what is no record is skipped.
            with contextlib.suppress(msgspec.DecodeError):
                if message.offset >= begin:
                    found.append(decode_json(message.value or b"", AuditLine))
    return read_header(batch).last_offset + 1


def _short(text: str) -> str:
    return text if len(text) <= AUDIT_CHARACTERS_MAX else text[: AUDIT_CHARACTERS_MAX - 1] + "…"
