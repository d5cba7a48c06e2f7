"""Produce: batches go in, in their order, and what cannot go in is told why."""

import struct
from collections.abc import Sequence

import pytest

from penstock.core.records import read_outline
from tests.batches import build_batch
from tests.kafka_broker import ThreadedBroker
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.wire import Connect, Run

ALL = range(3, 14)


def request(topic: str | bytes, *batches: bytes | None, acks: int = -1) -> dict[str, object]:
    rows = [{"index": index, "records": batch} for index, batch in enumerate(batches)]
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
    return {"acks": acks, "timeout": 10_000, "topic_data": [{**named, "partition_data": rows}]}


def offsets(ask: Asker, topic: str, count: int = 1) -> Sequence[int]:
    """The high watermark of each partition."""
    rows = [{"partition_index": index, "timestamp": -1} for index in range(count)]
    answer = ask(2, 1, {"replica_id": -1, "topics": [{"name": topic, "partitions": rows}]})
    return [row.offset for row in answer.topics[0].partitions]


@pytest.mark.parametrize("version", ALL)
def test_a_batch_gets_its_offset(ask: Asker, version: int) -> None:
    name = f"produce-{version}"
    topic_id = ask.create_topic(name, 2)
    key = topic_id if version >= 13 else name
    batches = [bytes(build_batch(3)), bytes(build_batch(2))]
    for turn in range(2):
        (answer,) = ask(0, version, request(key, *batches)).responses
        first, second = answer.partition_responses
        assert (first.error_code, second.error_code) == (0, 0)
        assert (first.base_offset, second.base_offset) == (3 * turn, 2 * turn)
        assert first.log_append_time == -1
        assert first.log_start_offset == (0 if version >= 5 else -1)
    assert offsets(ask, name, 2) == [6, 4]


def test_the_order_of_requests_is_the_order_of_offsets(
    broker: ThreadedBroker, ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("produce-order")

    async def scenario() -> None:
        async with connect() as client:
            for size in range(1, 101):
                client.send(0, 9, request("produce-order", bytes(build_batch(size))))
            found = [await client.receive() for _ in range(100)]
        bases = [answer.responses[0].partition_responses[0].base_offset for answer in found]
        assert bases == [sum(range(1, size)) for size in range(1, 101)]

    run(scenario())


@pytest.mark.parametrize("version", ALL)
def test_what_is_wrong_is_told_for_each_partition(ask: Asker, version: int) -> None:
    name = f"produce-wrong-{version}"
    topic_id = ask.create_topic(name, 3)
    bad = build_batch(1)
    bad[-1] ^= 1
    key = topic_id if version >= 13 else name
    batches = (bytes(build_batch(1)), bytes(bad), None, bytes(build_batch(1)))
    (answer,) = ask(0, version, request(key, *batches)).responses
    codes = [row.error_code for row in answer.partition_responses]
    assert codes == [0, 2, 87, 3]
    texts = [row.error_message for row in answer.partition_responses]
    assert texts[0] is None
    assert (texts[1] is not None) == (version >= 8)
    unknown: str | bytes = b"\x01" * 16 if version >= 13 else "produce-nowhere"
    (answer,) = ask(0, version, request(unknown, bytes(build_batch(1)))).responses
    assert answer.partition_responses[0].error_code == (100 if version >= 13 else 3)


def test_acks_that_mean_nothing_and_transactions_are_refused(ask: Asker) -> None:
    ask.create_topic("produce-acks")
    batch = bytes(build_batch(1))
    (answer,) = ask(0, 9, request("produce-acks", batch, acks=2)).responses
    assert answer.partition_responses[0].error_code == 21
    fields = {**request("produce-acks", batch), "transactional_id": "t"}
    (answer,) = ask(0, 9, fields).responses
    assert answer.partition_responses[0].error_code == 48
    assert offsets(ask, "produce-acks") == [0]


def test_acks_of_one_are_answered(ask: Asker) -> None:
    ask.create_topic("produce-one")
    (answer,) = ask(0, 9, request("produce-one", bytes(build_batch(1)), acks=1)).responses
    assert answer.partition_responses[0].error_code == 0


def test_without_acks_there_is_no_answer_and_an_error_disconnects(
    ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("produce-none")

    async def scenario() -> None:
        async with connect() as client:
            client.send(0, 9, request("produce-none", bytes(build_batch(5)), acks=0))
            client.expect_nothing()
            client.send(3, 0, {})
            await client.receive()
            client.send(0, 9, request("produce-unknown", bytes(build_batch(5)), acks=0))
            assert await client.is_closed()

    run(scenario())
    ask.produce("produce-none")
    assert offsets(ask, "produce-none") == [6]


def test_an_idempotent_batch_is_kept_once(ask: Asker) -> None:
    ask.create_topic("produce-twice")
    producer_id = ask(22, 0, {"transactional_id": None}).producer_id
    batch = bytes(build_batch(2, producer_id=producer_id, epoch=0, sequence=0))
    for _ in range(2):
        (answer,) = ask(0, 9, request("produce-twice", batch)).responses
        (row,) = answer.partition_responses
        assert (row.error_code, row.base_offset) == (0, 0)
    skipping = bytes(build_batch(2, producer_id=producer_id, epoch=0, sequence=7))
    (answer,) = ask(0, 9, request("produce-twice", skipping)).responses
    assert answer.partition_responses[0].error_code == 19, "a gap may close by itself"
    late = bytes(build_batch(1, producer_id=producer_id, epoch=0, sequence=0))
    (answer,) = ask(0, 9, request("produce-twice", late)).responses
    assert answer.partition_responses[0].error_code == 45


def test_a_batch_above_the_topics_bound_is_refused(ask: Asker) -> None:
    ask.create_topic("produce-bound", configs={"max.message.bytes": "100"})
    (answer,) = ask(0, 9, request("produce-bound", bytes(build_batch(9)))).responses
    assert answer.partition_responses[0].error_code == 10


def test_the_time_of_the_log_is_told(ask: Asker) -> None:
    ask.create_topic("produce-time", configs={"message.timestamp.type": "LogAppendTime"})
    (answer,) = ask(0, 9, request("produce-time", bytes(build_batch(1, timestamp=5)))).responses
    (row,) = answer.partition_responses
    assert row.log_append_time > 1_600_000_000_000


def test_batches_are_stored_as_they_came_but_for_the_stamps(ask: Asker) -> None:
    ask.create_topic("produce-bytes")
    batch = bytes(build_batch(4, value=b"v" * 1000))
    ask(0, 9, request("produce-bytes", batch))
    ask(0, 9, request("produce-bytes", batch))
    fetch = {
        "max_wait": 0,
        "min_bytes": 1,
        "topics": [
            {
                "topic": "produce-bytes",
                "partitions": [{"partition": 0, "fetch_offset": 0, "partition_max_bytes": 1 << 20}],
            }
        ],
        "forgotten_topics_data": [],
    }
    (row,) = ask(1, 12, fetch).responses[0].partitions
    second = row.records[len(batch) :]
    assert read_outline(second, 0)[0] == 4
    assert second[16:] == batch[16:]
    assert second[8:12] == batch[8:12]
    assert struct.unpack_from(">i", second, 12)[0] >= 1, "the leader's epoch"
