"""Pipelines on a real broker and a real Spark: every row ends in exactly one place."""

import json
import os
import signal
import subprocess
import sys
import urllib.request
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

import penstock.blocking
from penstock.client.blocking.client import BlockingClient
from penstock.core.errors import DirectoryInUse, InvalidRequest, UnknownTopic
from penstock.core.pipeline_report import PipelineReport
from penstock.spark.pipelines.lake_stage import LakeWriter
from penstock.spark.pipelines.pipeline_file import parse, read_pipeline
from penstock.spark.pipelines.plans import Plans, pipeline_session
from penstock.spark.pipelines.runner import run_pipeline
from penstock.testing import PenstockServer
from tests.cluster.waiting import wait_until

PROGRAM = Path(sys.executable).parent / "penstock"
FUNCTIONS = """
def price(row):
    if row["amount"] == 13:
        raise ValueError("thirteen")
    if row["amount"] == 14:
        return {"id": row["id"], "total": "many"}
    if row["amount"] == 15:
        return None
    return {"id": row["id"], "total": row["amount"] * 2, "country": row["country"]}


def halves(frame):
    return frame.selectExpr("id", "total", "country", "explode(array(1, 2)) AS half")
"""


@pytest.fixture(scope="module")
def client(broker: PenstockServer) -> Iterator[BlockingClient]:
    with penstock.blocking.connect(broker.url) as connected:
        yield connected


def order(number: int, **said: Any) -> bytes:
    return json.dumps({"id": f"o{number}", "amount": number, "customer": "ann", **said}).encode()


def bodies(client: BlockingClient, topic: str) -> list[dict[str, Any]]:
    return [json.loads(one.raw) for one in client.read(topic)]


def reasons(client: BlockingClient, topic: str) -> Counter[str]:
    letters = [one.dead_letter for one in client.read(topic)]
    return Counter(one.reason for one in letters if one is not None)


STAGES: list[dict[str, Any]] = [
    {
        "name": "extract",
        "from": {"queue": "incoming"},
        "schema": {
            "id": "string not null",
            "amount": {"type": "bigint", "min": 0},
            "customer": "string",
        },
    },
    {
        "name": "price",
        "enrich": {"path": "customers.csv", "keys": ["customer"], "missing": "dead"},
        "where": "amount <> 12",
        "each": "order_functions:price",
        "gives": {"id": "string", "total": "bigint", "country": "string"},
        "key": "country",
    },
    {
        "name": "load",
        "python": "order_functions:halves",
        "expect": {"we do not sell to France": "country <> 'FR'"},
        "to": {"lake": "lake", "partition_by": ["country"]},
    },
]


