"""A micro-batch of a queue: what stands in the checkpoint, and what is settled of it."""

import json

import pytest

from penstock import Client
from penstock.core.errors import InvalidRequest
from penstock.spark.identity import Identity, find_identity, tell_queue, tell_topics
from penstock.spark.queues.queue_batch import QueueBatch, read_batch
from penstock.spark.queues.settlement import settle
from penstock.testing.clock import ManualClock
from tests.unit.client.memory_play import play

BATCH = QueueBatch(
    queue="orders",
    stream="s",
    number=3,
    starts={0: 100, 1: 20},
    ends={0: 150, 1: 20},
    again={0: ((7, 9), (12, 13))},
)


def test_it_is_in_the_checkpoint_as_it_always_was() -> None:
    offset = {
        "orders": {"0": 150, "1": 20},
        "orders:batch": {
            "stream": "s",
            "number": 3,
            "from": {"0": 100, "1": 20},
            "again": {"0": "7-9 12-13"},
        },
    }
    assert BATCH.to_offset() == offset
    assert read_batch("orders", json.loads(json.dumps(offset))) == BATCH


def test_it_covers_what_it_read_and_what_came_again() -> None:
    assert BATCH.ranges() == [(0, (7, 9)), (0, (12, 13)), (0, (100, 150))]


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"orders": {"0": 1}},
        {"orders": {"0": 1}, "orders:batch": {}},
        {"orders": {"zero": 1}, "orders:batch": BATCH.to_offset()["orders:batch"]},
        {"orders": 7, "orders:batch": BATCH.to_offset()["orders:batch"]},
    ],
)
def test_another_sources_checkpoint_is_refused(odd: dict[str, object]) -> None:
    with pytest.raises(InvalidRequest, match="another checkpointLocation"):
        read_batch("orders", odd)


def test_the_progress_says_who_is_to_be_told() -> None:
    latest = {"orders": {"0": 3}, **tell_queue("penstock://h:1", "queue")}
    assert find_identity(latest) == Identity("penstock://h:1", "queue", "queue")
    assert find_identity(tell_topics("u", "g")) == Identity("u", "topic", "g")
    for strange in ({"orders": {"0": 3}}, {":penstock": 3}, {":penstock": {"url": 7}}):
        assert find_identity(strange) is None


@pytest.mark.slow
def test_a_batch_is_settled_once() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.create_queue("orders", partitions=2, dead_letter="")
        queue = client.queue("orders")
        for number in range(6):
            await queue.send(number, partition=number % 2)
        batch = QueueBatch(
            queue="orders", stream="s", number=0, starts={0: 0, 1: 1}, ends={0: 2, 1: 3}
        )
        await queue.ack_range(0, 0, 0, dead={1: "bad"})
        assert await settle(client, "queue", batch) == 3
        assert await settle(client, "queue", batch) == 0
        stats = await queue.stats()
        assert (stats.acked, stats.dead, stats.ready) == (3, 1, 2)
        await queue.redrive()
        assert await settle(client, "queue", batch) == 0, "what lives again is left alone"
        following = QueueBatch(
            queue="orders", stream="s", number=1, starts={0: 2, 1: 3}, ends={0: 2, 1: 3},
            again={0: ((1, 2),)},
        )  # fmt: skip
        assert await settle(client, "queue", following) == 1
        assert await settle(client, "queue", batch) == 0, "and so is a batch of long ago"

    play(scene)


@pytest.mark.slow
def test_where_a_stream_begins_nothing_is_settled() -> None:
    async def scene(client: Client, _clock: ManualClock) -> None:
        await client.send("orders", 1)
        begun = QueueBatch(queue="orders", stream="s", number=-1, starts={0: 0}, ends={0: 1})
        assert await settle(client, "queue", begun) == 0

    play(scene)
