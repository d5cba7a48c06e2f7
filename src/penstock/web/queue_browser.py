"""Messages of a queue for people who look, page by page, over all partitions.

Looking never leases and never counts. A page ends when it has as many messages as were asked for,
or as many bytes as an answer may have, or after so many looks in vain; then it says where to go on.

A filter is the same as that of a redrive, and sees the same: a message that died and stayed in its
queue is looked at as the dead letter that it would become.
"""

from collections.abc import Sequence

import msgspec

from penstock.core.errors import InvalidRequest, Unavailable
from penstock.core.limits import BROWSE_STEPS_MAX, MIB
from penstock.core.message import Message
from penstock.core.message_states import ALL_STATES
from penstock.core.move_filter import MoveFilter
from penstock.core.moved_message import Death, dead_letter
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.types import Offset
from penstock.engine.cluster.node import Node
from penstock.engine.delivery.requests import BrowsedMessage
from penstock.web.queue_messages import size_bytes

BROWSE_MAX = 1_000
BROWSE_STEP = 50
BROWSE_BYTES_MAX = 8 * MIB
BROWSE_LOOKS_MAX = 100
DEAD = "dead"


class BrowseWanted(msgspec.Struct, frozen=True, kw_only=True):
    """A query for messages of a queue."""

    group: str = DEFAULT_WORK_GROUP
    states: frozenset[str] = ALL_STATES
    written: str = "0"
    """The start: PARTITION:OFFSET, or an offset in the selected partition."""
    partition: int | None = None
    limit: int = BROWSE_STEP
    filter: MoveFilter | None = None
    looks_max: int = BROWSE_LOOKS_MAX


class BrowsePage(msgspec.Struct, frozen=True, kw_only=True):
    """A page of messages."""

    found: list[BrowsedMessage]
    next: str | None
    """PARTITION:OFFSET to go on at; None at the end."""


async def browse(node: Node, topic: Topic, wanted: BrowseWanted) -> BrowsePage:
    """The messages from a place on, in the order of the queue's partitions."""
    if wanted.filter is not None:
        wanted.filter.check()
    partitions, start = _from(topic, wanted)
    found: list[BrowsedMessage] = []
    bytes_left, looks_left = BROWSE_BYTES_MAX, wanted.looks_max
    places = await node.survey.places(topic.partitions)
    for index in partitions:
        place = places.get(topic.partitions[index])
        if place is None:
            raise Unavailable(f"partition {index} of {topic.name} cannot be reached now")
        start = max(start, place.starts.get(wanted.group, place.log_start))
        while start < place.end:
            if len(found) >= wanted.limit or bytes_left <= 0 or looks_left <= 0:
                return BrowsePage(found=found, next=f"{index}:{start}")
            step = BROWSE_STEP
            if wanted.filter is None:
                step = min(wanted.limit - len(found), BROWSE_STEP)
            page = await node.delivery.browse(
                topic,
                group=wanted.group,
                index=index,
                start=start,
                states=wanted.states,
                messages_max=step,
            )
            looks_left -= 1
            # One look covers so many offsets, whether there is something in them or not.
            after = Offset(start + BROWSE_STEPS_MAX)
            if len(page) == step:
                after = Offset(page[-1].message.offset + 1)
            for one in page:
                if len(found) >= wanted.limit:
                    after = one.message.offset
                    break
                if _is_meant(topic, wanted, one):
                    found.append(one)
                    bytes_left -= size_bytes(one.message)
            start = after
        start = Offset(0)
    return BrowsePage(found=found, next=None)


def as_letter(topic: Topic, group: str, one: BrowsedMessage) -> Message:
    """A message that died and stayed, as the dead letter that it would become; any other as it
    is."""
    if one.state != DEAD:
        return one.message
    message = one.message
    death = Death(
        topic=topic.name,
        topic_id=topic.topic_id,
        index=one.index,
        group=group,
        deliveries=one.deliveries,
        first_received_ms=one.first_received_ms,
        died_ms=one.until_ms,
        reason=one.reason,
    )
    made = dead_letter(message, death)
    return Message(message.offset, message.timestamp_ms, made.key, made.value, made.headers)


def check_partition(topic: Topic, index: int) -> None:
    """Refuse a partition that the topic does not have."""
    count = len(topic.partitions)
    if index >= count:
        raise InvalidRequest(f"{topic.name} has partitions 0 to {count - 1}, not {index}")


def _is_meant(topic: Topic, wanted: BrowseWanted, one: BrowsedMessage) -> bool:
    if wanted.filter is None:
        return True
    letter = as_letter(topic, wanted.group, one)
    return wanted.filter.matches(topic.topic_id, one.index, letter)


def _from(topic: Topic, wanted: BrowseWanted) -> tuple[Sequence[int], Offset]:
    """Return the partitions to browse and the offset in the first one: `from` is an offset with
    `partition`, and otherwise PARTITION:OFFSET, as in `next`."""
    first, colon, offset = wanted.written.rpartition(":")
    numbers = (first, offset) if colon else ("0", offset)
    if not all(one.isascii() and one.isdecimal() and len(one) <= 18 for one in numbers):
        raise InvalidRequest(
            f'from = "{wanted.written[:60]}" must be an offset, or PARTITION:OFFSET'
        )
    if wanted.partition is not None:
        check_partition(topic, wanted.partition)
        if colon and int(first) != wanted.partition:
            raise InvalidRequest(f"from = {wanted.written} is not in partition {wanted.partition}")
        return range(wanted.partition, wanted.partition + 1), Offset(int(offset))
    check_partition(topic, int(numbers[0]))
    return range(int(numbers[0]), len(topic.partitions)), Offset(int(offset))
