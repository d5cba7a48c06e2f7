"""Cumulative ack: a work group that is read by offset and acknowledged by range, without leases.

A consumer that can read the same messages again, as a Spark stream can, needs no leases: it starts
at the work group's position, reads the log from there, and afterwards acknowledges a range and
names the messages in it that failed. Every request here may be repeated.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from penstock.client.connection.request_router import RequestRouter
from penstock.core.errors import InvalidRequest
from penstock.core.limits import CUMULATIVE_ACK_DEAD_MAX
from penstock.core.types import EARLIEST, LATEST
from penstock.wire.cumulative_ack_requests import (
    AskStanding,
    BeginWork,
    CumulativeAck,
    CumulativeAckResult,
    Standing,
)
from penstock.wire.requests import AskTopic, Done, TopicInfo

Beginning = Literal["earliest", "latest"]
Dying = tuple[tuple[int, str], ...]
_STARTS: dict[str, int] = {"earliest": EARLIEST, "latest": LATEST}


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkStanding:
    """The position of a work group in one partition, in offsets."""

    first: int
    """Everything below is dealt with; the dead count as that."""
    ready: int
    """From the offset asked about up to here nothing waits for its time: so far it may be read."""
    end: int
    """The offset that the next message gets."""
    again: tuple[tuple[int, int], ...] = ()
    """Ranges before the offset asked about that can be delivered, dead messages that live again
    above all; some of them, the others follow when these are done."""


async def begin_work(router: RequestRouter, name: str, group: str, start: Beginning) -> None:
    """Let a work group begin; one that has begun stays where it is."""
    if start not in _STARTS:
        raise InvalidRequest(f"a work group begins at earliest or latest, not at {start!r}")
    await router.ask(BeginWork(name, group, _STARTS[start]), Done)


async def standings(
    router: RequestRouter, name: str, group: str, offsets: Mapping[int, int]
) -> dict[int, WorkStanding]:
    """By partition; `offsets` are those to start reading from, 0 if not named."""
    deadline = router.deadline(None)
    info = await router.ask(AskTopic(name), TopicInfo, deadline=deadline)  # It may have grown.
    router.metadata.note(info)

    async def ask(index: int) -> WorkStanding:
        answer, _ = await router.ask_leader(
            name,
            index,
            lambda found: (
                AskStanding(found.topic_id, index, group, offsets.get(index, 0)),
                b"",
            ),
            Standing,
            deadline=deadline,
        )
        return WorkStanding(
            first=answer.first, ready=answer.ready, end=answer.end, again=answer.again
        )

    indexes = range(len(info.leaders))
    found = await asyncio.gather(*(ask(index) for index in indexes))
    return dict(zip(indexes, found, strict=True))


async def ack_range(
    router: RequestRouter,
    name: str,
    group: str,
    partition: int,
    first: int,
    end: int,
    dead: Mapping[int, str],
    *,
    stream: str = "",
    batch: int = -1,
) -> int:
    """Acknowledge a range after its dead have died, in as many requests as it takes."""
    if not 0 <= first <= end:
        raise InvalidRequest(f"offsets {first} to {end} are no range of messages")
    if dead and min(dead) < 0:
        raise InvalidRequest(f"there is no message {min(dead)}")
    deadline = router.deadline(None)
    named = tuple(sorted(dead.items()))
    dying = [
        named[at : at + CUMULATIVE_ACK_DEAD_MAX]
        for at in range(0, len(named) or 1, CUMULATIVE_ACK_DEAD_MAX)
    ]

    async def ask(start: int, stop: int, die: Dying, name_it: str) -> CumulativeAckResult:
        answer, _ = await router.ask_leader(
            name,
            partition,
            lambda found: (
                CumulativeAck(found.topic_id, partition, group, start, stop, die, name_it, batch),
                b"",
            ),
            CumulativeAckResult,
            deadline=deadline,
        )
        return answer

    count = 0
    for die in dying[:-1]:
        count += (await ask(first, first, die, "")).count
    die = dying[-1]
    while True:
        answer = await ask(first, end, die, stream)
        count += answer.count
        if answer.upto >= end:
            return count
        first, die = answer.upto, ()
