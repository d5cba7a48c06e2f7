"""Members of a group: they share partitions, commit what is done, come, go and are replaced."""

import asyncio
import contextlib
import gc
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Unpack

import pytest

from penstock import Client, Guarantee
from penstock.client.connection.group_link import GroupLink
from penstock.client.reader.assignors import COOPERATIVE
from penstock.client.reader.positions import TopicPartition
from penstock.client.record import Record
from penstock.client.subscription import Subscription
from penstock.client.subscription_options import SubscribeOptions
from penstock.core.errors import FencedInstance, InconsistentGroupProtocol, InvalidRequest
from penstock.testing.clock import ManualClock
from penstock.wire.group_requests import LeaveGroup
from penstock.wire.requests import Done
from tests.unit.client.memory_play import play
from tests.unit.engine.nodes import until

pytestmark = pytest.mark.slow

BEAT = 0.01
SOON = 0.02
EAGER = ("penstock-sticky", "range")
"""What members of release 0.1 offer."""


def member(client: Client, **options: Unpack[SubscribeOptions]) -> Subscription[str]:
    """A member that learns of changes at once."""
    chosen: SubscribeOptions = {
        "group": "g",
        "heartbeat_interval": BEAT,
        "rebalance_timeout": 10.0,
        **options,
    }
    return client.subscribe("orders", codec=str, **chosen)


async def fill(client: Client, numbers: range, partition: int = 0) -> None:
    await client.topic("orders", codec=str).send_many(map(str, numbers), partition=partition)


async def take(subscription: Subscription[str], wanted: int) -> list[Record[str]]:
    records: list[Record[str]] = []
    while len(records) < wanted:
        records += await subscription.fetch(wanted - len(records), wait=60)
    return records


def bodies(records: list[Record[str]]) -> list[int]:
    return [int(record.body) for record in records]


def part(index: int) -> TopicPartition:
    return TopicPartition("orders", index)


@asynccontextmanager
async def members(client: Client, count: int) -> AsyncIterator[list[Subscription[str]]]:
    """So many members that have settled."""
    async with contextlib.AsyncExitStack() as stack:
        all_of_them = [member(client) for _ in range(count)]
        for one in all_of_them:
            await stack.enter_async_context(one)
        yield all_of_them


async def until_shared(subscriptions: list[Subscription[str]], sizes: list[int]) -> None:
    """Wait until they have so many partitions each, and none is anybody else's."""

    def shared() -> bool:
        parts = [part for one in subscriptions for part in one.assignment]
        return sorted(len(one.assignment) for one in subscriptions) == sorted(sizes) and len(
            set(parts)
        ) == len(parts) == sum(sizes)

    await until(shared)


# Sharing.


@pytest.mark.parametrize(("count", "sizes"), [(5, [2] * 5), (11, [0] + [1] * 10)])
def test_ten_partitions_are_shared(count: int, sizes: list[int]) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=10)
        async with members(client, count) as all_of_them:
            await until_shared(all_of_them, sizes)

    play(scene)


def test_who_joins_takes_as_little_as_possible_and_who_leaves_gives_it_back() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=6)
        async with members(client, 2) as (first, second):
            await until_shared([first, second], [3, 3])
            before = set(first.assignment), set(second.assignment)
            async with member(client) as third:
                await until_shared([first, second, third], [2, 2, 2])
                assert set(first.assignment) < before[0]
                assert set(second.assignment) < before[1]
            await until_shared([first, second], [3, 3])

    play(scene)


def test_no_message_is_lost_or_repeated_while_members_come_and_go() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=4)
        seen: list[tuple[TopicPartition, int]] = []

        async def read(wanted: int) -> None:
            """Read until all members together have seen so many messages."""
            subscription = member(client)
            while len(seen) < wanted:
                records = await subscription.fetch(5, wait=SOON)
                seen.extend((record.place, record.offset) for record in records)
                await asyncio.sleep(0)
            await subscription.fetch(0)  # The last ones are done, too.
            await subscription.close()

        lasting = asyncio.create_task(read(2_000))
        for number in range(10):
            guest = asyncio.create_task(read(200 * number + 150))
            for index in range(4):
                await fill(client, range(50 * number, 50 * (number + 1)), index)
            await guest
        await lasting
        # Everybody was asked to put his work down in good order, so not one came twice.
        assert len(seen) == len(set(seen)) == 2_000

    play(scene)


