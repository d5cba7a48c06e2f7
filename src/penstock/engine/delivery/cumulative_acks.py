"""Work groups whose messages are read by offset, on the node that leads the partition.

A reader of the log, such as a Spark stream, leases nothing: it can read again what it has read. It
asks where its work group stands, reads from there, and acknowledges what it has dealt with in
ranges (a cumulative ack). Others may work in the same group, but what they have leased within such
a range is theirs no more.

A message that waits for its time must not be read before: `ready` is how far a reader may go. The
first message that waits holds up those behind it. What comes to life behind a reader, because dead
messages are delivered anew or the group was turned back, is reported in ranges: `again`.
"""

from collections.abc import Awaitable, Callable, Iterable
from itertools import islice
from typing import NamedTuple

from penstock.core.errors import Unavailable, UnknownWork
from penstock.core.limits import CUMULATIVE_ACK_STEPS_MAX
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.topics.topics import Topics
from penstock.machines.machine import Refused, refusal_error
from penstock.machines.queue_commands import CumulativeAck
from penstock.machines.queues import CumulativeAckResult
from penstock.machines.run import State
from penstock.machines.work import WorkGroup

AGAIN_RANGES_MAX = 100
"""They stand in a stream's checkpoint."""

OpenGroup = Callable[[Topic, int, str], Awaitable[None]]


class Standing(NamedTuple):
    """Where a work group stands in a partition."""

    first: Offset
    """Everything below is dealt with; the dead count as that."""
    ready: Offset
    """Nothing from the asked offset up to here waits for its time."""
    end: Offset
    again: tuple[tuple[Offset, Offset], ...]
    """Ranges before the asked offset that can be delivered, some of them."""


async def ack_range(
    topics: Topics,
    open_group: OpenGroup,
    topic: Topic,
    index: int,
    group: str,
    *,
    first: Offset,
    end: Offset,
    dead: Iterable[tuple[Offset, str]] = (),
    stream: str = "",
    batch: int = -1,
) -> CumulativeAckResult:
    """Acknowledge a range of messages, but for the dead. `open_group` opens a work group that is
    used for the first time, as a receive does."""
    partition = topic.partitions[index]
    shard = topics.led_shard(partition)
    command = CumulativeAck(
        partition=partition,
        group=group,
        first=first,
        end=end,
        dead=tuple(dead),
        stream=stream,
        batch=batch,
    )
    reply = await shard.change(command)
    if isinstance(reply, Refused) and isinstance(refusal_error(reply), UnknownWork):
        await open_group(topic, index, group)
        reply = await shard.change(command)
    if isinstance(reply, Refused):
        raise refusal_error(reply)
    assert isinstance(reply, CumulativeAckResult), f"a cumulative ack was answered with {reply}"
    return reply


def standing(topics: Topics, topic: Topic, index: int, group: str, offset: Offset) -> Standing:
    """Where a work group stands, and how far may be read from an offset."""
    partition = topic.partitions[index]
    machine = topics.led_shard(partition).machine
    work = machine.queues.work(partition, group)
    if work is None:
        raise UnknownWork(
            f"queue {topic.name} has no work group {group} on partition {index}: let it begin first"
        )
    end = machine.bounds(partition).high_watermark
    now_ms = topics.clock.wall_ms()
    ready = _ready(work, offset, end, now_ms)
    again = tuple(_again(work, offset, now_ms))
    if work.is_recalling and work.recalled <= offset < end and not (again or work.queue.paused):
        # To say that there is nothing to read would end a stream that reads what there is.
        raise Unavailable(
            f"work group {group} is still reading the headers of older messages", retry_after_ms=50
        )
    return Standing(_first_left(work), ready, end, again)


def _first_left(work: WorkGroup) -> Offset:
    """Dead messages are passed over, so many of them: early perhaps, and never late."""
    for step, run in enumerate(work.runs_from(Offset(0))):
        if (
            step == CUMULATIVE_ACK_STEPS_MAX
            or run.state is not State.DEAD
            or run.first >= work.cursor
        ):
            return min(run.first, work.cursor)
    return work.cursor


def _ready(work: WorkGroup, offset: Offset, end: Offset, now_ms: int) -> Offset:
    """Only so many runs are looked at; a request from there continues."""
    if work.queue.paused:
        return offset
    limit = work.recalled if work.is_recalling else end
    for step, run in enumerate(work.runs_from(offset)):
        if run.first >= limit:
            break
        if step == CUMULATIVE_ACK_STEPS_MAX or (run.state is State.DELAYED and run.at_ms > now_ms):
            return max(offset, run.first)
    return max(offset, limit)


def _again(work: WorkGroup, offset: Offset, now_ms: int) -> list[tuple[Offset, Offset]]:
    """Only so many runs are looked at, and so many ranges reported; the rest follows when these are
    acknowledged."""
    found: list[tuple[Offset, Offset]] = []
    if work.is_held:
        return found
    looked = min(offset, work.cursor)
    for run in islice(work.runs_from(Offset(0)), CUMULATIVE_ACK_STEPS_MAX):
        if run.first >= looked or len(found) == AGAIN_RANGES_MAX:
            break
        if run.state is State.READY:
            _join(found, run.first, min(run.end, looked))
    if work.cursor < offset and len(found) < AGAIN_RANGES_MAX:
        _join(found, work.cursor, _ready(work, work.cursor, offset, now_ms))
    return found


def _join(found: list[tuple[Offset, Offset]], first: Offset, end: Offset) -> None:
    if found and found[-1][1] == first:
        found[-1] = (found[-1][0], end)
    elif first < end:
        found.append((first, end))