@pytest.mark.long
def test_every_row_ends_in_one_place(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    (tmp_path / "order_functions.py").write_text(FUNCTIONS)
    (tmp_path / "customers.csv").write_text("customer,country\nann,DE\nbob,FR\n")
    client.create_queue("incoming", partitions=2)
    good = [order(number) for number in range(1, 13)]
    bad = [b"junk", b"[1]", order(1, amount="many"), order(1, id=None), order(-1), b""]
    later = [order(13), order(14), order(15), order(16, customer="zoe"), order(17, customer="bob")]
    client.send_many("incoming", [*good, *bad, *later])
    ended = run_pipeline(
        parse({"name": "shop", "stages": STAGES}, tmp_path),
        once=True,
        url=broker.url,
        state=tmp_path / "state",
        directory=tmp_path,
    )
    assert ended.state == "done", ended
    counts = {one.stage: (one.rows_in, one.rows_out, one.rows_dead) for one in ended.stages}
    assert counts == {"extract": (23, 17, 6), "price": (17, 12, 3), "load": (12, 22, 2)}
    assert reasons(client, "shop.dead") == {
        "it is not a JSON object": 3,
        "amount is not of type bigint": 1,
        "id is missing": 1,
        "amount is less than 0": 1,
        "customers has no row for its customer": 1,
        "ValueError: thirteen": 1,
        "total is not of type bigint": 1,
        "we do not sell to France": 2,
    }
    rows = spark.read.parquet(str(tmp_path / "lake")).select("id", "half").collect()
    assert sorted(tuple(row) for row in rows) == sorted(
        (f"o{number}", half) for number in range(1, 12) for half in (1, 2)
    )
    (letter,) = [
        one for one in client.read("shop.dead")
        if one.dead_letter and one.dead_letter.reason == "ValueError: thirteen"
    ]  # fmt: skip
    assert letter.dead_letter is not None
    assert (letter.dead_letter.queue, letter.dead_letter.group) == ("shop.extract", "shop-price")
    assert json.loads(letter.raw)["amount"] == 13, "a dead letter is the message that was read"
    assert client.queue("incoming", group="shop-extract").stats().depth == 0, "it is settled"
    with urllib.request.urlopen(f"{broker.http_url}/v1/pipelines") as answer:
        (report,) = json.load(answer)["pipelines"]
    assert (report["state"], report["stages"][0]["rows_dead"]) == ("done", 6)


def test_a_batch_is_in_the_lake_once(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    """What Spark repeats after a crash changes nothing."""
    client.create_topic("pond.dead", partitions=1)
    stage = parse(
        {
            "name": "pond",
            "stages": [{"name": "load", "from": "raw", "to": {"lake": str(tmp_path / "lake")}}],
        }
    ).stages[0]
    counted: list[tuple[int, int]] = []
    lake = LakeWriter(
        stage,
        url=broker.url,
        source="raw",
        group="pond-load",
        count=lambda *both: counted.append(both),
    )
    rows = spark.sql(
        "SELECT CAST(id AS STRING) AS value, IF(id = 3, 'it is three', NULL) AS _reason,"
        " CAST('k' AS BINARY) AS _key, CAST(CAST(id AS STRING) AS BINARY) AS _value,"
        " 'raw' AS _topic,"
        " 0 AS _partition, id AS _offset, current_timestamp() AS _timestamp,"
        " CAST(NULL AS ARRAY<STRUCT<key: STRING, value: BINARY>>) AS _headers FROM range(5)"
    )
    for batch in (0, 0, 1):
        lake.write(rows, batch)
    assert counted == [(4, 1)] * 3
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 8
    assert reasons(client, "pond.dead") == {"it is three": 2}


@pytest.mark.long
def test_killed_in_the_middle(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    """kill -9 of the driver while two stages run; the next run loses and doubles nothing."""
    client.create_topic("steps", partitions=2)
    total = 600
    sent = [order(number) if number % 10 else b"junk %d" % number for number in range(total)]
    client.send_many("steps", sent)
    path = tmp_path / "steps.toml"
    path.write_text(
        f'name = "walk"\nbroker = "{broker.url}"\nstate = "state"\ntrigger = "50ms"\n'
        "max_per_trigger = 40\npartitions = 2\nrestarts = 20\n"
        '[[stages]]\nname = "first"\nfrom = "steps"\n'
        'schema = { id = "string not null", amount = "bigint" }\n'
        '[[stages]]\nname = "second"\nselect = ["id", "amount + 1 AS amount"]\n'
    )
    command = [PROGRAM, "pipeline", "run", path, "--master", "local[2]", "--json"]
    with (tmp_path / "output").open("wb") as output:
        process = subprocess.Popen(
            [str(part) for part in command], stdout=output, stderr=output, cwd=tmp_path
        )
        try:
            wait_until(
                lambda: process.poll() is not None or _count(client, "walk.second") >= 80,
                "rows that came out of the second stage",
                seconds=200,
            )
            assert process.poll() is None, (tmp_path / "output").read_text()
            declaration = read_pipeline(path)
            with pytest.raises(DirectoryInUse, match="runs already"):
                run_pipeline(declaration, once=True)
        finally:
            process.kill()
            process.wait()
    sound = [body for body in sent if not body.startswith(b"junk")]
    assert _count(client, "walk.second") < len(sound), "it was killed in the middle"
    ended = run_pipeline(declaration, once=True)
    assert ended.state == "done"
    out = Counter(one["id"] for one in bodies(client, "walk.second"))
    dead = Counter(bytes(one.raw) for one in client.read("walk.dead"))
    assert set(out.values()) | set(dead.values()) == {1}
    assert len(out) + len(dead) == total
    assert set(dead) == {body for body in sent if body.startswith(b"junk")}


@pytest.mark.long
def test_a_signal_stops_it_and_a_failure_is_bounded(
    spark: SparkSession, broker: PenstockServer, client: BlockingClient, tmp_path: Path
) -> None:
    client.create_topic("ticks", partitions=1)
    client.send_many("ticks", [b"a", b"b", b"c"])
    copy = {"name": "copy", "from": "ticks"}
    declaration = parse({"name": "copying", "stages": [copy], "trigger": "50ms"})

    def stop_when_done(report: PipelineReport) -> None:
        if report.stages[0].rows_out == 3 and report.state == "running":
            os.kill(os.getpid(), signal.SIGTERM)

    ended = run_pipeline(
        declaration, url=broker.url, state=tmp_path / "copying", show=stop_when_done
    )
    assert (ended.state, ended.stages[0].state) == ("stopped", "stopped")
    assert sorted(one.raw for one in client.read("copying.copy")) == [b"a", b"b", b"c"]
    assert client.describe_group("copying-copy").lag == 0

    fall = {"name": "fall", "from": "ticks", "select": ["raise_error('a trap') AS x"]}
    declaration = parse({"name": "falling", "stages": [fall], "restarts": 1})
    ended = run_pipeline(declaration, once=True, url=broker.url, state=tmp_path / "falling")
    (stage,) = ended.stages
    assert (ended.state, stage.state, stage.restarts) == ("failed", "failed", 1)
    assert "a trap" in stage.error

    unknown = parse({"name": "lost", "stages": [{"name": "a", "from": "nothing"}]})
    with pytest.raises(UnknownTopic, match="penstock topic create nothing"):
        run_pipeline(unknown, url=broker.url, state=tmp_path / "lost")


@pytest.mark.parametrize(
    ("said", "told"),
    [
        ({"where": "nope > 1"}, "stages[0].where: A column, variable, or function parameter"),
        ({"select": ["1 +"]}, "stages[0].select: Syntax error"),
        ({"schema": {"id": "strng"}}, "stages[0].schema:"),
        ({"schema": {"id": {"type": "int", "check": "foo(id)"}}}, "Cannot resolve routine `foo`"),
        ({"sql": "SELECT x FROM input"}, "stages[0].sql:"),
        ({"expect": {"never": "(("}}, "stages[0].expect:"),
        ({"key": "other"}, "stages[0].key:"),
        ({"enrich": {"keys": ["value"], "path": "none.csv"}}, "stages[0].enrich[0]: Path does not"),
        ({"enrich": {"keys": ["b"], "sql": "SELECT 1 AS a"}}, "the rows have no column b"),
        ({"python": "json:nothing"}, "stages[0].python: there is no function nothing"),
        ({"each": "no_such:f"}, "stages[0].each: module no_such cannot be imported"),
    ],
)
def test_what_spark_finds_wrong(spark: SparkSession, said: dict[str, Any], told: str) -> None:
    declaration = parse({"name": "wrong", "stages": [{"name": "only", "from": "raw", **said}]})
    session = pipeline_session(declaration, master="local[2]", once=True)
    with pytest.raises(InvalidRequest) as raised:
        Plans(session, declaration, Path.cwd()).check()
    assert told in str(raised.value)


def _count(client: BlockingClient, topic: str) -> int:
    known = {one.name for one in client.topics()}
    return client.describe_topic(topic).messages if topic in known else 0
