"""Produce: batches go in, in their order, and what cannot go in is told why."""

import gzip
import struct
from collections.abc import Sequence

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder

from penstock.core.records import BATCH_HEADER_BYTES, read_outline
from tests.batches import TODAY_MS, build_batch, with_bytes
from tests.kafka_broker import ThreadedBroker
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.wire import Connect, Run

ALL = range(3, 14)
FIFO = {"queue.order": "fifo"}


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


def with_records(records: bytes, count: int, codec: int = 0) -> bytes:
    """A batch whose header and checksum are right, and whose records are these bytes."""
    batch = build_batch(1)[:BATCH_HEADER_BYTES] + records
    batch[8:12] = (len(batch) - 12).to_bytes(4, "big")
    batch[21:23] = codec.to_bytes(2, "big")
    batch[23:27] = (count - 1).to_bytes(4, "big")
    return bytes(with_bytes(batch, 57, count.to_bytes(4, "big")))


THREE = bytes(build_batch(3)[BATCH_HEADER_BYTES:])
UNREADABLE = {
    "garbage": with_records(b"garbage" * 20, 3),
    "one fewer": with_records(THREE, 4),
    "one more": with_records(THREE, 2),
    "bytes behind": with_records(THREE + b"\0", 3),
    "cut": with_records(THREE[:-1], 3),
    "no gzip": with_records(THREE, 3, 1),
    "no snappy": with_records(THREE, 3, 2),
    "no lz4": with_records(THREE, 3, 3),
    "no zstd": with_records(THREE, 3, 4),
    "garbage in gzip": with_records(gzip.compress(b"garbage" * 2_000), 3, 1),
    "fewer in gzip": with_records(gzip.compress(THREE), 4, 1),
    "millions": with_records(gzip.compress(b""), 1 << 24, 1),
    "empty members": with_records(gzip.compress(b"") * 150_000, 3, 1),
    "magic 1": bytes(with_bytes(build_batch(3), 16, b"\x01")),
    "wrong last offset": bytes(with_bytes(build_batch(3), 23, (7).to_bytes(4, "big"))),
}


@pytest.mark.parametrize("version", ALL)
@pytest.mark.parametrize("compression", [0, 4])
def test_records_without_a_key_are_named(ask: Asker, version: int, compression: int) -> None:
    name = f"produce-keys-{version}-{compression}"
    topic_id = ask.create_topic(name, configs={"cleanup.policy": "compact"})
    builder = DefaultRecordBatchBuilder(2, compression, False, -1, -1, -1, 1 << 20)
    for number, key in enumerate([b"a", None, b"c", None]):
        builder.append(number, TODAY_MS, key, b"value", [])
    asked = topic_id if version >= 13 else name
    (answer,) = ask(0, version, request(asked, bytes(builder.build()))).responses
    (row,) = answer.partition_responses
    assert row.error_code == 87
    named = [(one.batch_index, one.batch_index_error_message) for one in row.record_errors]
    assert named == ([(1, None), (3, None)] if version >= 8 else [])
    if version >= 8:
        assert "give it a key" in row.error_message
    assert offsets(ask, name) == [0]


@pytest.mark.parametrize("configs", [{}, FIFO, {"cleanup.policy": "compact"}])
def test_what_nobody_can_read_is_refused_for_good(ask: Asker, configs: dict[str, str]) -> None:
    name = "produce-unreadable-" + "-".join(configs)[:40]
    ask.create_topic(name, configs={"max.message.bytes": str(1 << 23), **configs})
    for problem, batch in UNREADABLE.items():
        (answer,) = ask(0, 9, request(name, batch)).responses
        (row,) = answer.partition_responses
        assert (problem, row.error_code) == (problem, 87)
        assert row.error_message
    assert offsets(ask, name) == [0]
    (answer,) = ask(0, 9, request(name, bytes(build_batch(2, key=b"k")))).responses
    assert answer.partition_responses[0].error_code == 0


def test_records_are_not_checked_where_a_topic_says_so(ask: Asker) -> None:
    ask.create_topic("produce-unchecked", configs={"penstock.validate.records": "false"})
    batches = [UNREADABLE["garbage"], UNREADABLE["no zstd"], UNREADABLE["one fewer"]]
    for batch in batches:
        (answer,) = ask(0, 9, request("produce-unchecked", batch)).responses
        assert answer.partition_responses[0].error_code == 0
    assert offsets(ask, "produce-unchecked") == [10]


@pytest.mark.parametrize(
    "rule",
    [
        {"queue.order": "fifo"},
        {"queue.deduplication": "id"},
        {"queue.message.headers": "true"},
        {"cleanup.policy": "compact"},
    ],
)
def test_records_that_replicas_open_are_checked_whatever_a_topic_says(
    ask: Asker, rule: dict[str, str]
) -> None:
    name = f"produce-opened-{next(iter(rule.values()))}"
    ask.create_topic(name, configs={"penstock.validate.records": "false", **rule})
    (answer,) = ask(0, 9, request(name, UNREADABLE["garbage"])).responses
    assert answer.partition_responses[0].error_code == 87
    assert offsets(ask, name) == [0]


def test_the_order_stays_while_some_batches_are_checked_in_a_thread(
    ask: Asker, connect: Connect, run: Run
) -> None:
    ask.create_topic("produce-mixed")

    async def scenario() -> None:
        async with connect() as client:
            for number in range(60):
                batch = build_batch(number + 1, value=bytes(9_000), compression=number % 5)
                client.send(0, 9, request("produce-mixed", bytes(batch)))
                if number % 7 == 0:
                    client.send(0, 9, request("produce-mixed", UNREADABLE["garbage in gzip"]))
            answers = [await client.receive() for _ in range(69)]
        rows = [answer.responses[0].partition_responses[0] for answer in answers]
        assert [row.error_code for row in rows].count(87) == 9
        bases = [row.base_offset for row in rows if not row.error_code]
        assert bases == [sum(range(number + 1)) for number in range(60)]

    run(scenario())


@pytest.mark.parametrize(
    ("configs", "shift_ms", "code"),
    [
        ({}, 7_200_000, 32),
        ({}, 3_000_000, 0),
        ({}, -10 * 365 * 86_400_000, 0),
        ({"message.timestamp.after.max.ms": "10000"}, 60_000, 32),
        ({"message.timestamp.after.max.ms": str(1 << 62)}, 7_200_000, 0),
        ({"message.timestamp.before.max.ms": "10000"}, -60_000, 32),
        ({"message.timestamp.type": "LogAppendTime"}, 7_200_000, 0),
    ],
)
def test_times_too_far_from_now_are_refused(
    ask: Asker, configs: dict[str, str], shift_ms: int, code: int
) -> None:
    name = f"produce-times-{len(str(configs))}-{shift_ms}"
    ask.create_topic(name, configs=configs)
    now_ms = ask.broker.node.topics.clock.wall_ms()
    batch = bytes(build_batch(2, timestamp=now_ms + shift_ms))
    (answer,) = ask(0, 9, request(name, batch)).responses
    assert answer.partition_responses[0].error_code == code
