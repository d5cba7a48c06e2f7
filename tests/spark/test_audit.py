"""Audit: nothing wrong is found where nothing is, and every wrong that is planted."""

from dataclasses import replace
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import InvalidRequest, LocalError
from penstock.spark import archive, audit
from penstock.spark.connections import client_of, run
from penstock.spark.jobs.audit import PartitionAudit
from penstock.spark.lake.entries import Change
from penstock.spark.lake.lake import Lake
from penstock.testing import PenstockServer
from tests.spark.lakes import make_topic, send

pytestmark = pytest.mark.long


def test_a_topic_and_its_lake_agree_until_somebody_meddles(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path)
    make_topic(broker.url, "kept", partitions=1)
    send(broker.url, "kept", range(30), partitions=1)
    archive(spark, root, "kept", url=broker.url)
    send(broker.url, "kept", range(30, 33), partitions=1)
    fine = audit(spark, "kept", url=broker.url, lake=root)
    assert fine.ok, fine.problems
    well = PartitionAudit(
        partition=0, log_start=0, log_end=33, log_rows=33, log_holes=0,
        lake_offsets=30, lake_rows=30, behind=3,
    )  # fmt: skip
    assert fine.partitions == (well,)
    late = audit(spark, "kept", url=broker.url, lake=root, complete=True)
    assert late.problems == ("kept, partition 0: 3 offsets are not archived yet",)
    # A file is rewritten behind the back of the manifest: one row is gone, one is there twice,
    # and one has another value.
    file = Lake.open(root).catalog.files_of("kept")[0]
    table = pq.read_table(tmp_path / file.path, partitioning=None)
    rows = table.to_pylist()
    rows[4] = rows[3]
    rows[7] = {**rows[7], "value": b"forged"}
    pq.write_table(pa.Table.from_pylist(rows, schema=table.schema), tmp_path / file.path)
    bad = audit(spark, "kept", url=broker.url, lake=root, limit=5)
    assert not bad.ok
    assert bad.partitions == (replace(well, doubled=1, missing=1, different=1, lake_holes=1),)
    assert [(one.kind, one.offset, one.source, one.other) for one in bad.differences] == [
        ("doubled in the lake", 3, 1, 2),
        ("missing in the lake", 4, 1, 0),
        ("different in the lake", 7, 1, 1),
    ]
    assert len(audit(spark, "kept", url=broker.url, lake=root, limit=1).differences) == 1


def test_what_a_catalog_claims_and_nobody_has_is_found(
    spark: SparkSession, broker: PenstockServer, tmp_path: Path
) -> None:
    root = str(tmp_path)
    make_topic(broker.url, "claimed", partitions=1)
    send(broker.url, "claimed", range(10), partitions=1)
    archive(spark, root, "claimed", url=broker.url, max_offsets=5)
    lake = Lake.open(root)
    one, other = lake.catalog.files_of("claimed")
    forged = msgspec.structs.replace(other, path=one.path.replace(".parquet", "-2.parquet"))
    (tmp_path / forged.path).write_bytes((tmp_path / one.path).read_bytes())
    lake.commit(
        Change(writer="compact", query="forged", batch=0, added=(forged,), removed=(other.path,))
    )
    found = audit(spark, "claimed", url=broker.url, lake=root)
    assert found.partitions[0].missing == 5
    assert found.partitions[0].doubled == 5


def test_a_sink_is_compared_by_what_messages_are_known_by(
    spark: SparkSession, broker: PenstockServer
) -> None:
    for topic in ("source", "sink"):
        make_topic(broker.url, topic)
    send(broker.url, "source", range(40))
    send(broker.url, "sink", range(40))
    for by in ("value", "key"):
        fine = audit(spark, "source", url=broker.url, sink="sink", by=by)
        assert fine.ok, fine.problems
        assert fine.sink is not None
        assert (fine.sink.source_rows, fine.sink.sink_rows) == (40, 40)
        assert fine.sink.ids == (5 if by == "key" else 40)
    send(broker.url, "source", [40])  # It never arrives.
    send(broker.url, "sink", [7, 99])  # One more often, and one that nobody has sent.
    bad = audit(spark, "source", url=broker.url, sink="sink", by="header:id")
    assert bad.sink is not None
    assert (bad.sink.missing, bad.sink.doubled, bad.sink.unknown) == (1, 1, 1)
    assert {(one.kind, one.id, one.source, one.other) for one in bad.differences} == {
        ("missing in the sink", "40", 1, 0),
        ("doubled", "7", 1, 2),
        ("unknown in the source", "99", 0, 1),
    }
    assert bad.problems == (
        "sink: 1 messages of the source are missing",
        "sink: 1 ids (header:id) are there more than once",
        "sink: 1 messages were never in the source",
    )
    # Only a part of the source, by a header that nobody has.
    unnamed = audit(
        spark, "source", url=broker.url, sink="sink", by="header:nobody", where="offset < 20"
    )
    assert unnamed.sink is not None
    assert (unnamed.sink.source_rows, unnamed.sink.unnamed) == (40, 40 + 42)


def test_bad_input_is_told(spark: SparkSession, broker: PenstockServer, tmp_path: Path) -> None:
    make_topic(broker.url, "plain")
    run(client_of(broker.url).describe_topic("plain"))
    with pytest.raises(InvalidRequest, match="known by key, value, origin, or header:NAME"):
        audit(spark, "plain", url=broker.url, sink="plain", by="colour")
    with pytest.raises(LocalError, match="has nothing of topic plain"):
        audit(spark, "plain", url=broker.url, lake=str(tmp_path))
