"""Groups, for those who look after them."""

from datetime import UTC, datetime, timedelta

import pytest

from penstock import Client, Outgoing
from penstock.client.group_descriptions import GroupPartition, GroupSummary, OffsetChange
from penstock.client.reader.positions import TopicPartition
from penstock.core.errors import GroupNotEmpty, InvalidRequest, UnknownGroup
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

pytestmark = pytest.mark.slow


async def prepare(client: Client, clock: ManualClock) -> datetime:
    """A topic of ten messages in the second of two partitions, a second apart, and a group that
    has read some."""
    await client.create_topic("orders", partitions=2)
    begin = datetime.fromtimestamp(clock.wall_ms() / 1_000, UTC)
    times = [begin + timedelta(seconds=number) for number in range(10)]
    outgoing = [Outgoing(str(n), partition=1, timestamp=times[n]) for n in range(10)]
    await client.topic("orders", codec=str).send_many(outgoing)
    async with client.subscribe("orders", group="billing", client_id="app") as subscription:
        records = await subscription.fetch(4, wait=60)
        assert len(records) == 4
        assert await subscription.commit()
        described = await client.describe_group("billing")
        assert (described.state, described.assignor) == ("Stable", "penstock-cooperative-sticky")
        (member,) = described.members
        assert member.client_id == "app"
        assert member.id.startswith("app-")
        assert member.assigned == (TopicPartition("orders", 0), TopicPartition("orders", 1))
        with pytest.raises(GroupNotEmpty):
            await client.delete_group("billing")
        with pytest.raises(GroupNotEmpty, match="stop them"):
            await client.reset_group("billing")
    return begin


def test_a_group_is_listed_described_and_deleted() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await prepare(client, clock)
        assert await client.groups() == [GroupSummary(name="billing", state="Empty", coordinator=1)]
        described = await client.describe_group("billing")
        assert described.partitions == (
            GroupPartition(topic="orders", partition=0, committed=0, end=0),
            GroupPartition(topic="orders", partition=1, committed=4, end=10),
        )
        assert [one.lag for one in described.partitions] == [0, 6]
        assert described.lag == 6
        await client.delete_group("billing")
        assert await client.groups() == []
        with pytest.raises(UnknownGroup):
            await client.describe_group("billing")
        with pytest.raises(UnknownGroup):
            await client.delete_group("billing")

    play(scene)


def change(before: int | None, after: int, partition: int = 1) -> OffsetChange:
    return OffsetChange(topic="orders", partition=partition, before=before, after=after)


def test_a_group_goes_on_from_elsewhere() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        begin = await prepare(client, clock)
        first = change(0, 0, partition=0)
        preview = await client.reset_group("billing", "earliest", dry_run=True)
        assert preview == [first, change(4, 0)]
        assert (await client.describe_group("billing")).lag == 6  # Nothing has happened.
        assert await client.reset_group("billing", "earliest") == preview
        assert (await client.describe_group("billing")).lag == 10
        assert await client.reset_group("billing", "latest") == [first, change(0, 10)]
        when = begin + timedelta(seconds=7)
        assert await client.reset_group("billing", when) == [first, change(10, 7)]
        assert await client.reset_group("billing", {1: 3}) == [change(7, 3)]
        assert await client.reset_group("billing", {1: 99}) == [change(3, 10)]
        await client.reset_group("billing", {1: 8})
        async with client.subscribe("orders", group="billing", codec=str) as subscription:
            assert [one.body for one in await subscription.fetch(9, wait=60)] == ["8", "9"]

    play(scene)


def test_a_group_can_be_placed_before_it_has_read_anything() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await prepare(client, clock)
        with pytest.raises(InvalidRequest, match="name the topics"):
            await client.reset_group("new")
        changes = await client.reset_group("new", "latest", topics="orders")
        assert changes == [change(None, 0, partition=0), change(None, 10)]
        assert (await client.describe_group("new")).lag == 0

    play(scene)
