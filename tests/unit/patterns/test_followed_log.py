"""A followed log tells every record once, and begins anew where its place is gone."""

from collections.abc import AsyncIterator, Iterable, Mapping

import pytest

from penstock.client.client import Client
from penstock.client.record import Record
from penstock.core.errors import OffsetOutOfRange, Unavailable
from penstock.patterns.followed_log import FollowedLog
from tests.unit.patterns.runs import on_memory


@on_memory
async def test_every_record_is_told_once(client: Client) -> None:
    await client.create_topic("numbers", partitions=2)
    topic = client.topic("numbers", codec=int)
    told: list[int] = []
    log = FollowedLog(client, "numbers", codec=int, tell=lambda one: told.append(one.body))
    await log.catch_up(0)
    assert told == []
    for number in range(3):
        sent = await topic.send(number, partition=0)
        await log.catch_up(0, past=sent.offset)
        assert told == list(range(number + 1))
    await topic.send(7, partition=1)
    await log.catch_up(0)
    assert told == [0, 1, 2]
    await log.catch_up(1)
    assert told == [0, 1, 2, 7]
    with pytest.raises(Unavailable, match="up to 99"):
        await log.catch_up(0, past=99)


class Shortened:
    """A client of a topic whose first messages have been deleted since."""

    def __init__(self, client: Client, first: int) -> None:
        self.client = client
        self.first = first

    async def read(
        self,
        topic: str,
        *,
        start: str | Mapping[int, int],
        partitions: Iterable[int],
        codec: type[int],
    ) -> AsyncIterator[Record[int]]:
        if not isinstance(start, str) and start[0] < self.first:
            raise OffsetOutOfRange("it has been deleted")
        start = {0: self.first} if isinstance(start, str) else start
        async for record in self.client.read(
            topic, start=start, partitions=partitions, codec=codec
        ):
            yield record


@on_memory
async def test_who_slept_too_long_begins_with_what_is_left(client: Client) -> None:
    await client.create_topic("numbers", partitions=1)
    await client.topic("numbers", codec=int).send_many(list(range(10)))
    told: list[int] = []
    shortened = Shortened(client, 4)
    log = FollowedLog(
        shortened,  # type: ignore[arg-type]
        "numbers",
        codec=int,
        tell=lambda one: told.append(one.body),
    )
    log.positions[0] = 2
    await log.catch_up(0)
    assert told == [4, 5, 6, 7, 8, 9]
