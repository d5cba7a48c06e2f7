"""Every row goes where the Python client would send it, in order, in batches that fit."""

from collections import defaultdict

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.client.producer.compression import OFF
from penstock.client.producer.partitioners import HashPartitioner
from penstock.core.message_batches import read_messages
from penstock.core.murmur2 import murmur2
from penstock.spark.sink.destinations import Destinations, OutgoingBatch, TopicRoom
from penstock.spark.sink.key_hash import LONG_KEY_BYTES, murmur2_column
from penstock.spark.sink.outgoing_rows import Complaints

REPEATABLE = settings(derandomize=True, deadline=None, max_examples=100, database=None)
ROOMS = {
    "small": TopicRoom("small", 3, 400),
    "large": TopicRoom("large", 7, 1 << 20),
    "single": TopicRoom("single", 1, 1_000),
}
KEY = st.none() | st.binary(max_size=20)
ROW = st.tuples(
    KEY,
    st.sampled_from([*ROOMS, "unknown", None]),
    st.none() | st.integers(-1, 8),
    st.binary(max_size=300),
)


def encode(
    rows: pa.RecordBatch, *, topic: str | None, turn: int = 0
) -> tuple[list[OutgoingBatch], Complaints]:
    complaints = Complaints(rows.num_rows)
    destinations = Destinations(ROOMS.get, topic=topic, turn=turn)
    batches = list(destinations.encode(rows, complaints, now_ms=5, compression=OFF))
    return batches, complaints


@REPEATABLE
@given(st.lists(ROW, min_size=1, max_size=60))
def test_rows_go_where_the_client_sends_them(
    given_rows: list[tuple[bytes | None, str | None, int | None, bytes]],
) -> None:
    # The value tells which row it is.
    values = [b"%d:" % row + value for row, (_, _, _, value) in enumerate(given_rows)]
    table = pa.RecordBatch.from_pydict({
        "key": pa.array([row[0] for row in given_rows], pa.binary()),
        "topic": pa.array([row[1] for row in given_rows], pa.string()),
        "partition": pa.array([row[2] for row in given_rows], pa.int64()),
        "value": pa.array(values, pa.binary()),
    })  # fmt: skip
    batches, complaints = encode(table, topic=None)
    client = HashPartitioner()
    found: dict[tuple[str, int], list[int]] = defaultdict(list)
    for topic, partition, batch, records in batches:
        assert len(batch) <= ROOMS[topic].batch_bytes
        messages = read_messages(batch)
        assert len(messages) == records
        for message in messages:
            assert message.value is not None
            row = int(message.value.partition(b":")[0])
            key, wanted, explicit, _ = given_rows[row]
            assert (message.key, message.value, topic) == (key, values[row], wanted)
            if explicit is not None:
                assert partition == explicit
            elif key is not None:
                assert partition == client.choose(key, ROOMS[topic].partitions)
            found[topic, partition].append(row)
    written = [row for rows in found.values() for row in rows]
    assert all(rows == sorted(rows) for rows in found.values())
    bad = [row for row in range(len(given_rows)) if complaints.bad[row]]
    assert sorted(written + bad) == list(range(len(given_rows)))
    for row in bad:
        _check_reason(given_rows[row], complaints.reasons[complaints.by_row[row]])


def _check_reason(row: tuple[bytes | None, str | None, int | None, bytes], reason: str) -> None:
    key, topic, partition, value = row
    if topic is None:
        assert reason == "it has no topic"
    elif topic not in ROOMS:
        assert reason.startswith("there is no topic 'unknown'")
    elif partition is not None and not 0 <= partition < ROOMS[topic].partitions:
        assert reason.startswith(f"topic {topic!r} has the partitions 0 to")
    else:
        assert reason.startswith(f"it is larger than topic {topic!r} takes")
        assert len(value) + len(key or b"") > ROOMS[topic].bytes_max - 100


def test_rows_without_a_key_take_turns_by_whole_batches() -> None:
    values = [b"%03d" % row + bytes(97) for row in range(200)]
    rows = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})
    batches, complaints = encode(rows, topic="single")
    assert {one.partition for one in batches} == {0}
    batches, complaints = encode(rows, topic="small", turn=4)
    assert not complaints.any
    turns = [one.partition for one in batches]
    assert sorted(turns.count(partition) for partition in range(3)) == [33, 33, 34]
    assert {one.records for one in batches} == {2}
    lowest = {
        partition: min(_first_row(one) for one in batches if one.partition == partition)
        for partition in range(3)
    }
    assert min(lowest, key=lowest.__getitem__) == 1  # Turn 4 of three partitions.


def _first_row(one: OutgoingBatch) -> int:
    value = read_messages(one.batch)[0].value
    assert value is not None
    return int(value[:3])


def test_the_option_counts_and_not_the_column() -> None:
    rows = pa.RecordBatch.from_pydict({
        "value": pa.array([b"1", b"2"]), "topic": pa.array(["small", None]),
    })  # fmt: skip
    batches, complaints = encode(rows, topic="large")
    assert not complaints.any
    assert {one.topic for one in batches} == {"large"}


@REPEATABLE
@given(st.lists(st.binary(max_size=40), max_size=50))
def test_a_column_is_hashed_as_its_keys_are(keys: list[bytes]) -> None:
    long = [bytes(range(256)) * 3, bytes(LONG_KEY_BYTES - 1), bytes(LONG_KEY_BYTES)]
    every = [*keys, *long]
    column = pa.array([b"skipped", *every], pa.binary()).slice(1)
    assert murmur2_column(column).tolist() == [murmur2(key) for key in every]