def test_a_member_that_keeps_a_partition_goes_on_as_if_nothing_had_been() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(100), 0)
        await fill(client, range(100), 1)
        async with member(client, auto_commit=False) as first:
            await take(first, 120)
            await first.fetch(0)  # All of it is done.
            async with member(client, auto_commit=False) as second:
                await until_shared([first, second], [1, 1])
                (kept,) = first.assignment
                position = first.positions()[kept]
                # Nothing was committed, and still nothing is read twice here.
                rest = await take(first, 100 - position)
                assert [record.offset for record in rest] == list(range(position, 100))
                # Whoever gets the other one has to begin at its beginning.
                assert [one.offset for one in await take(second, 100)] == list(range(100))

    play(scene)


def test_members_of_different_groups_read_everything() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(3))
        async with member(client, group="a") as one, member(client, group="b") as other:
            assert bodies(await take(one, 3)) == bodies(await take(other, 3)) == [0, 1, 2]

    play(scene)


# Committing.


def test_only_what_the_loop_has_finished_is_committed() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(10))
        async with member(client) as subscription:
            async for record in subscription:
                if record.offset == 4:
                    break  # In the middle of it.
        async with member(client) as subscription:
            assert await subscription.committed() == {part(0): 4}
            assert bodies(await take(subscription, 6)) == [4, 5, 6, 7, 8, 9]
            assert await subscription.fetch(1) == []  # Now they are finished.
        async with member(client) as subscription:
            assert await subscription.fetch(1) == []
            assert subscription.positions() == {part(0): 10}

    play(scene)


def test_what_is_finished_is_committed_now_and_then() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(10))
        async with member(client, commit_interval=SOON) as subscription:
            await take(subscription, 5)
            await take(subscription, 1)
            await until(lambda: subscription.statistics().commits > 0)
            await until(lambda: subscription._places[part(0)].committed == 5)
            assert await subscription.committed() == {part(0): 5}

    play(scene)


def test_a_program_that_commits_by_itself() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(10), 0)
        await fill(client, range(10), 1)
        async with member(client, auto_commit=False) as subscription:
            records = await take(subscription, 20)
            assert await subscription.committed() == {part(0): None, part(1): None}
            third = next(one for one in records if (one.partition, one.offset) == (1, 2))
            assert await subscription.commit(third) is True
            assert await subscription.committed() == {part(0): None, part(1): 3}
            earlier = next(one for one in records if (one.partition, one.offset) == (1, 0))
            assert await subscription.commit(earlier) is True  # It has been, and does not go back.
            assert await subscription.committed() == {part(0): None, part(1): 3}
        async with member(client, auto_commit=False) as subscription:
            assert subscription.positions() == {part(0): 0, part(1): 3}
            await take(subscription, 17)
            assert await subscription.commit(timeout=timedelta(seconds=10)) is True
            assert await subscription.committed() == {part(0): 10, part(1): 10}

    play(scene)


def test_commits_go_on_while_the_group_shares_out_anew() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(400), 0)
        await fill(client, range(400), 1)
        rounds = 0

        async def come_and_go() -> None:
            nonlocal rounds
            while True:
                async with member(client, auto_commit=False):
                    rounds += 1

        async with member(client, auto_commit=False) as subscription:
            restless = asyncio.create_task(come_and_go())
            count = 0
            while rounds < 8:
                for record in await subscription.fetch(1, wait=SOON):
                    count += 1
                    is_ours = await subscription.commit(record)
                    if is_ours:
                        found = await subscription.committed()
                        assert found.get(record.place, record.offset + 1) == record.offset + 1
            restless.cancel()
            await asyncio.wait([restless])
            assert count > 0

    play(scene)


def test_without_a_group_nothing_is_committed() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        async with client.subscribe("orders") as subscription:
            with pytest.raises(InvalidRequest, match="group="):
                await subscription.commit()
            with pytest.raises(InvalidRequest, match="group="):
                await subscription.committed()

    play(scene)


def test_seeking_back_is_committed_too() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(10))
        async with member(client) as subscription:
            await take(subscription, 10)
            assert await subscription.commit()
            await subscription.seek(0, 2)
        async with member(client) as subscription:
            assert bodies(await take(subscription, 8)) == list(range(2, 10))

    play(scene)


