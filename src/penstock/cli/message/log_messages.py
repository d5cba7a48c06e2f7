"""The messages of a topic as a log has them, for `penstock consume`.

Without `--follow`, a read ends at the end of the topic as it was at the start: a topic that is
written to all the time would otherwise never be read to its end.
"""

from penstock.cli.message.output import Output
from penstock.client.client import Client
from penstock.client.descriptions import TopicDescription
from penstock.client.reader.start_position import Start
from penstock.client.record import Record
from penstock.core.errors import UnknownPartition
from penstock.core.log_place import Anchor, Place

WAIT_SECONDS = 10.0
"""The duration of one long poll at the end of a log."""
GROUP_WAIT_SECONDS = 0.5
"""The duration of one long poll of a group member that ends at the end of the log, until it gets
there."""


async def print_log(
    client: Client,
    topic: TopicDescription,
    output: Output,
    *,
    place: Place,
    partitions: tuple[int, ...],
    follow: bool,
) -> None:
    """Print a topic from a place on, without a group."""
    known = [one.index for one in topic.partitions]
    for index in partitions:
        if index not in known:
            raise UnknownPartition(
                f"{topic.name} has partitions 0 to {len(known) - 1}, not {index}"
            )
    wanted = partitions or tuple(known)
    start = start_of(topic, place)
    if not follow:
        await _print_to_the_end(client, topic.name, output, start, wanted)
        return
    async with client.subscribe(topic.name, start=start, codec=bytes) as subscription:
        others = [index for index in known if index not in wanted]
        if others:
            subscription.pause(*others)
        while not output.is_done:
            output.print(await subscription.fetch(output.wanted, wait=WAIT_SECONDS))


async def print_group(
    client: Client,
    topic: TopicDescription,
    output: Output,
    *,
    group: str,
    place: Place,
    follow: bool,
) -> None:
    """Print messages that a consumer group has not read yet, and commit their offsets."""
    start = start_of(topic, place)
    async with client.subscribe(
        topic.name, group=group, start=start, codec=bytes, auto_commit=False
    ) as subscription:
        while not output.is_done:
            records = await subscription.fetch(output.wanted, wait=WAIT_SECONDS if follow else 0.0)
            if not records and not follow:
                if not any((await subscription.lag()).values()):
                    break
                records = await subscription.fetch(output.wanted, wait=GROUP_WAIT_SECONDS)
            if records:
                output.print(records)
                await subscription.commit()


def start_of(topic: TopicDescription, place: Place) -> Start:
    """A place in the words of the client. What need not be an offset is none: an offset may be gone
    by the time it is asked for."""
    if place.anchor is Anchor.TIME:
        return place.time
    if place == Place(anchor=Anchor.START):
        return "earliest"
    if place == Place(anchor=Anchor.END):
        return "latest"
    return {one.index: place.offset_in(start=one.start, end=one.end) for one in topic.partitions}


async def _print_to_the_end(
    client: Client, name: str, output: Output, start: Start, partitions: tuple[int, ...]
) -> None:
    gathered: list[Record[bytes]] = []
    async for record in client.read(name, start=start, partitions=partitions, codec=bytes):
        gathered.append(record)
        if len(gathered) >= output.wanted:
            output.print(gathered)
            gathered.clear()
            if output.is_done:
                return
    output.print(gathered)
