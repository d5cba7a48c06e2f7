"""A work group of a reader by offset: where it stands, and how it covers what it has read."""

import asyncio
from collections.abc import Callable

import pytest

import penstock
from penstock import Client
from penstock.core.errors import InvalidRequest, UnknownPartition, UnknownWork
from penstock.core.limits import CUMULATIVE_ACK_DEAD_MAX, CUMULATIVE_ACK_STEPS_MAX
from penstock.testing.clock import ManualClock
from penstock.testing.server import PenstockServer
from tests.unit.client.memory_play import PATIENCE_SECONDS, Scene
from tests.unit.client.memory_play import play as play_in_memory

Play = Callable[[Scene], None]

pytestmark = pytest.mark.slow


def play_behind_tcp(scene: Scene) -> None:
    clock = ManualClock()

    async def whole(url: str) -> None:
        async with asyncio.timeout(PATIENCE_SECONDS):
            async with penstock.connect(url, clock=clock) as client:
                await scene(client, clock)

    with PenstockServer(clock=clock) as broker:
        asyncio.run(whole(broker.url))


@pytest.fixture(params=[play_in_memory, play_behind_tcp], ids=["memory", "tcp"])
def play(request: pytest.FixtureRequest) -> Play:
    """Every scene is played in both places."""
    chosen: Play = request.param
    return chosen


