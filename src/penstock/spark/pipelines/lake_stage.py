"""The last stage of many pipelines: rows into a lake, a directory of Parquet files.

    lake/part=<query>-<batch>/…          one directory for each micro-batch, complete or not there

A micro-batch is written beside and put in place by one rename. One that Spark repeats after a crash
finds its directory and is not written again, so a row is in the lake once. The name has the query's
id in it: a pipeline that begins anew does not take another's batch for its own. Any reader of
Parquet reads the directory as one table; what is not in place yet begins with `_` and is passed
over.

Dead letters of the batch are published under the same number, once.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from penstock.spark.pipelines.declaration import Stage
from penstock.spark.pipelines.frames import REASON, columns_of
from penstock.spark.pipelines.messages import messages_of
from penstock.spark.pipelines.reasons import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

QUERY_PROPERTY = "sql.streaming.queryId"


class LakeWriter:
    """Writes the micro-batches of one stage; Spark calls it with each."""

    def __init__(
        self,
        stage: Stage,
        *,
        url: str,
        source: str,
        group: str,
        count: Callable[[int, int], None],
    ) -> None:
        """`count` gets the rows and the dead letters of each batch."""
        assert stage.to.lake is not None
        self._stage = stage
        self._lake = stage.to.lake
        self._url = url
        self._source = source
        self._group = group
        self._count = count

    def write(self, rows: "DataFrame", batch: int) -> None:
        """Write one micro-batch of judged rows."""
        query = rows.sparkSession.sparkContext.getLocalProperty(QUERY_PROPERTY) or "batch"
        rows = rows.persist()
        try:
            dead = rows.where(f"{REASON} IS NOT NULL")
            dead_count = dead.count()
            written = self._place(rows.where(f"{REASON} IS NULL"), f"{query}-{batch}")
            if dead_count:
                self._write_dead_letters(dead, query, batch)
            self._count(written, dead_count)
        finally:
            rows.unpersist()

    def _place(self, sound: "DataFrame", name: str) -> int:
        """Write beside, then rename; how many rows there are."""
        from pyspark.sql import Observation  # noqa: PLC0415 - it is not there on every machine
        from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

        spark: Any = sound.sparkSession
        hadoop = spark._jvm.org.apache.hadoop.fs  # noqa: SLF001 - Spark has no other door
        place = hadoop.Path(f"{self._lake}/part={name}")
        beside = hadoop.Path(f"{self._lake}/_writing/{name}")
        files = place.getFileSystem(spark._jsc.hadoopConfiguration())  # noqa: SLF001
        columns = [quoted(one) for one in columns_of(sound)]
        if files.exists(place):
            return sound.count()
        seen = Observation()
        chosen = sound.select(*columns).observe(seen, F.count(F.lit(1)).alias("rows"))
        writer = chosen.write.mode("overwrite").option("compression", "zstd")
        if self._stage.to.partition_by:
            writer = writer.partitionBy(*self._stage.to.partition_by)
        writer.parquet(beside.toString())
        written = int(seen.get["rows"])
        if written and not files.rename(beside, place):
            raise OSError(f"{beside} could not be put in place as {place}")
        if not written:
            files.delete(beside, True)
        return written

    def _write_dead_letters(self, dead: "DataFrame", query: str, batch: int) -> None:
        letters = messages_of(
            [dead],
            source=self._source,
            topic=self._stage.dead_letters,
            dead_letters=self._stage.dead_letters,
            key=None,
            group=self._group,
        )
        sink = letters.write.format("penstock").mode("append").option("url", self._url)
        sink.option("appId", query).option("batchId", str(batch)).save()
