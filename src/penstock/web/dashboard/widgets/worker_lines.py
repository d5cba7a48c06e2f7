"""The workers of a queue as lines of a page."""

import asyncio
from collections.abc import Iterable

import msgspec

from penstock.core.errors import PenstockError
from penstock.core.topic import Topic
from penstock.engine.cluster.node import Node
from penstock.engine.inspection.worker_survey import MINUTE_MS, WorkerActivity

SHOWN = 100
PATIENCE_SECONDS = 2.0
RECENT_MS = 15 * MINUTE_MS
"""A worker that is gone is shown for so long."""


class WorkerLine(msgspec.Struct, frozen=True, kw_only=True):
    """A worker, as a row of the table; None where its deliveries are not known any more."""

    name: str
    is_present: bool
    """True if it sent a receive in the last minute, or holds messages."""
    leased: int
    rate: float | None
    """Acked a second, over the last minute, or since it began; None if that is not known."""
    delivered: int | None
    failed: int | None
    since_age_ms: int | None
    last_age_ms: int | None
    error: str
    error_age_ms: int | None


async def worker_lines(
    node: Node, topic: Topic, group: str, present: Iterable[str]
) -> list[WorkerLine]:
    """The workers that ask now, and those that were seen lately; while the leaders cannot be asked,
    the names alone."""
    try:
        async with asyncio.timeout(PATIENCE_SECONDS):
            found = await node.workers.workers(topic, group)
    except (PenstockError, TimeoutError):
        found = []
    now_ms = node.engine.topics.clock.wall_ms()
    here = set(present)
    known = {one.name: one for one in found}
    lines = [_line(known.get(name, WorkerActivity(name)), True, now_ms) for name in sorted(here)]
    gone = [one for one in found if one.name not in here and one.last_ms >= now_ms - RECENT_MS]
    return lines + [_line(one, one.leased > 0, now_ms) for one in gone]


def _line(one: WorkerActivity, is_present: bool, now_ms: int) -> WorkerLine:
    known = one.since_ms > 0
    span_ms = min(MINUTE_MS, max(1_000, now_ms - one.since_ms))
    return WorkerLine(
        name=one.name,
        is_present=is_present,
        leased=one.leased,
        rate=round(1_000 * one.minute_acked / span_ms, 3) if known else None,
        delivered=one.delivered if known else None,
        failed=one.failed if known else None,
        since_age_ms=_age(one.since_ms, now_ms),
        last_age_ms=_age(one.last_ms, now_ms),
        error=one.error,
        error_age_ms=_age(one.error_ms, now_ms),
    )


def _age(at_ms: int, now_ms: int) -> int | None:
    return max(0, now_ms - at_ms) if at_ms > 0 else None
