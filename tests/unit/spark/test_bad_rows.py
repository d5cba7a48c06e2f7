"""What cannot be written is told, or becomes a dead letter that fits."""

import pyarrow as pa

from penstock.client.dead_letter import dead_letter_of
from penstock.core.message import Message
from penstock.core.message_batches import read_messages
from penstock.core.murmur2 import partition_of
from penstock.spark.sink.bad_rows import dead_letters, refusal
from penstock.spark.sink.destinations import TopicRoom
from penstock.spark.sink.outgoing_rows import Complaints, read_rows

NOW = 1_700_000_000_000
ROOM = TopicRoom("dead", 3, 20_000)
HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


def table(values: list[bytes | None], **columns: pa.Array) -> tuple[pa.RecordBatch, Complaints]:
    given = pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary()), **columns})
    return read_rows(given, keep_timestamps=False, now_ms=NOW)


def letters(
    rows: pa.RecordBatch, complaints: Complaints, topic: str | None
) -> list[tuple[int, Message]]:
    found = []
    for one in dead_letters(rows, complaints, room=ROOM, topic=topic, now_ms=NOW):
        assert one.topic == "dead"
        assert len(one.batch) <= ROOM.bytes_max
        messages = read_messages(one.batch)
        assert len(messages) == one.records
        found += [(one.partition, message) for message in messages]
    return found


def test_an_error_names_the_first_bad_row() -> None:
    rows, complaints = table([b"a", b"b" * 99, None], priority=pa.array([1, 12, -1]))
    text = str(refusal(rows, complaints, before=1_000))
    assert text.startswith("row 1,001 of this task (value '" + "b" * 60 + "'…) cannot be written")
    assert "nor can 1 others near it: its priority is not between 0 and 9" in text
    assert "deadLetterTopic" in text


def test_a_letter_says_where_from_and_why() -> None:
    rows, complaints = table(
        [b"good", b"bad", None],
        key=pa.array([b"k0", b"k1", None]),
        topic=pa.array(["t0", "t1", None]),
        priority=pa.array([1, 10, 11]),
        headers=pa.array([None, [("h", b"x"), (None, b"y")], []], HEADERS),
    )
    found = {message.value: (partition, message) for partition, message in
             letters(rows, complaints, None)}  # fmt: skip
    assert set(found) == {b"bad", None}
    partition, message = found[b"bad"]
    assert partition == partition_of(b"k1", 3)
    assert (message.key, message.headers[0]) == (b"k1", ("h", b"x"))
    death = dead_letter_of(message.headers)
    assert death is not None
    assert (death.queue, death.reason) == ("t1", "a header has no name: give each header a key")
    assert death.died_at is not None
    assert message.header("penstock-priority") is None
    # A row that says no topic died nowhere, and has its reason all the same.
    assert dead_letter_of(found[None][1].headers) is None
    assert found[None][1].header("penstock-dead-reason") == b"its priority is not between 0 and 9"


def test_many_letters_and_large_ones_fit() -> None:
    values: list[bytes | None] = [b"%04d" % row + bytes(500) for row in range(400)]
    values += [bytes(100_000), b"x" * 30_000]
    rows, complaints = table(values, priority=pa.array([99] * 402))
    found = [message for _, message in letters(rows, complaints, "t")]
    assert {len(one.value or b"") for one in found if len(one.value or b"") > 504} == {7_200}
    assert {one.value for one in found if len(one.value or b"") == 504} == set(values[:400])
    assert len(found) == 402
    cut = [one for one in found if len(one.value or b"") > 504]
    assert {one.header("penstock-dead-reason") for one in cut} == {
        b"its priority is not between 0 and 9 (here its value is cut from 100,000 bytes)",
        b"its priority is not between 0 and 9 (here its value is cut from 30,000 bytes)",
    }


def test_a_key_and_headers_that_are_too_large_are_cut_too() -> None:
    rows, complaints = table(
        [b"v"],
        key=pa.array([bytes(50_000)]),
        headers=pa.array([[("h", bytes(60_000))]], HEADERS),
        priority=pa.array([99]),
    )
    ((_, message),) = letters(rows, complaints, "t")
    assert len(message.key or b"") == 4_096
    assert message.header("h") is None
    assert message.value == b"v"