def test_a_group_that_began_at_the_end_does_not_skip_what_comes_while_it_is_away() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(10))
        async with member(client, start="latest") as subscription:
            assert await subscription.fetch(1) == []
        await fill(client, range(10, 13))
        async with member(client, start="latest") as subscription:
            assert bodies(await take(subscription, 3)) == [10, 11, 12]

    play(scene)


def test_at_most_once_is_committed_before_it_is_handed_out() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(10))
        crashed = member(client, guarantee=Guarantee.AT_MOST_ONCE)
        assert bodies(await take(crashed, 1)) == [0]
        assert await crashed.committed() == {part(0): 10}
        # In good order, what was not handed out is not lost, and what was is not repeated.
        await crashed.close()
        async with member(client, guarantee=Guarantee.AT_MOST_ONCE) as subscription:
            assert bodies(await take(subscription, 9)) == list(range(1, 10))

    play(scene)


def test_at_most_once_needs_a_group() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        with pytest.raises(InvalidRequest, match="needs a group"):
            member(client, group=None, guarantee=Guarantee.AT_MOST_ONCE)

    play(scene)


# Losing membership.


def test_a_member_that_was_thrown_out_comes_back() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(10))
        async with member(client) as subscription:
            await take(subscription, 5)
            assert await subscription.commit()
            membership = subscription._reader.membership
            assert membership is not None
            link = GroupLink(client._core.router, "g")
            former = membership.member
            await link.ask(LeaveGroup("g", former), Done)
            await until(lambda: membership.member not in ("", former))
            assert bodies(await take(subscription, 5)) == [5, 6, 7, 8, 9]

    play(scene)


def test_members_whose_sessions_have_ended_join_anew() -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        async with members(client, 2) as both:
            await until_shared(both, [1, 1])
            before = [one.statistics().rebalances for one in both]
            clock.advance(seconds=31)  # Nobody was heard of in time.
            await until(
                lambda: all(
                    one.statistics().rebalances > count
                    for one, count in zip(both, before, strict=True)
                )
            )
            await until_shared(both, [1, 1])
            await fill(client, range(3), 0)
            await fill(client, range(3), 1)
            assert len(await take(both[0], 3)) == len(await take(both[1], 3)) == 3

    play(scene)


def test_what_belongs_to_another_member_by_now_is_not_committed() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(3), 0)
        await fill(client, range(3), 1)
        async with member(client, auto_commit=False) as first:
            records = await take(first, 6)
            await first.fetch(0)
            async with member(client, auto_commit=False) as second:
                await until_shared([first, second], [1, 1])
                for record in records:
                    is_ours = record.place in first.assignment
                    assert await first.commit(record) is is_ours

    play(scene)


# Static members.


def test_a_static_member_that_comes_back_has_what_it_had() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        async with member(client, instance_id="one") as first:
            second = member(client, instance_id="two")
            async with second:
                await until_shared([first, second], [1, 1])
            before = first.statistics().rebalances
            had = second.assignment
            async with member(client, instance_id="two") as again:
                assert again.assignment == had
                assert first.statistics().rebalances == before

    play(scene)


def test_a_static_member_whose_place_was_taken_is_told() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        first, second = (member(client, instance_id="one") for _ in range(2))
        async with first, second:
            with pytest.raises(FencedInstance):
                await first.fetch(1, wait=60)
            await fill(client, range(1))
            assert len(await take(second, 1)) == 1

    play(scene)


def test_a_subscription_that_nobody_holds_any_more_leaves_the_group() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        await fill(client, range(5))
        async for record in member(client):
            if record.offset == 3:
                break
        gc.collect()
        while (await client.describe_group("g")).members:  # noqa: ASYNC110
            await asyncio.sleep(0)
        async with member(client) as subscription:
            assert bodies(await take(subscription, 2)) == [3, 4]

    play(scene)


# What changes meanwhile.


def test_the_group_notices_new_partitions_and_topics() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        async with (
            client.subscribe(
                ["orders", "late"], group="g", heartbeat_interval=BEAT, topics_interval=SOON
            ) as first,
            client.subscribe(
                ["orders", "late"], group="g", heartbeat_interval=BEAT, topics_interval=SOON
            ) as second,
        ):
            await until_shared([first, second], [0, 1])
            await client.add_partitions("orders", 3)
            await until_shared([first, second], [1, 2])
            await client.create_topic("late", partitions=3)
            await until_shared([first, second], [3, 3])

    play(scene)


