"""A task at work on a real broker: what it cannot decode, and what goes missing under it."""

import logging
from collections.abc import Iterator

import pytest

from penstock.client.client import Client
from penstock.core.errors import OffsetOutOfRange
from penstock.core.message import NewMessage
from penstock.core.message_batches import build_messages, frame_records
from penstock.spark.connections import client_of, close_clients, run
from penstock.spark.reading.columns import arrow_schema, row_schema
from penstock.spark.reading.fetcher import read_stretches
from penstock.spark.reading.ranges import Stretch
from penstock.spark.reading.read_options import read_options
from penstock.testing import PenstockServer
from penstock.wire.requests import Append, Appended

SCHEMA = arrow_schema(row_schema(include_headers=False))
GOOD = build_messages([NewMessage(b"good")] * 3, 1_700_000_000_000)
BAD = frame_records(b"\x08no records" + bytes(40), 2, base_ms=0, max_ms=0)


@pytest.fixture
def url() -> Iterator[str]:
    with PenstockServer() as broker:
        configs = {"penstock.validate.records": "false"}
        run(client_of(broker.url).create_topic("orders", partitions=1, configs=configs))
        yield broker.url
        close_clients()


async def append(client: Client, batch: bytearray) -> None:
    """What a client of any kind may send; this topic's batches are not checked."""
    router = client._core.router
    await router.ask_leader(
        "orders",
        0,
        lambda info: (Append(info.topic_id, 0), batch),
        Appended,
        deadline=router.deadline(None),
    )


def values(url: str, stretch: Stretch, **more: str) -> list[tuple[int, bytes]]:
    options = read_options({"url": url, "subscribe": "orders", **more}, is_stream=False)
    return [
        (row["offset"], row["value"])
        for batch in read_stretches([stretch], SCHEMA, options)
        for row in batch.to_pylist()
    ]


def test_a_batch_that_is_none_is_data_loss(url: str, caplog: pytest.LogCaptureFixture) -> None:
    for batch in (GOOD, BAD, GOOD):
        run(append(client_of(url), batch))
    whole = Stretch("orders", 0, 0, 8)
    with pytest.raises(OffsetOutOfRange, match=r"messages 3 to 4 of partition 0 of orders cannot"):
        values(url, whole)
    with caplog.at_level(logging.WARNING, "penstock.spark"):
        found = values(url, whole, failOnDataLoss="false")
    assert found == [(offset, b"good") for offset in (0, 1, 2, 5, 6, 7)]
    assert "messages 3 to 4" in caplog.text
    assert values(url, Stretch("orders", 0, 6, 7)) == [(6, b"good")]


def test_a_topic_that_goes_away_is_data_loss(url: str) -> None:
    run(append(client_of(url), GOOD))
    run(client_of(url).delete_topic("orders"))
    with pytest.raises(OffsetOutOfRange, match="orders cannot be read any more"):
        values(url, Stretch("orders", 0, 0, 3))
    assert values(url, Stretch("orders", 0, 0, 3), failOnDataLoss="false") == []


def test_whoever_has_read_enough_may_stop(url: str) -> None:
    for _ in range(3):
        run(append(client_of(url), GOOD))
    options = read_options({"url": url, "subscribe": "orders"}, is_stream=False)
    batches = read_stretches([Stretch("orders", 0, 0, 9)], SCHEMA, options)
    assert next(batches).num_rows == 9
    batches.close()  # type: ignore[attr-defined]
