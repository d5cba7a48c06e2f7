"""The number of dead letters of a queue in its dead-letter queue.

They are the queue's to worry about, though they are no longer in it. They are counted by the
dead-letter queue's own counters, so that the cost does not depend on how many there are; if several
queues share a dead-letter queue, each of them counts all of it, as the watch does.
"""

import asyncio
from collections.abc import Collection

from penstock.core.errors import PenstockError
from penstock.core.message_states import lying
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.engine.delivery.service import DeliveryService
from penstock.engine.topics.topics import Topics

ASKED_AT_ONCE = 16
PATIENCE_SECONDS = 2.0
"""A queue must not be unknown because the leader of its dead-letter queue is."""


async def dead_lettered(
    topics: Topics, delivery: DeliveryService, topic: Topic, group: str = DEFAULT_WORK_GROUP
) -> int:
    """Of one work group of a topic."""
    name = dead_letter_queue(topics, topic, group)
    return (await count_letters(topics, delivery, [name])).get(name, 0)


def dead_letter_queue(topics: Topics, topic: Topic, group: str) -> str:
    """The dead-letter queue of a work group; empty if dead messages stay."""
    name = topics.catalog.work_settings(topic, group).dead_letter_topic
    return "" if name == topic.name else name


async def count_letters(
    topics: Topics, delivery: DeliveryService, names: Collection[str]
) -> dict[str, int]:
    """Return the number of messages in each of these dead-letter queues. A queue that does not
    exist or cannot be reached is left out."""
    slots = asyncio.Semaphore(ASKED_AT_ONCE)

    async def count(topic: Topic) -> int | None:
        try:
            async with slots, asyncio.timeout(PATIENCE_SECONDS):
                return lying(await delivery.counts(topic))
        except (PenstockError, TimeoutError):
            return None

    found = {name: topics.catalog.topic(name) for name in sorted(set(names) - {""})}
    known = {name: topic for name, topic in found.items() if topic is not None}
    counts = await asyncio.gather(*map(count, known.values()))
    return {name: one for name, one in zip(known, counts, strict=True) if one is not None}