def test_a_loop_that_takes_long_is_waited_for() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(3), 0)
        async with member(client, assignors=EAGER) as first:
            (in_hand,) = await first.fetch(1, wait=60)
            second = member(client, assignors=EAGER)
            joining = asyncio.create_task(second.open())
            await until(lambda: first._reader.is_held_back)
            assert not joining.done()  # The group waits for the record in hand.
            assert in_hand.offset == 0
            finishing = asyncio.create_task(first.fetch(1, wait=60))
            await joining
            owner = first if part(0) in first.assignment else second
            if owner is second:
                finishing.cancel()
                records = await take(second, 2)
            else:
                records = [*await finishing, *await take(first, 1)]
            assert [record.offset for record in records] == [1, 2]
            await second.close()

    play(scene)


# Cooperative rebalancing.


@asynccontextmanager
async def holding_back(subscription: Subscription[str]) -> AsyncIterator[list[bool]]:
    """Whether the member was ever kept from handing out, looked at in every turn of the loop."""
    seen: list[bool] = []

    async def look() -> None:
        while True:
            seen.append(subscription._reader.is_held_back)
            await asyncio.sleep(0)

    looking = asyncio.create_task(look())
    try:
        yield seen
    finally:
        looking.cancel()


def test_partitions_that_do_not_move_are_never_paused() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=6)
        for index in range(6):
            await fill(client, range(5), index)
        async with member(client) as first:
            await until(lambda: all(one.batches for one in first._places.values()))
            places = dict(first._places)
            versions = {one: place.fetch_version for one, place in places.items()}
            async with holding_back(first) as seen, member(client) as second:
                await until_shared([first, second], [3, 3])
                async with member(client) as third:
                    await until_shared([first, second, third], [2, 2, 2])
                    assert not any(seen)
                    for one in first.assignment:
                        place = first._places[one]
                        assert place is places[one]
                        assert place.fetch_version == versions[one]
                    assert (await client.describe_group("g")).assignor == COOPERATIVE

    play(scene)


def test_a_partition_moves_when_what_is_in_hand_of_it_is_done() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=2)
        await fill(client, range(3), 1)
        async with member(client) as first:
            (in_hand,) = await first.fetch(1, wait=60)
            assert in_hand.partition == 1
            async with member(client) as second:
                await until(lambda: first._places[part(1)].is_leaving)
                first.resume()  # It does not bring back what is leaving.
                assert not second.assignment
                await fill(client, range(10, 12), 0)
                assert bodies(await take(first, 2)) == [10, 11]
                await until_shared([first, second], [1, 1])
                assert second.assignment == (part(1),)
                assert [record.offset for record in await take(second, 2)] == [1, 2]

    play(scene)


def test_a_member_of_release_0_1_makes_the_group_eager_and_loses_nothing() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=4)
        for index in range(4):
            await fill(client, range(10), index)
        seen: list[tuple[int, int]] = []

        async def read(subscription: Subscription[str]) -> None:
            async for record in subscription:
                seen.append((record.partition, record.offset))

        async with members(client, 2) as (first, second):
            await until_shared([first, second], [2, 2])
            in_hand = await first.fetch(1, wait=60)
            seen += [(record.partition, record.offset) for record in in_hand]
            old = member(client, assignors=EAGER)
            joining = asyncio.create_task(old.open())
            # Its leader is a member that reads: it gives nothing away before all is put down.
            await until(lambda: any(one.is_leaving for one in first._places.values()))
            assert not old.assignment
            reading = [asyncio.create_task(read(one)) for one in (first, second, old)]
            await joining
            await until(lambda: len(seen) == 40)
            await until_shared([first, second, old], [1, 1, 2])
            assert (await client.describe_group("g")).assignor == "penstock-sticky"
            await old.close()
            await until_shared([first, second], [2, 2])
            assert (await client.describe_group("g")).assignor == COOPERATIVE
            for index in range(4):
                await fill(client, range(10, 15), index)
            await until(lambda: len(seen) == 60)
            for task in reading:
                task.cancel()
        assert sorted(seen) == [(index, offset) for index in range(4) for offset in range(15)]

    play(scene)


def test_members_that_cannot_share_are_told() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_topic("orders", partitions=1)
        async with member(client, assignors=("range",)):
            with pytest.raises(InconsistentGroupProtocol):
                await member(client, assignors=("penstock-sticky",)).open()
        with pytest.raises(InvalidRequest, match="choose from"):
            member(client, assignors=("best",))

    play(scene)
