"""ShareFetch, key 78: lease messages for a member of a share group, and take what it acknowledges.

Versions    1–2.
Behaviour   Served by a partition's leader, in a share session: see `kafka.share_sessions`. First
            what the request acknowledges is settled, then messages are leased, no more than
            `max_records` and about as many as fit `max_bytes`, partitions taking turns. They are
            sent in the stored batches; what a batch holds besides is not among the acquired
            records, which ascend by offset. The answer goes out with the first messages there are,
            and waits up to `max_wait` for them. A group that reads a partition for the first time
            begins where share.auto.offset.reset says.
KIPs        932, 951, 1206 (the record limit is kept in both acquire modes), 1222 (renewing).
Not served  `min_bytes` above one message and `batch_size`: leases are not held back to collect
            more, and a row of acquired records is as long as it can be.
"""

import asyncio
from typing import TYPE_CHECKING, Final

from penstock.core.clock import precise_seconds
from penstock.core.errors import NotLeader, PenstockError, UnknownPartition
from penstock.core.limits import ACQUIRE_MESSAGES_MAX
from penstock.core.receiver import receiver_name
from penstock.core.types import Offset, TopicId
from penstock.engine.delivery.stored_batches import StoredBatches, collect, measure, ready_ranges
from penstock.kafka.codec import Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import INVALID_REQUEST, share_fetch_code
from penstock.kafka.metadata import find_topic
from penstock.kafka.row_errors import Row
from penstock.kafka.share_acknowledgements import Failure, acknowledge
from penstock.kafka.share_answers import ShareRows
from penstock.kafka.share_leases import Lease
from penstock.kafka.share_sessions import (
    FINAL_EPOCH,
    NEW_EPOCH,
    PartitionKey,
    SessionRefused,
    ShareSession,
)
from penstock.kafka.share_start import open_work
from penstock.machines.queue_commands import Verdict

if TYPE_CHECKING:
    from penstock.machines.catalog import Topic
    from penstock.machines.queues import Acquired
    from penstock.machines.work_records import GrantedRun

_DELIVERIES_SHOWN_MAX: Final = (1 << 15) - 1


def start(frame: bytearray, position: int, context: Context) -> None:
    """Find the session now, in the order in which requests came; the rest takes a while."""
    request = context.decode(frame, position)
    try:
        session = begin(request, context)
    except SessionRefused as refused:
        context.count_error(refused.code)
        context.answer(
            {
                "error_code": refused.code, "error_message": str(refused),
                "acquisition_lock_timeout": 0, "responses": [], "node_endpoints": [],
            }
        )  # fmt: skip
        return
    context.port_state.share_sessions.carry_out(
        _ShareFetch(session, request, context).run(), context
    )


def begin(request: Message, context: Context) -> ShareSession:
    """The session of a fetch, and what the member reads from now on."""
    epoch = request.share_session_epoch
    asked = [
        (TopicId(topic.topic_id), one.partition_index)
        for topic in request.topics
        for one in topic.partitions
    ]
    acknowledges = any(
        one.acknowledgement_batches for topic in request.topics for one in topic.partitions
    )
    if epoch == NEW_EPOCH and acknowledges:
        text = "the first request of a share session has nothing to acknowledge"
        raise SessionRefused(INVALID_REQUEST, text)
    sessions = context.port_state.share_sessions
    session = sessions.begin(request.group_id, request.member_id, epoch, context.connection)
    if epoch != FINAL_EPOCH:
        session.read(asked)
        session.forget(
            (TopicId(topic.topic_id), index)
            for topic in request.forgotten_topics_data
            for index in topic.partitions
        )
    return session


