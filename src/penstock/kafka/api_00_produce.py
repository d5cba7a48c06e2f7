"""Produce, key 0: append record batches.

Versions    3–13, advertised from 0 (KAFKA-18659; versions 0–2 carry older formats).
Behaviour   One batch per partition, checked and then appended as it came; one that clients cannot
            read is refused with INVALID_RECORD. Batches of one connection are
            appended in the order in which they came, whatever is still under way. Acks -1 is on
            disk on a majority, 1 on the leader's disk, 0 has no answer: an error closes the
            connection. Errors that pass by themselves have codes that every client repeats; a gap
            before a batch is at first taken for one of them (see `sequence_gaps`). Topics by id
            from version 13; a request to the wrong broker is answered with the leader from version
            10.
KIPs        98 (idempotence), 467 (error messages, and which records of a compacted topic lack a
            key; other wrong batches are refused as a whole), 482, 516, 951.
Not served  Transactions: a transactional id is refused with INVALID_TXN_STATE. The client's timeout
            is not used: an append ends when it is durable or when leadership is lost.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from penstock.core.errors import MissingKeys, OutOfOrderSequence, PenstockError
from penstock.engine.topics.topics import Acks, Produced
from penstock.kafka.context import Context
from penstock.kafka.error_codes import (
    INVALID_RECORD,
    INVALID_REQUIRED_ACKS,
    NOT_ENOUGH_REPLICAS,
    NOT_LEADER_OR_FOLLOWER,
    REQUEST_TIMED_OUT,
    produce_code,
)
from penstock.kafka.fast_codec import (
    Endpoint,
    ProduceRequest,
    ProduceRow,
    TopicKey,
    read_produce,
    write_produce,
)
from penstock.kafka.metadata import find_topic, hint

if TYPE_CHECKING:
    from penstock.core.topic import Topic

INVALID_TXN_STATE: Final = 48
_ACKS: Final = {int(acks): acks for acks in Acks}


def start(frame: bytearray, position: int, context: Context) -> None:
    """Hand every batch to the engine, now; answer when all are settled."""
    request = read_produce(frame, position, context.version)
    acks = _ACKS.get(request.acks)
    if acks is None:
        _refuse_all(request, context, INVALID_REQUIRED_ACKS, f"acks={request.acks} means nothing")
    elif request.transactional_id is not None:
        _refuse_all(request, context, INVALID_TXN_STATE, "transactions are not served yet")
    else:
        _Produce(context, acks).submit(request)


def _refuse_all(request: ProduceRequest, context: Context, code: int, text: str) -> None:
    produce = _Produce(context, Acks.ALL if request.acks else Acks.NONE)
    for key, batches in request.topics:
        rows = [ProduceRow(index, code, message=text) for index, _ in batches]
        produce.topics.append((key, rows))
        produce.failure = text
    context.count_error(code)
    produce.answer()


class _Produce:
    """One request under way: rows are filled in as batches are settled."""

    __slots__ = ("acks", "context", "endpoints", "failure", "topics", "unsettled")

    def __init__(self, context: Context, acks: Acks) -> None:
        self.context = context
        self.acks = acks
        self.topics: list[tuple[TopicKey, list[ProduceRow]]] = []
        self.endpoints: dict[int, Endpoint] = {}
        self.failure = ""
        self.unsettled = 0

    def submit(self, request: ProduceRequest) -> None:
        for key, batches in request.topics:
            rows: list[ProduceRow] = []
            self.topics.append((key, rows))
            try:
                topic = find_topic(self.context.engine, key)
            except PenstockError as error:
                rows += [self._refusal(index, error, None) for index, _ in batches]
                continue
            for index, batch in batches:
                self._submit_batch(topic, index, batch, rows)
        if not self.unsettled:
            self.answer()

    def _submit_batch(
        self, topic: "Topic", index: int, batch: memoryview | None, rows: list[ProduceRow]
    ) -> None:
        if not batch:
            self.failure = "no records"
            rows.append(ProduceRow(index, INVALID_RECORD, message="a batch has to have records"))
            self.context.count_error(INVALID_RECORD)
            return
        context = self.context
        future = context.engine.topics.produce(
            topic, index, batch, self.acks, context.port_state.flow
        )
        if future.done():
            rows.append(self._row(topic, index, future))
            return
        self.unsettled += 1
        future.add_done_callback(partial(self._settle, topic, index, rows, len(rows)))
        rows.append(ProduceRow(index, 0))

    def _settle(
        self,
        topic: "Topic",
        index: int,
        rows: list[ProduceRow],
        place: int,
        future: "asyncio.Future[Produced]",
    ) -> None:
        rows[place] = self._row(topic, index, future)
        self.unsettled -= 1
        if not self.unsettled:
            self.answer()

    def _row(self, topic: "Topic", index: int, future: "asyncio.Future[Produced]") -> ProduceRow:
        try:
            base_offset, log_append_ms, log_start = future.result()
        except PenstockError as error:
            return self._refusal(index, error, topic)
        except BaseException as error:  # noqa: BLE001
            # Cancelled, or a bug of ours: the outcome of the batch is unknown.
            self.context.fail(error)
            return ProduceRow(index, REQUEST_TIMED_OUT)
        return ProduceRow(index, 0, base_offset, log_append_ms, log_start)

    def _refusal(self, index: int, error: PenstockError, topic: "Topic | None") -> ProduceRow:
        code = produce_code(error)
        if isinstance(error, OutOfOrderSequence) and topic is not None:
            port_state = self.context.port_state
            now_ms = port_state.clock.monotonic_ms()
            if port_state.sequence_gaps.will_close(topic.partitions[index], error, now_ms):
                code = NOT_ENOUGH_REPLICAS  # Of the codes that every client repeats, the mildest.
        self.failure = str(error)
        self.context.count_error(code)
        found = None
        if code == NOT_LEADER_OR_FOLLOWER and topic is not None:
            found = hint(self.context.engine, topic.partitions[index])
        if found is None:
            wrong = error.records if isinstance(error, MissingKeys) else ()
            return ProduceRow(index, code, message=str(error), wrong=wrong)
        self.endpoints[found[1].node] = found[1]
        return ProduceRow(index, code, message=str(error), hint=found[0])

    def answer(self) -> None:
        context = self.context
        if self.acks is not Acks.NONE:
            endpoints = tuple(self.endpoints.values())
            context.finish(
                [write_produce(context.version, context.correlation_id, self.topics, endpoints)]
            )
        elif self.failure:
            context.close(f"acks=0 and {self.failure}")
        else:
            context.finish([])