def test_what_is_covered_is_done(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders", group="stream")
        await client.create_queue("orders", dead_letter="")
        await queue.send_many(range(10))
        await queue.begin()
        assert await queue.ack_range(0, 0, 6, dead={2: "no address"}) == 6
        assert await queue.ack_range(0, 0, 6, dead={2: "nothing at all"}) == 0
        stats = await queue.stats()
        assert (stats.acked, stats.dead, stats.ready) == (5, 1, 4)
        (dead,) = await queue.peek(states=["dead"])
        assert (dead.offset, dead.reason, dead.deliveries) == (2, "no address", 1)
        assert [one.body for one in await queue.receive(10, wait=60)] == [6, 7, 8, 9]
        assert len(await client.receive("orders", 20)) == 10, "others are not concerned"

    play(scene)


def test_the_old_name_of_ack_range(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send_many(range(3))
        await queue.begin()
        with pytest.warns(DeprecationWarning, match=r"is now \.ack_range"):
            assert await queue.cover(0, 0, 3, dead={1: "bad"}) == 3
        stats = await queue.stats()
        assert (stats.acked, stats.ready) == (2, 0)

    play(scene)


def test_who_holds_a_covered_message_comes_too_late(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send_many(range(3))
        held = await queue.receive(3)
        assert await queue.ack_range(0, 0, 2) == 2
        assert [await one.ack() for one in held] == [False, False, True]

    play(scene)


def test_a_group_stands_where_it_has_something_left(play: Play) -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2)
        queue = client.queue("orders", group="stream")
        with pytest.raises(UnknownWork, match="begin"):
            await queue.standing()
        await queue.begin()
        for number in range(6):
            await queue.send(number, partition=0, delay=60 if number == 4 else None)
        one, other = (await queue.standing({0: 1})).values()
        assert (one.first, one.ready, one.end) == (0, 4, 6)
        assert (other.first, other.ready, other.end) == (0, 0, 0)
        await queue.ack_range(0, 0, 3, dead={0: "bad"})
        assert (await queue.standing())[0].first == 3, "the dead are dealt with"
        assert (await queue.standing({0: 5}))[0].ready == 6
        clock.advance(seconds=61)
        assert (await queue.standing({0: 3}))[0].ready == 6
        await queue.configure({"queue.paused": "true"})
        assert (await queue.standing({0: 3}))[0].ready == 3

    play(scene)


def test_a_group_that_begins_late_knows_what_waits(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_queue("orders")
        for number in range(4):
            await client.send("orders", number, delay=60 if number == 2 else None)
        queue = client.queue("orders", group="late")
        await queue.begin()
        found = (await queue.standing())[0]
        while found.ready == 0:  # It is told what the messages say by and by.
            found = (await queue.standing())[0]
        assert (found.first, found.ready, found.end) == (0, 2, 4)

    play(scene)


def test_a_group_may_begin_behind_the_last_message(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders", group="new")
        await client.send_many("orders", range(3))
        await queue.begin("latest")
        await queue.begin("earliest")  # It has begun.
        assert (await queue.standing())[0].first == 3
        with pytest.raises(InvalidRequest, match="earliest or latest"):
            await queue.begin("now")  # type: ignore[arg-type]

    play(scene)


def test_what_takes_several_requests_is_one_call(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        count = CUMULATIVE_ACK_STEPS_MAX + 7
        await client.create_queue("orders", fifo=True, dead_letter="")
        queue = client.queue("orders")
        await queue.send_many(range(count), message_group="one")
        dead = dict.fromkeys(range(0, 2 * CUMULATIVE_ACK_DEAD_MAX + 2, 2), "even")
        assert await queue.ack_range(0, 0, count, dead=dead) == count
        stats = await queue.stats()
        assert (stats.dead, stats.acked, stats.depth) == (len(dead), count - len(dead), 0)

    play(scene)


def test_the_covered_dead_go_to_the_dead_letter_queue_and_come_back(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_queue("dead")
        await client.create_queue("orders", deliveries_max=3, dead_letter="dead")
        await client.send_many("orders", ["good", "bad"])
        queue = client.queue("orders")
        await queue.ack_range(0, 0, 2, dead={1: "unreadable"})
        (letter,) = await client.queue("dead").receive(1, wait=60)
        assert letter.body == "bad"
        await letter.release()
        await client.queue("dead").redrive()
        (again,) = await queue.receive(1, wait=60)
        assert (again.body, again.offset) == ("bad", 2)

    play(scene)


def test_what_lives_again_behind_a_reader_is_told(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.create(dead_letter="")
        await queue.send_many(range(8))
        await queue.ack_range(0, 0, 6, dead={1: "bad", 2: "bad", 4: "bad"}, stream="s", batch=0)
        assert (await queue.standing({0: 6}))[0].again == ()
        assert int(await queue.redrive()) == 3
        assert await queue.ack_range(0, 0, 6, stream="s", batch=0) == 0
        found = (await queue.standing({0: 6}))[0]
        assert (found.first, found.again) == (1, ((1, 3), (4, 5)))
        assert await queue.ack_range(0, 1, 3, stream="s", batch=1) == 2
        assert (await queue.standing({0: 6}))[0].again == ((4, 5),)

    play(scene)


def test_what_lies_ahead_of_a_group_that_was_turned_back_is_told(play: Play) -> None:
    async def scene(client: Client, clock: ManualClock) -> None:
        await client.create_queue("orders")
        for number in range(6):
            await client.send("orders", number, delay=60 if number == 3 else None)
        queue = client.queue("orders", group="late")
        await queue.begin()
        found = (await queue.standing({0: 5}))[0]
        while not found.again:  # It is told what the messages say by and by.
            found = (await queue.standing({0: 5}))[0]
        assert (found.first, found.again, found.ready) == (0, ((0, 3),), 6)
        clock.advance(seconds=61)
        assert (await queue.standing({0: 5}))[0].again == ((0, 5),)

    play(scene)


def test_what_cannot_be_covered_is_refused(play: Play) -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        queue = client.queue("orders")
        await queue.send(1)
        with pytest.raises(InvalidRequest, match="no range"):
            await queue.ack_range(0, 3, 2)
        with pytest.raises(InvalidRequest, match="no message -1"):
            await queue.ack_range(0, 0, 2, dead={-1: "bad"})
        with pytest.raises(UnknownPartition):
            await queue.ack_range(7, 0, 2)

    play(scene)