class _ShareFetch:
    """One request: settles, leases, and waits for messages if there are none."""

    def __init__(self, session: ShareSession, request: Message, context: Context) -> None:
        self._session = session
        self._request = request
        self._context = context
        self._engine = context.engine
        self._is_last = request.share_session_epoch == FINAL_EPOCH
        self._messages_left: int = request.max_records
        self._bytes_left: int = min(request.max_bytes, context.port_state.fetch_allowance())
        self._rows: dict[PartitionKey, Row] = {}
        self._failures: dict[PartitionKey, Failure] = {}
        self._has_news = False
        self._hurried = False
        self._woken = asyncio.Event()
        context.on_cancel = self._hurry
        self._receiver = receiver_name(
            "kafka", context.connection.client_address, context.client_id
        )

    async def run(self) -> None:
        """Carry the request out and answer it."""
        session, context = self._session, self._context
        async with session.taking_turns():
            acknowledged = await acknowledge(session, self._request, context)
            if self._is_last:
                await context.port_state.share_sessions.close(session)
            elif self._messages_left > 0 and not self._request.is_renew_ack:
                session.hurry = self._hurry
                await self._gather()
            context.answer(self._answer(acknowledged))

    def _hurry(self) -> None:
        self._hurried = True
        self._woken.set()

    # Waiting.

    async def _gather(self) -> None:
        """Lease what there is; if that is nothing, wait for something."""
        loop = asyncio.get_running_loop()
        wait_ms = min(self._request.max_wait, self._context.port_state.settings.connection_idle_ms)
        deadline = loop.time() + wait_ms / 1_000
        topics = {topic_id for topic_id, _ in self._session.partitions}
        found = (self._engine.topics.catalog.topic_by_id(topic_id) for topic_id in topics)
        watches = [
            self._engine.delivery.watch(topic, self._session.group, self._woken.set)
            for topic in found
            if topic is not None
        ]
        try:
            while True:
                self._woken.clear()
                await self._look()
                if self._rows or self._has_news or self._hurried or self._session.is_pressed:
                    return
                if wait_ms <= 0 or loop.time() >= deadline:
                    return
                parked_at = precise_seconds()
                try:
                    async with asyncio.timeout_at(deadline):
                        await self._woken.wait()
                except TimeoutError:
                    return
                finally:
                    self._context.waited += precise_seconds() - parked_at
        finally:
            for watch in watches:
                watch.cancel()

    async def _look(self) -> None:
        last: PartitionKey | None = None
        for key in list(self._session.partitions):
            if self._messages_left <= 0 or (self._bytes_left <= 0 and self._rows):
                break
            if self._hurried and self._rows:
                break
            try:
                if await self._look_at(key):
                    last = key
                self._session.told.pop(key, None)
                self._failures.pop(key, None)
            except PenstockError as error:
                self._fail(key, error)
        if last is not None:
            self._session.rotate(last)

    def _fail(self, key: PartitionKey, error: PenstockError) -> None:
        """Whoever has been told the same before need not be told at once."""
        code = share_fetch_code(error)
        self._failures[key] = code, str(error)
        if isinstance(error, NotLeader):
            self._context.port_state.share_sessions.lead_lost(self._session, key)
        if self._session.told.get(key) != code:
            self._session.told[key] = code
            self._has_news = True

    # Leasing.

    async def _look_at(self, key: PartitionKey) -> bool:
        """Lease messages of a partition, as many as may be; False if there are none."""
        topic_id, index = key
        engine, group = self._engine, self._session.group
        topic = find_topic(engine, topic_id)
        if not 0 <= index < len(topic.partitions):
            raise UnknownPartition(f"topic {topic.name} has no partition {index}")
        engine.delivery.here.askers.note(topic.topic_id, group, self._receiver)
        work = engine.delivery.work_here(topic, index, group)
        if work is None:
            await open_work(engine, topic, group)
            work = engine.delivery.work_here(topic, index, group)
        if work is None or not work.has_ready():
            return False
        # One after the other: whoever comes second sees what is left, and asks for no more.
        async with self._context.port_state.share_sessions.gate(topic.partitions[index], group):
            return await self._lease(topic, key)

    async def _lease(self, topic: "Topic", key: PartitionKey) -> bool:
        index, engine, group = key[1], self._engine, self._session.group
        work = engine.delivery.work_here(topic, index, group)
        if work is None or not work.has_ready() or self._session.is_closed:
            return False
        batches = StoredBatches(lambda offset, size: engine.topics.read(topic, index, offset, size))
        messages = measure(
            ready_ranges(work, engine.topics.bounds(topic, index).high_watermark),
            batches,
            min(self._messages_left, ACQUIRE_MESSAGES_MAX),
            self._bytes_left,
        )
        if not messages:
            return False
        acquired = await engine.delivery.acquire_here(
            topic, index, group, messages, receiver=self._receiver
        )
        if not acquired.runs:
            return False
        await self._take(key, acquired, batches)
        return True

    async def _take(self, key: PartitionKey, acquired: "Acquired", batches: StoredBatches) -> None:
        """The messages are leased: send those that fit, and give back the rest."""
        session, sessions = self._session, self._context.port_state.share_sessions
        runs = _joined(sorted(acquired.runs))
        ranges = [(run.first, run.end) for run in runs]

        def leases(spans: list[tuple[Offset, Offset]]) -> list[Lease]:
            return [Lease(first, end, acquired.epoch, acquired.until_ms) for first, end in spans]

        if session.is_closed:
            await sessions.give_back(session.group, key, leases(ranges), Verdict.RETURN)
            return
        try:
            bound = self._context.port_state.settings.fetch_bytes_max
            pieces, unsent = collect(ranges, batches, bound)
        except PenstockError:
            await sessions.give_back(session.group, key, leases(ranges), Verdict.RETURN)
            raise
        sent_end = unsent[0][0] if unsent else ranges[-1][1]
        sent = [_up_to(run, sent_end) for run in runs if run.first < sent_end]
        now_ms = self._engine.topics.clock.wall_ms()
        for lease in leases([(run.first, run.end) for run in sent]):
            session.has(key, lease, now_ms)
        messages = sum(run.end - run.first for run in sent)
        self._messages_left -= messages
        self._context.port_state.flow.delivered(find_topic(self._engine, key[0]).name, messages)
        records = b"".join(piece.batch.data for piece in pieces)
        self._bytes_left -= len(records)
        self._rows[key] = {"records": records, "acquired_records": list(map(_acquired, sent))}
        if unsent:
            await sessions.give_back(session.group, key, leases(unsent), Verdict.RETURN)

    # Answering.

    def _answer(self, acknowledged: dict[PartitionKey, Failure | None]) -> dict[str, object]:
        session = self._session
        rows = ShareRows(self._context)
        everything = session.partitions if self._request.share_session_epoch == NEW_EPOCH else ()
        keys = dict.fromkeys([*acknowledged, *self._rows, *self._failures, *everything])
        for key in keys:
            ack_code, ack_text = acknowledged.get(key) or (0, None)
            code, text = self._failures.get(key, (0, None))
            if code:
                self._context.count_error(code)
            row: Row = {
                "error_code": code, "error_message": text,
                "acknowledge_error_code": ack_code, "acknowledge_error_message": ack_text,
                "records": b"", "acquired_records": [], **self._rows.get(key, {}),
            }  # fmt: skip
            rows.add(key, row, code, ack_code)
        lock_ms = self._engine.topics.catalog.group_settings(session.group).work_rules.lease_ms
        return {"acquisition_lock_timeout": lock_ms, **rows.answer()}


def _joined(runs: "list[GrantedRun]") -> "list[GrantedRun]":
    """Neighbours that have been delivered equally often are one."""
    joined = runs[:1]
    for run in runs[1:]:
        last = joined[-1]
        if last.end == run.first and last.deliveries == run.deliveries:
            joined[-1] = last._replace(end=run.end)
        else:
            joined.append(run)
    return joined


def _up_to(run: "GrantedRun", end: Offset) -> "GrantedRun":
    return run if run.end <= end else run._replace(end=end)


def _acquired(run: "GrantedRun") -> Row:
    return {
        "first_offset": run.first,
        "last_offset": run.end - 1,
        "delivery_count": min(run.deliveries, _DELIVERIES_SHOWN_MAX),
    }
