"""Where a share group begins with a topic that it has never read.

`share.auto.offset.reset` says: at the end, at the start, or with messages of a certain age. All
partitions are opened at once, so that nothing is missed in those that nobody has asked for yet. A
partition that was added to a topic the group knows is read from its start: what was written there
before the first fetch must not get lost.

The work group that SQS and others share by default goes by its topic's rules, not by a share
group's, and begins at the start.
"""

import asyncio
from typing import TYPE_CHECKING

from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.engine.topics.queue_upkeep import work_rules
from penstock.machines.queues import EARLIEST, LATEST

if TYPE_CHECKING:
    from penstock.engine.engine import Engine
    from penstock.machines.catalog import Topic


async def open_work(engine: "Engine", topic: "Topic", group: str) -> None:
    """Let a share group begin with a topic; returns when its partitions can be read."""
    settings = engine.topics.catalog.group_settings(group)
    rules = work_rules(engine.topics.catalog, topic, group)
    if group == DEFAULT_WORK_GROUP or settings.reset == "earliest":
        await engine.delivery.open(topic, group, start=EARLIEST, rules=rules)
    elif settings.reset == "latest":
        places = await engine.survey.places(topic.partitions)
        is_known = any(group in place.starts for place in places.values())
        start = EARLIEST if is_known else LATEST
        await engine.delivery.open(topic, group, start=start, rules=rules)
    else:
        since_ms = engine.topics.clock.wall_ms() - settings.reset_ms
        places = await engine.survey.places(topic.partitions, time_ms=since_ms)
        await asyncio.gather(
            *(
                engine.delivery.open(topic, group, start=place.at_time, rules=rules, index=index)
                for index, partition in enumerate(topic.partitions)
                if (place := places.get(partition)) is not None
            )
        )
