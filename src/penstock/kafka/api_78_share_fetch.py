"""ShareFetch, key 78: lease messages for a member of a share group, and take what it acknowledges.

Versions    1–2.
Behaviour   Served by a partition's leader, in a share session: see `kafka.share_sessions`. First
            what the request acknowledges is settled, then messages are leased, about as many as
            fit `max_bytes`, partitions taking turns. In the acquire mode record_limit there are no
            more than `max_records`; in batch_optimized, and in version 1, the number is rounded up
            to the end of a batch, within share.partition.max.record.locks. They are
            sent in the stored batches; what a batch holds besides is not among the acquired
            records, which ascend by offset. The answer goes out with the first messages there are,
            and waits up to `max_wait` for them; a member that waits leases a batch while it is
            being written. A group that reads a partition for the first time begins where
            share.auto.offset.reset says.
KIPs        932, 951, 1206, 1222 (renewing).
Not served  `min_bytes` above one message and `batch_size`: leases are not held back to collect
            more, and a row of acquired records is as long as it can be.
"""

from typing import TYPE_CHECKING, Final

from penstock.core.errors import NotLeader, PenstockError, UnknownPartition
from penstock.core.memory_budget import MemoryDraw
from penstock.core.receiver import receiver_name
from penstock.core.types import PartitionId, TopicId
from penstock.engine.delivery.acquisition import (
    AcquireLimits,
    Acquisition,
    Place,
    Problems,
)
from penstock.engine.delivery.leases import PartitionLease
from penstock.engine.topics.poll_time import begin_parking
from penstock.kafka.codec import Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import INVALID_REQUEST, share_fetch_code
from penstock.kafka.metadata import find_topic
from penstock.kafka.row_errors import Row
from penstock.kafka.share_acknowledgements import Failure, acknowledge
from penstock.kafka.share_answers import ShareRows, lock_ms
from penstock.kafka.share_leases import Lease
from penstock.kafka.share_sessions import (
    FINAL_EPOCH,
    NEW_EPOCH,
    PartitionKey,
    SessionRefused,
    ShareSession,
)

if TYPE_CHECKING:
    from penstock.machines.work_records import GrantedRun

_RECORD_LIMIT: Final = 1
"""The acquire mode (KIP-1206) in which `max_records` is exact."""
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
        self._rows: dict[PartitionKey, Row] = {}
        self._failures: dict[PartitionKey, Failure] = {}
        self._keys: dict[PartitionId, PartitionKey] = {}
        self._hurried = False
        self._acquisition: Acquisition | None = None
        self._draw = MemoryDraw(context.connection.account)
        context.on_cancel = self._end_wait

    async def run(self) -> None:
        """Carry the request out and answer it."""
        try:
            await self._run()
        finally:
            self._draw.close()

    async def _run(self) -> None:
        session, context = self._session, self._context
        async with session.taking_turns():
            acknowledged = await acknowledge(session, self._request, context)
            if self._is_last:
                await context.port_state.share_sessions.close(session)
            elif self._wants_records():
                session.end_wait = self._end_wait
                polled = begin_parking()
                await self._receive()
                context.waited += polled.seconds
            context.answer(self._answer(acknowledged))

    def _wants_records(self) -> bool:
        request = self._request
        return request.max_records > 0 < request.max_bytes and not request.is_renew_ack

    def _end_wait(self) -> None:
        self._hurried = True
        if self._acquisition is not None:
            self._acquisition.stop()

    # Receiving.

    async def _receive(self) -> None:
        """Lease what there is; if that is nothing, wait for something."""
        session, request, port_state = self._session, self._request, self._context.port_state
        places = self._places()
        is_answered_now = session.is_pressed or self._hurried or self._has_news(self._failures)
        wait_ms = min(request.max_wait, port_state.settings.connection_idle_ms)
        limits = AcquireLimits(
            messages=request.max_records,
            bytes=min(request.max_bytes, port_state.settings.fetch_bytes_max),
            wait_ms=0 if is_answered_now else wait_ms,
            pre_acquire=True,
            whole_batches=True,
            rounds_up=request.share_acquire_mode != _RECORD_LIMIT,
            draw=self._draw,
        )
        address, client = self._context.connection.client_address, self._context.client_id
        receiver = receiver_name("kafka", address, client)
        self._acquisition = acquisition = self._engine.delivery.acquisition_of(
            places, session.group, limits, receiver, self._ends_wait
        )
        leases = await acquisition.run()
        if session.is_closed:
            leased = (one for lease in leases for one in lease.leased())
            await self._engine.delivery.give_back(leased)
            return
        for lease in leases:
            self._pack(lease)
        self._failures |= self._failed(acquisition.problems)
        for partition, error in acquisition.problems.items():
            if isinstance(error, NotLeader):
                port_state.share_sessions.lead_lost(session, self._keys[partition])
        session.told = {key: code for key, (code, _) in self._failures.items()}
        if leases:
            session.rotate(self._keys[leases[-1].partition])

    def _places(self) -> list[Place]:
        """What the member reads, as far as it is there."""
        places: list[Place] = []
        for key in self._session.partitions:
            topic_id, index = key
            try:
                topic = find_topic(self._engine, topic_id)
                if not 0 <= index < len(topic.partitions):
                    raise UnknownPartition(f"topic {topic.name} has no partition {index}")
            except PenstockError as error:
                self._failures[key] = share_fetch_code(error), str(error)
                continue
            places.append((topic, index))
            self._keys[topic.partitions[index]] = key
        return places

    def _failed(self, problems: Problems) -> dict[PartitionKey, Failure]:
        found: dict[PartitionKey, Failure] = {}
        for partition, error in problems.items():
            key = self._keys[partition]
            try:
                find_topic(self._engine, key[0])
            except PenstockError as gone:  # The topic was deleted meanwhile.
                found[key] = share_fetch_code(gone), str(gone)
            else:
                found[key] = share_fetch_code(error), str(error)
        return found

    def _ends_wait(self, problems: Problems) -> bool:
        return self._has_news(self._failed(problems))

    def _has_news(self, failures: dict[PartitionKey, Failure]) -> bool:
        """An error that the last answer had already does not end the wait."""
        told = self._session.told
        return any(told.get(key) != code for key, (code, _) in failures.items())

    def _pack(self, lease: PartitionLease) -> None:
        """The messages are leased: note what the member has, and send the batches."""
        session, key = self._session, self._keys[lease.partition]
        runs = _joined(sorted(lease.runs))
        now_ms = self._engine.topics.clock.wall_ms()
        for run in runs:
            session.has(key, Lease(run.first, run.end, lease.epoch, lease.until_ms), now_ms)
        self._context.port_state.flow.delivered(lease.topic.name, lease.messages)
        if lease.written is None:
            records = b"".join(piece.batch.data for piece in lease.pieces or ())
        else:
            records = bytes(lease.written)
        self._rows[key] = {"records": records, "acquired_records": list(map(_acquired, runs))}

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
        return {
            "acquisition_lock_timeout": lock_ms(self._engine, session),
            **rows.answer(),
        }


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


def _acquired(run: "GrantedRun") -> Row:
    return {
        "first_offset": run.first,
        "last_offset": run.end - 1,
        "delivery_count": min(run.deliveries, _DELIVERIES_SHOWN_MAX),
    }
