"""ElectLeaders, key 43: let the brokers lead that should.

Versions    0–2.
Behaviour   Type 0, preferred: the shard of each partition is handed over to the first of its
            replicas, and with it all partitions of that shard. The leader is asked until that one
            leads, or for the request's timeout, and the answer is REQUEST_TIMED_OUT then. Where it
            leads already the answer is ELECTION_NOT_NEEDED, and where it is not up
            PREFERRED_LEADER_NOT_AVAILABLE. No partitions named is all of them, and those that need
            nothing are left out then. Leaders also settle by themselves, some ten seconds after a
            broker has come back.
KIPs        183, 460.
Not served  Type 1, unclean: a broker that misses what was acknowledged never leads. Where there is
            a leader the answer is ELECTION_NOT_NEEDED, else ELIGIBLE_LEADERS_NOT_AVAILABLE.
"""

import asyncio
from enum import IntEnum
from typing import TYPE_CHECKING, Final

from penstock.core.errors import (
    InvalidRequest,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownPartition,
)
from penstock.core.retries import LEADER, POLL
from penstock.core.types import NO_NODE, NodeId, ShardId
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, refused_with

if TYPE_CHECKING:
    from penstock.engine.cluster.administration import Cluster

PREFERRED_LEADER_NOT_AVAILABLE: Final = 80
ELIGIBLE_LEADERS_NOT_AVAILABLE: Final = 83
ELECTION_NOT_NEEDED: Final = 84
AGAIN_SECONDS: Final = 2.0
"""Longer than a handover is tried for."""
TIMEOUT_MS_MAX: Final = 60_000


class Election(IntEnum):
    """The replicas that may be elected."""

    PREFERRED = 0
    UNCLEAN = 1


class _Outcome(IntEnum):
    """What became of a shard, apart from errors."""

    ELECTED = 0
    NOT_NEEDED = ELECTION_NOT_NEEDED
    NOT_UP = PREFERRED_LEADER_NOT_AVAILABLE
    NOBODY = ELIGIBLE_LEADERS_NOT_AVAILABLE


_TEXTS: Final = {
    _Outcome.NOT_NEEDED: "the partition has the leader it should have",
    _Outcome.NOT_UP: "the broker that should lead is not up; start it, or try again",
    _Outcome.NOBODY: "no majority of the replicas is up, and none may lead without one: start them",
}


async def handle(request: Message, context: Context) -> Answer:
    """Hand over each shard concerned once, side by side, and answer for its partitions."""
    if request.election_type not in list(Election):
        raise InvalidRequest(
            f"there is no election of type {request.election_type}; 0 is preferred, 1 unclean"
        )
    election = Election(request.election_type)
    asked, everything = await _asked(request, context), request.topic_partitions is None
    shards = sorted({shard for rows in asked.values() for shard in rows.values() if shard})
    timeout_ms = max(0, min(request.timeout, TIMEOUT_MS_MAX))
    found = await asyncio.gather(
        *(_elect(shard, election, timeout_ms, context) for shard in shards)
    )
    outcomes = dict(zip(shards, found, strict=True))
    results = []
    for name, rows in asked.items():
        partitions = [
            _row(index, outcomes[shard] if shard else None, context)
            async for index, shard in context.each(rows.items())
            if not (everything and shard and outcomes[shard] is _Outcome.NOT_NEEDED)
        ]
        if partitions:
            results.append({"topic": name, "partition_result": partitions})
    return {"replica_election_results": results}


async def _asked(request: Message, context: Context) -> dict[str, dict[int, ShardId | None]]:
    """The shard of each partition asked for, by topic and index; None where there is none."""
    topics = context.engine.topics.catalog.topics
    asked: dict[str, dict[int, ShardId | None]] = {}
    if request.topic_partitions is None:
        wanted = [(name, range(len(topics[name].partitions))) for name in sorted(topics)]
    else:
        wanted = [(one.topic, one.partitions) for one in request.topic_partitions]
    for name, indexes in wanted:
        topic = topics.get(name)
        rows = asked.setdefault(name, {})
        async for index in context.each(indexes):
            if topic is None or not 0 <= index < len(topic.partitions):
                rows[index] = None
            else:
                rows[index] = context.engine.topics.shard_of(topic.partitions[index])
    return asked


async def _elect(
    shard: ShardId, election: Election, timeout_ms: int, context: Context
) -> _Outcome | PenstockError:
    engine = context.engine
    leader, replicas = engine.topics.leader(shard).node, engine.topics.replicas(shard)
    leads = leader != NO_NODE and not engine.topics.is_read_only(shard)
    if election is Election.UNCLEAN:
        return _Outcome.NOT_NEEDED if leads else _Outcome.NOBODY
    if leads and replicas[:1] == (leader,):
        return _Outcome.NOT_NEEDED
    if not leads or not replicas or replicas[0] not in engine.topics.alive():
        return _Outcome.NOT_UP
    cluster = context.port_state.cluster
    if cluster is None:
        return Unavailable("this port cannot change leaders; they settle by themselves")
    try:
        await _hand_over(shard, replicas[0], timeout_ms, cluster, context)
    except PenstockError as error:
        return error
    return _Outcome.ELECTED


async def _hand_over(
    shard: ShardId, target: NodeId, timeout_ms: int, cluster: "Cluster", context: Context
) -> None:
    """Ask for it, again and again: a leader that is busy keeps its place, and so does one that
    was elected this moment."""
    retrier = context.engine.topics.retrier
    retries = retrier.within(timeout_ms / 1_000, LEADER)
    while True:
        seconds = min(AGAIN_SECONDS, retries.left)
        again = retrier.now() + seconds
        refusal: PenstockError = OutcomeUnknown(
            f"broker {target} does not lead yet, but it may soon"
        )
        try:
            await cluster.transfer(shard, target, seconds=seconds)
        except (Unavailable, OutcomeUnknown) as error:
            refusal = error
        if await _is_led(shard, target, again, context):
            return
        if not await retries.pause(refusal):
            raise refusal


async def _is_led(shard: ShardId, target: NodeId, deadline: float, context: Context) -> bool:
    topics = context.engine.topics
    retries = topics.retrier.until(deadline, POLL)
    while topics.leader(shard).node != target:
        if not await retries.pause():
            return False
    return True


def _row(index: int, outcome: _Outcome | PenstockError | None, context: Context) -> Row:
    row: Row = {"partition_id": index, "error_message": None}
    if outcome is None:
        return row | refused(context, UnknownPartition("there is no such partition"))
    if isinstance(outcome, PenstockError):
        return row | refused(context, outcome)
    if outcome is _Outcome.ELECTED:
        return row
    return row | refused_with(context, int(outcome), _TEXTS[outcome])
