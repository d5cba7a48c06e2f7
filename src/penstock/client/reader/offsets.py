"""Lookup of offsets at the leaders: the start and end of logs, and the offset for a time.

Partitions of one node are asked about together. One whose leader has moved is asked about again, of
the new one, until the deadline.
"""

import asyncio
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Final

from penstock.client.connection.request_router import NOTHING, RequestRouter
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import (
    DeadlinePassed,
    InvalidRequest,
    NotLeader,
    OutcomeUnknown,
    PenstockError,
    Unavailable,
    UnknownPartition,
)
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.failures import remake_error
from penstock.wire.read_requests import FETCH_PARTS_MAX, AskOffset, AskOffsets, OffsetsFound

_PASSES: Final = (Unavailable, OutcomeUnknown, UnknownPartition)
"""Asked again, after a while: a topic's id may be known to one node and not yet to another, and a
partition that was made a moment ago may not be in its shard yet."""


async def find_offsets(
    router: RequestRouter, asked: Mapping[TopicPartition, int], *, deadline: float
) -> dict[TopicPartition, int]:
    """The offset for each partition's time in milliseconds, `LATEST` or `EARLIEST`."""
    retries = router.retrier.until(deadline)
    left = dict(asked)
    found: dict[TopicPartition, int] = {}
    while True:
        problem = await _ask_once(router, left, found, deadline)
        left = {part: time_ms for part, time_ms in left.items() if part not in found}
        if not left:
            return found
        if not await retries.pause(problem):
            raise DeadlinePassed(f"no leader answers where {_name(left)} starts or ends: {problem}")


async def ends_of(
    router: RequestRouter, parts: Iterable[TopicPartition], *, deadline: float
) -> dict[TopicPartition, int]:
    """Behind the last message of each partition."""
    return await find_offsets(router, dict.fromkeys(parts, LATEST), deadline=deadline)


async def starts_of(
    router: RequestRouter, parts: Iterable[TopicPartition], *, deadline: float
) -> dict[TopicPartition, int]:
    """The first message of each partition."""
    return await find_offsets(router, dict.fromkeys(parts, EARLIEST), deadline=deadline)


def milliseconds_of(when: datetime) -> int:
    """A time as messages carry it; one without a zone is ambiguous."""
    if when.tzinfo is None:
        raise InvalidRequest(
            f"{when!r} is no time with a zone: write datetime(2026, 1, 31, tzinfo=UTC)"
        )
    return max(0, int(when.timestamp() * 1_000))


async def _ask_once(
    router: RequestRouter,
    left: Mapping[TopicPartition, int],
    found: dict[TopicPartition, int],
    deadline: float,
) -> PenstockError | None:
    """Ask every leader once; returns a reason why something is still missing."""
    by_node: dict[int, list[tuple[TopicPartition, bytes]]] = {}
    problem: PenstockError | None = None
    for part in left:
        info = await router.find(part.topic, NOTHING, deadline)
        if not 0 <= part.partition < len(info.leaders):
            raise UnknownPartition(
                f"{part.topic} has partitions 0 to {len(info.leaders) - 1}, not {part.partition}"
            )
        node = info.leaders[part.partition]
        if node:
            by_node.setdefault(node, []).append((part, info.topic_id))
        else:
            problem = NotLeader(f"partition {part.partition} of {part.topic} has no leader now")
            router.metadata.forget(part.topic, info)
    portions = [
        (node, rows[first : first + FETCH_PARTS_MAX])
        for node, rows in by_node.items()
        for first in range(0, len(rows), FETCH_PARTS_MAX)
    ]
    seconds = min(
        router.settings.attempt_timeout,
        max(0.001, deadline - asyncio.get_running_loop().time()),
    )
    problems = await asyncio.gather(
        *(_ask_node(router, node, rows, left, found, seconds) for node, rows in portions)
    )
    return next((one for one in problems if one is not None), problem)


async def _ask_node(
    router: RequestRouter,
    node: int,
    rows: list[tuple[TopicPartition, bytes]],
    left: Mapping[TopicPartition, int],
    found: dict[TopicPartition, int],
    seconds: float,
) -> PenstockError | None:
    asked = tuple(AskOffset(topic_id, part.partition, left[part]) for part, topic_id in rows)
    try:
        answer, _ = await router.ask_node(node, AskOffsets(asked), OffsetsFound, seconds)
    except _PASSES as error:
        for part, _ in rows:
            router.metadata.forget(part.topic)
        return error
    problem: PenstockError | None = None
    for (part, _), row in zip(rows, answer.parts, strict=True):
        if row.failure is None:
            found[part] = row.offset
            continue
        problem = remake_error(row.failure)
        if not isinstance(problem, _PASSES):
            raise problem
        router.metadata.forget(part.topic)
    return problem


def _name(parts: Mapping[TopicPartition, int]) -> str:
    first = next(iter(parts))
    others = f" and {len(parts) - 1} more partitions" if len(parts) > 1 else ""
    return f"partition {first.partition} of {first.topic}{others}"
