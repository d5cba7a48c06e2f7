"""Settles what a member of a share group acknowledges.

Acknowledgements come in batches: a range of offsets and either one type for all of it or one for
each offset.

    type  Kafka's word  what happens
    0     gap           there is no message at this offset: done
    1     accept        done
    2     release       deliver it again, to any member
    3     reject        never deliver it again
    4     renew         the lease starts again (KIP-1222, version 2 on, in a request of its own)

The batches of a partition are settled together or not at all: a request that names one message
which the member does not have is refused for all of them, with INVALID_RECORD_STATE. Messages that
are not stored any more, because their retention has ended, are ignored: nothing is left to settle.
"""

import asyncio
from collections.abc import Sequence
from itertools import islice
from typing import Final

from penstock.core.errors import InvalidRequest, PenstockError, UnknownPartition, UnknownWork
from penstock.core.limits import KAFKA_ROWS_AT_ONCE, SETTLEMENTS_MAX
from penstock.core.types import Offset, TopicId
from penstock.core.verdicts import Outcome, Verdict
from penstock.engine.topics.queue_upkeep import work_rules
from penstock.kafka.codec import Message
from penstock.kafka.context import Context
from penstock.kafka.error_codes import share_acknowledge_code
from penstock.kafka.metadata import find_topic
from penstock.kafka.share_sessions import PartitionKey, ShareSession
from penstock.machines.queue_commands import Settlement

INVALID_RECORD_STATE: Final = 121
_RENEW: Final = 4
_VERDICTS: Final = {
    0: Verdict.ACK,
    1: Verdict.ACK,
    2: Verdict.RELEASE,
    3: Verdict.REJECT,
    _RENEW: Verdict.EXTEND,
}

Failure = tuple[int, str]
"""An error code and a sentence."""
Span = tuple[Offset, Offset, Verdict]


async def acknowledge(
    session: ShareSession, request: Message, context: Context
) -> dict[PartitionKey, Failure | None]:
    """Settle what a request acknowledges; for each partition it speaks of, what went wrong."""
    asked: dict[PartitionKey, list[Message]] = {}
    for topic in request.topics:
        for one in topic.partitions:
            if one.acknowledgement_batches:
                key = (TopicId(topic.topic_id), one.partition_index)
                asked.setdefault(key, []).extend(one.acknowledgement_batches)
    found: dict[PartitionKey, Failure | None] = {}
    rest = iter(asked.items())
    while portion := list(islice(rest, KAFKA_ROWS_AT_ONCE)):
        settling = (
            _settle(session, key, batches, context, renews=request.is_renew_ack)
            for key, batches in portion
        )
        outcomes = await asyncio.gather(*settling)
        found |= dict(zip((key for key, _ in portion), outcomes, strict=True))
    for failure in found.values():
        if failure is not None:
            context.count_error(failure[0])
    return found


async def _settle(
    session: ShareSession,
    key: PartitionKey,
    batches: Sequence[Message],
    context: Context,
    *,
    renews: bool,
) -> Failure | None:
    engine, index = context.engine, key[1]
    try:
        spans = read_batches(batches, renews=renews)
        if renews and not engine.topics.catalog.group_settings(session.group).renews:
            return INVALID_RECORD_STATE, "share.renew.acknowledge.enable is false for this group"
        topic = find_topic(engine, key[0])
        if not 0 <= index < len(topic.partitions):
            raise UnknownPartition(f"topic {topic.name} has no partition {index}")
        lease_ms = work_rules(engine.topics.catalog, topic, session.group).lease_ms
        log_start = engine.topics.bounds(topic, index).log_start
        spans = [
            (max(first, log_start), end, verdict)
            for first, end, verdict in spans
            if end > log_start
        ]
        settlements = _settlements(session, key, spans, lease_ms)
        if settlements is None:
            return INVALID_RECORD_STATE, "the member does not have some of these messages"
        outcomes: list[Outcome] = []
        for place in range(0, len(settlements), SETTLEMENTS_MAX):
            portion = settlements[place : place + SETTLEMENTS_MAX]
            outcomes += await engine.delivery.settle_at_leader(topic, index, session.group, portion)
    except UnknownWork as error:
        session.leases.pop(key, None)
        return INVALID_RECORD_STATE, str(error)
    except PenstockError as error:
        return share_acknowledge_code(error), str(error)
    leases = session.leases.get(key)
    for one, outcome in zip(settlements, outcomes, strict=True):
        if leases is None:
            break  # The session has ended meanwhile.
        if one.verdict is not Verdict.EXTEND or outcome is not Outcome.DONE:
            leases.drop(one.first, one.end)
    if any(outcome is not Outcome.DONE for outcome in outcomes):
        return INVALID_RECORD_STATE, "some of these messages were leased for too long"
    return None


def _settlements(
    session: ShareSession, key: PartitionKey, spans: Sequence[Span], lease_ms: int
) -> list[Settlement] | None:
    """The verdicts, by lease; None if some of the messages are not the member's."""
    leases = session.leases.get(key)
    if leases is None:
        return None
    settlements: list[Settlement] = []
    for first, end, verdict in spans:
        found = leases.find(first, end)
        if found is None:
            return None
        delay_ms = lease_ms if verdict is Verdict.EXTEND else -1
        settlements += [
            Settlement(one.first, one.end, one.epoch, verdict, delay_ms, _reason(verdict))
            for one in found
        ]
    return settlements


def _reason(verdict: Verdict) -> str:
    return "rejected by a share consumer" if verdict is Verdict.REJECT else ""


def read_batches(batches: Sequence[Message], *, renews: bool) -> list[Span]:
    """What the batches of one partition say, neighbours of one verdict together."""
    spans: list[Span] = []
    next_offset = 0
    for batch in batches:
        first, end = batch.first_offset, batch.last_offset + 1
        if not next_offset <= first < end:
            raise InvalidRequest(
                f"a batch acknowledges offsets {first} to {batch.last_offset} after {next_offset};"
                " batches ascend and are not empty"
            )
        next_offset = end
        types = batch.acknowledge_types
        if len(types) not in (1, end - first):
            raise InvalidRequest(
                f"{len(types)} types for {end - first} offsets; one for all, or one for each"
            )
        for known in types:
            if known not in _VERDICTS or (known == _RENEW and not renews):
                raise InvalidRequest(f"an acknowledgement of type {known} is not known here")
        if len(types) == 1:
            spans.append((Offset(first), Offset(end), _VERDICTS[types[0]]))
        else:
            spans += _by_offset(first, [_VERDICTS[known] for known in types])
    return spans


def _by_offset(first: int, verdicts: Sequence[Verdict]) -> list[Span]:
    """One verdict for each offset, neighbours of one verdict put together."""
    spans: list[Span] = []
    begin = 0
    for place in range(1, len(verdicts) + 1):
        if place == len(verdicts) or verdicts[place] is not verdicts[begin]:
            spans.append((Offset(first + begin), Offset(first + place), verdicts[begin]))
            begin = place
    return spans
