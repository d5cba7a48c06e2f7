"""What tasks stage is there when the driver names it, and only then. No Spark is needed."""

from collections import Counter
from collections.abc import Iterator

import pyarrow as pa
import pytest

from penstock import blocking
from penstock.blocking import BlockingClient
from penstock.core.errors import InvalidRequest, PublicationConflict
from penstock.spark.connections import close_clients
from penstock.spark.sink.publisher import TaskDone, TaskMessages, publish_tasks
from penstock.spark.sink.stager import LOT_BYTES_MAX, gather, stage_rows
from penstock.spark.sink.write_options import WriteOptions, read_write_options
from penstock.testing import PenstockServer


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected
    close_clients()


def options(broker: PenstockServer, topic: str) -> WriteOptions:
    return read_write_options({"url": broker.url, "topic": topic})


def lots(*rows: range) -> Iterator[pa.RecordBatch]:
    for some in rows:
        values = [b"%d" % row for row in some]
        yield pa.RecordBatch.from_pydict({"value": pa.array(values, pa.binary())})


def values(client: BlockingClient, topic: str) -> Counter[bytes]:
    return Counter(record.raw for record in client.read(topic))


def once(rows: range) -> Counter[bytes]:
    return Counter(b"%d" % row for row in rows)


def test_only_the_attempts_that_the_driver_names_are_published(
    broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("attempts", partitions=3)
    how = options(broker, "attempts")

    def attempt(first: int) -> TaskDone:
        rows = stage_rows(
            lots(range(first, first + 40), range(0), range(first + 40, first + 50)), how, turn=1
        )
        assert rows is not None
        assert rows.records == 50
        return TaskDone(rows, "attempts", "query")

    failed, speculative, chosen, other = attempt(0), attempt(0), attempt(0), attempt(50)
    assert failed.rows is not None
    assert speculative.rows is not None
    assert client.describe_topic("attempts").messages == 0
    messages: TaskMessages = [None, chosen, other, TaskDone(None, "attempts", "query")]
    publication = publish_tasks(broker.url, messages, 0, plan="a")
    assert publication is not None
    assert publication.is_new
    assert values(client, "attempts") == once(range(100))
    # The commit is called again, and the batch is run again with other attempts.
    others: TaskMessages = [speculative, other]
    for repeated in (messages, others):
        publication = publish_tasks(broker.url, repeated, 0, plan="a")
        assert publication is not None
        assert not publication.is_new
    assert values(client, "attempts") == once(range(100))


def test_another_batch_of_the_same_number_is_refused(
    broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("planned")
    how = options(broker, "planned")

    def task(rows: range, query: str) -> TaskMessages:
        return [TaskDone(stage_rows(lots(rows), how, turn=0), "planned", query)]

    publish_tasks(broker.url, task(range(10), "query"), 4, plan="a")
    for again, query, batch, plan in (
        (range(12), "query", 4, "b"),  # Two drivers: planned apart.
        (range(10, 12), "another", 4, "a"),  # A checkpoint that was made anew.
        (range(10, 12), "query", 3, "a"),  # One that was restored.
        (range(10, 12), "query", 3, ""),
    ):
        with pytest.raises(PublicationConflict, match=f"batch {batch} of planned was not written"):
            publish_tasks(broker.url, task(again, query), batch, plan=plan)
    assert values(client, "planned") == once(range(10))
    publish_tasks(broker.url, task(range(10, 12), "query"), 5, plan="c")
    assert values(client, "planned") == once(range(12))


def test_an_empty_batch_of_a_stream_takes_its_number(
    broker: PenstockServer, client: BlockingClient
) -> None:
    client.create_topic("empty")
    how = options(broker, "empty")
    nothing: TaskMessages = [TaskDone(stage_rows(lots(range(0)), how, turn=0), "empty", "query")]
    assert publish_tasks(broker.url, nothing, 0) is None
    assert publish_tasks(broker.url, [], 0, even_nothing=True) is None
    assert client.last_published("empty") is None
    for is_new in (True, False):
        publication = publish_tasks(broker.url, nothing, 0, plan="a", even_nothing=True)
        assert publication is not None
        assert publication.is_new is is_new
    assert client.last_published("empty") == 0
    rows: TaskMessages = [TaskDone(stage_rows(lots(range(3)), how, turn=0), "empty", "query")]
    with pytest.raises(PublicationConflict):
        publish_tasks(broker.url, rows, 0, plan="b", even_nothing=True)


def test_a_bad_row_fails_its_task(broker: PenstockServer, client: BlockingClient) -> None:
    client.create_topic("narrow", configs={"max.message.bytes": "2000"})
    wide = pa.RecordBatch.from_pydict({"value": pa.array([bytes(500), bytes(3_000)])})
    with pytest.raises(InvalidRequest, match=r"row 41 of this task.*larger than topic 'narrow'"):
        stage_rows(iter([*lots(range(40)), wide]), options(broker, "narrow"), turn=0)


def test_rows_are_gathered_into_lots_of_a_size() -> None:
    small = [pa.RecordBatch.from_pydict({"value": pa.array([bytes(1_000)] * 10)})] * 1_000
    sizes = [lot.nbytes for lot in gather(iter(small), lambda: 1_000_000)]
    assert len(sizes) == 10
    assert all(1_000_000 <= size < 1_020_000 for size in sizes[:-1])
    large = pa.RecordBatch.from_pydict({"value": pa.array([bytes(1 << 20)] * 150)})
    lots_made = list(gather(iter([large]), lambda: 1))
    assert [lot.num_rows for lot in lots_made] == [37, 38, 37, 38]
    assert all(lot.nbytes <= LOT_BYTES_MAX for lot in lots_made)
