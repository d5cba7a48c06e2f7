"""A lake through Hadoop's file systems: here the local one, which knows the same calls."""

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.core.errors import LocalError, StorageError
from penstock.spark.lake.entries import Change, Covered, entry_path
from penstock.spark.lake.hadoop_storage import HadoopStorage
from penstock.spark.lake.lake import Lake

pytestmark = pytest.mark.long


def test_a_file_is_made_whole_and_once(spark: SparkSession, tmp_path: Path) -> None:
    storage = HadoopStorage(f"file://{tmp_path}/lake")
    assert storage.names("_penstock/manifest") == []
    assert storage.read("_penstock/manifest/1.json") is None
    assert storage.create("_penstock/manifest/1.json", b"first")
    assert not storage.create("_penstock/manifest/1.json", b"second")
    assert storage.read("_penstock/manifest/1.json") == b"first"
    assert storage.names("_penstock/manifest") == ["1.json"], "and no draft is left"
    data = tmp_path / "lake/topic=t/date=2026-01-31/x.parquet"
    data.parent.mkdir(parents=True)
    data.write_bytes(b"12345")
    (found,) = storage.data_files()
    assert (found.path, found.bytes) == ("topic=t/date=2026-01-31/x.parquet", 5)
    storage.remove(found.path)
    storage.remove(found.path)
    assert list(storage.data_files()) == []


def test_the_manifest_is_the_same_by_either_way(spark: SparkSession, tmp_path: Path) -> None:
    by_hadoop = Lake(HadoopStorage(f"file://{tmp_path}"))
    plain = Lake.open(str(tmp_path))
    for number, lake in enumerate((by_hadoop, plain, by_hadoop)):
        first = number * 10
        one = Covered(topic="t", topic_id="id", partition=0, first=first, end=first + 10, rows=0)
        lake.refresh()
        lake.commit(Change(writer="archive", query="q", batch=number, covered=(one,)))
    assert plain.refresh().spans("t") == by_hadoop.catalog.spans("t") == {0: ((0, 30),)}
    assert (tmp_path / entry_path(3)).exists()


def test_where_a_lake_would_not_be_safe_is_told(spark: SparkSession) -> None:
    with pytest.raises(LocalError, match="cannot be kept safe on gs://"):
        Lake.open("gs://bucket/lake")
    with pytest.raises(StorageError, match="s3a://bucket/lake cannot be reached"):
        Lake.open("s3a://bucket/lake")  # Its jars are not there.
