"""Reports on real brokers: dead letters and their redrive, rollups, joins with a table."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

import penstock
from penstock import blocking
from penstock.cli.main import run
from penstock.client.blocking import BlockingClient, BlockingMessage
from penstock.core.errors import InvalidRequest, UnknownTopic
from penstock.spark import dead_letter_report, enrich, rollup, rollup_stream
from penstock.spark.jobs.dead_letter_rows import find_stores, read_letters
from penstock.spark.jobs.rates import judge
from penstock.spark.jobs.reasons import kind_column, kind_of
from penstock.spark.jobs.redrives import check_predicate, redrive_by
from penstock.testing import PenstockServer

pytestmark = pytest.mark.long

ORDERS = 120
START = (datetime.now(UTC) - timedelta(minutes=30)).replace(minute=0, second=0, microsecond=0)
REASONS = [
    "",
    " \n ",
    "order 4711 took 30.2 s",
    'no such sku "X-17"',
    "KeyError: 'total'",
    "it's 5 o'clock",
    "GET http://a.b/c?d=1 failed at 192.0.2.7:80",
    "lost 123e4567-e89b-12d3-a456-426614174000 on 2026-01-02T03:04:05Z",
    "order o-00012 at 0xdeadbeef hash 9f86d081884c7d65",
    'Traceback (most recent call last):\n  File "x.py", line 7\n    g()\nValueError: no 17\n',
    "first\nsecond",
    "x" * 500,
]


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with blocking.connect(broker.url) as connected:
        yield connected


@pytest.fixture(scope="module")
def shop(client: BlockingClient) -> BlockingClient:
    """A queue where every third order names a sku that nobody has, and some took too long."""
    client.create_queue("orders_dlq")
    keep = {"queue.delete.acked": "false"}
    client.create_queue("orders", partitions=2, dead_letter="orders_dlq", settings=keep)
    orders = [
        penstock.Outgoing({"id": n, "sku": f"{'X' if n % 3 == 0 else 'A'}-{n}"}, key=f"c-{n}")
        for n in range(ORDERS)
    ]
    client.send_many("orders", orders)
    seen = 0
    while seen < ORDERS:
        for message in client.receive("orders", 100, wait=10):
            seen += 1
            number = message.body["id"]
            if number % 3 == 0:
                message.reject(f'no such sku "{message.body["sku"]}"')
            elif number % 10 == 1:
                message.reject(f"timeout after {number} ms")
            else:
                message.ack()
    client.create_queue("jobs", dead_letter="")
    client.send("jobs", "stays")
    (message,) = client.receive("jobs", wait=10)
    message.reject("gone")
    letters = client.queue("orders_dlq")
    dead = sum(n % 3 == 0 or n % 10 == 1 for n in range(ORDERS))
    taken: list[BlockingMessage[Any]] = []
    while len(taken) < dead:
        taken += letters.receive(dead, wait=20)
    letters.give_back(taken)
    return client


def test_spark_and_python_name_kinds_of_failure_alike(spark: SparkSession) -> None:
    rows = spark.createDataFrame([(one,) for one in REASONS], "reason STRING")
    named = rows.select("reason", kind_column(F.col("reason")).alias("kind")).collect()
    assert {row.reason: row.kind for row in named} == {one: kind_of(one) for one in REASONS}


def test_a_report_tells_why_messages_died_and_what_they_share(
    spark: SparkSession, broker: PenstockServer, shop: BlockingClient, tmp_path: Path
) -> None:
    report = dead_letter_report(
        broker.url, spark=spark, chart=tmp_path / "dead.png", quiet=timedelta(seconds=0)
    )
    kinds = {(one.queue, one.kind): one.messages for one in report.kinds}
    assert kinds == {
        ("orders", "no such sku <text>"): 40,
        ("orders", "timeout after <n> ms"): 8,
        ("jobs", "gone"): 1,
    }
    assert report.messages == sum(count for _, count in report.ages) == 49
    assert sum(one.messages for one in report.series) == 49
    assert report.patterns[0].pattern.trait == "sku begins with X-"
    assert report.patterns[0].pattern.living == 0
    advice = {one.kind: one.action for one in report.suggestions}
    assert advice == {
        "no such sku <text>": "fix",
        "timeout after <n> ms": "redrive",
        "gone": "redrive",
    }
    assert (tmp_path / "dead.png").read_bytes().startswith(b"\x89PNG")
    assert json.loads(report.to_json())["messages"] == 49


def test_a_predicate_chooses_what_is_redriven_and_nothing_else(
    spark: SparkSession,
    broker: PenstockServer,
    shop: BlockingClient,
    capsys: pytest.CaptureFixture[str],
) -> None:
    letters = read_letters(spark, broker.url, find_stores(broker.url, ["orders"])).persist()
    with pytest.raises(InvalidRequest, match="age_minutes"):
        check_predicate(letters, "colour = 'red'")
    with pytest.raises(InvalidRequest, match="cannot choose"):
        check_predicate(letters, "kind like")
    chosen = "kind like 'timeout%' and get_json_object(value, '$.id') < 60 and deliveries = 1"
    with pytest.raises(InvalidRequest, match="more than 2"):
        redrive_by(letters, broker.url, chosen, messages_max=2)
    counted = redrive_by(letters, broker.url, chosen)
    assert (counted.matched, counted.moved, counted.queues) == (4, 0, {"orders_dlq": 4})
    letters.unpersist()
    done = run(
        [
            "job",
            "dead-letters",
            "orders",
            "--redrive",
            chosen,
            "--yes",
            "--json",
            "--url",
            broker.url,
        ]
    )
    assert done == 0
    report = json.loads(capsys.readouterr().out)
    assert (report["redriven"]["matched"], report["redriven"]["moved"]) == (4, 4)
    back: list[BlockingMessage[Any]] = []
    while len(back) < 4:
        back += shop.receive("orders", 10, wait=20)
    assert sorted(message.body["id"] for message in back) == [1, 11, 31, 41]
    assert shop.queue("orders").ack(back) == 4
    assert shop.queue("orders_dlq").stats().depth == 44


def test_what_is_wrong_is_told_before_the_work_starts(
    spark: SparkSession, broker: PenstockServer, shop: BlockingClient, tmp_path: Path
) -> None:
    with pytest.raises(UnknownTopic, match="no queue nowhere"):
        dead_letter_report(broker.url, ["nowhere"], spark=spark)
    with pytest.raises(InvalidRequest, match="no window"):
        rollup(broker.url, ["orders"], tmp_path, spark=spark, window="soon")
    with pytest.raises(InvalidRequest, match="a topic or a lake"):
        enrich(broker.url, "orders", "t.csv", on="sku", spark=spark)
    with pytest.raises(InvalidRequest, match="no table at"):
        enrich(broker.url, "orders", tmp_path / "t.csv", on="sku", to="x", spark=spark)
    twice = spark.createDataFrame([("A", 1), ("A", 2)], "sku STRING, price INT")
    with pytest.raises(InvalidRequest, match="2 rows with sku = A"):
        enrich(broker.url, "orders", twice, on="sku", to="x", spark=spark)
    with pytest.raises(InvalidRequest, match="no column size"):
        enrich(broker.url, "orders", twice, on="size", to="x", spark=spark)


def test_a_window_that_stands_out_is_flagged_and_so_is_a_gap(spark: SparkSession) -> None:
    counts = [100 + n % 3 for n in range(20)]
    counts[15] = 900
    rows = [
        (START + timedelta(minutes=n), "t", n % 2, count, count * 10)
        for n, count in enumerate(counts)
        if n != 18
    ]
    schema = "window_start TIMESTAMP, topic STRING, partition INT, messages BIGINT, bytes BIGINT"
    odd = judge(spark.createDataFrame(rows, schema), 60).where("is_odd").orderBy("window_start")
    found = [(row.minute, row.partition, row.messages) for row in odd.selectExpr(
        "minute(window_start) AS minute", "partition", "messages"
    ).collect()]  # fmt: skip
    assert found == [(15, 1, 900), (18, -1, 0)]


def test_a_rollup_counts_what_is_in_the_log_once(
    spark: SparkSession, broker: PenstockServer, shop: BlockingClient, tmp_path: Path
) -> None:
    shop.create_topic("placed", partitions=2)
    shop.create_topic("shipped", partitions=1)
    for topic, late_ms in (("placed", 0), ("shipped", 250)):
        shop.topic(topic).send_many(
            [
                penstock.Outgoing(
                    {"id": n},
                    key=f"o-{n}",
                    timestamp=START + timedelta(seconds=n, milliseconds=late_ms * (n % 4)),
                )
                for n in range(40)
            ]
        )
    report = rollup(
        broker.url, ["placed", "orders"], tmp_path, spark=spark, window="10 seconds",
        latency=("placed", "shipped"), look=0.1,
    )  # fmt: skip
    placed = next(one for one in report.rates if one.topic == "placed")
    assert (placed.messages, placed.windows, placed.peak_per_second) == (40, 4, 1.0)
    assert report.latency is not None
    assert (report.latency.messages, report.latency.max) == (40, 750)
    errors = {one.queue: one for one in report.errors}
    assert errors["orders"].dead > 0
    assert errors["orders"].messages >= ORDERS
    rates = spark.read.parquet(report.tables["rates"])
    assert total(rates.where("topic = 'placed'")) == 40
    groups = {(one.group, one.topic) for one in report.forecasts}
    assert ("queue", "orders") in groups
    for _ in range(2):  # The second finds nothing more to do.
        rollup_stream(
            broker.url, ["placed"], tmp_path, spark=spark, window="10 seconds",
            watermark="5 seconds", trigger=None,
        ).awaitTermination()  # fmt: skip
    closed = spark.read.parquet(str(tmp_path / "rates_stream"))
    # The last window is still open: nothing came after it.
    assert total(closed) == 30


def total(rates: DataFrame) -> int:
    row = rates.agg(F.sum("messages").alias("messages")).first()
    assert row is not None
    return int(row.messages)


def test_messages_are_joined_with_a_table_once(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    products = tmp_path / "product.csv"
    products.write_text("sku,price\nA,5\nB,7\n")
    client.create_topic("sales", partitions=2)
    bodies = [b'{"id": 1, "sku": "A", "n": 1.50}', b'{"sku":"B" }', b'{"sku": "C"}', b"oops"]
    client.topic("sales", codec=bytes).send_many(bodies)
    done = enrich(
        broker.url, "sales", products, on="sku", to="priced", missing="dead", spark=spark,
        checkpoint=tmp_path / "c",
    )  # fmt: skip
    assert (done.messages, done.with_row, done.without_row, done.dead) == (4, 2, 0, 2)
    again = enrich(
        broker.url, "sales", products, on="sku", to="priced", missing="dead", spark=spark,
        checkpoint=tmp_path / "c",
    )  # fmt: skip
    assert again.messages == 0
    priced = {record.raw for record in client.read("priced", codec=bytes)}
    assert priced == {
        b'{"id": 1, "sku": "A", "n": 1.50, "product": {"sku":"A","price":5}}',
        b'{"sku":"B", "product": {"sku":"B","price":7}}',
    }
    letters = {one.raw: one.dead_letter for one in client.read("sales_dlq", codec=bytes)}
    assert {body: one.reason for body, one in letters.items() if one is not None} == {
        b'{"sku": "C"}': 'no row for sku = "C"',
        b"oops": "value is no JSON object",
    }
    kept = enrich(
        broker.url, "sales", products, on="sku", lake=tmp_path / "lake", missing="keep", spark=spark
    )
    assert (kept.with_row, kept.without_row, kept.dead) == (2, 1, 1)
    values = {row.value for row in spark.read.parquet(str(tmp_path / "lake")).collect()}
    assert '{"sku": "C", "product": null}' in values
    assert len(values) == 3
