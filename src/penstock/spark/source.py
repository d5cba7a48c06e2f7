"""`format("penstock")`: what Spark finds by that name, to read and to write, batches and streams.

    spark.read.format("penstock")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()

Columns and options are those of Spark's Kafka connector: `columns`, `read_options`. With `queue` in
place of `subscribe`, a stream reads a queue and settles what it has finished: `queue_reader`.
Writing is in `writer` and `stream_writer`.

Spark imports this in many processes that need one of the four only. So nothing else is imported
until it is asked for.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

FORMAT = "penstock"
QUEUE = "queue"


class PenstockSource(DataSource):
    """The data source `penstock`: makes the readers and writers of a query from its options."""

    @classmethod
    def name(cls) -> str:
        """The name of the format."""
        return FORMAT

    def _given(self) -> dict[str, str]:
        """The options, by their names in lower case."""
        return {name.lower(): value for name, value in dict(self.options).items()}

    def schema(self) -> "StructType":
        """All columns. Spark asks for them in `load`, so a bad option is refused there already."""
        from penstock.spark.reading.columns import row_schema  # noqa: PLC0415 - see above
        from penstock.spark.reading.read_options import check_names, flag  # noqa: PLC0415

        given = self._given()
        check_names(given)
        include_headers = flag(given, "includeHeaders", default=False)
        if QUEUE in given:
            from penstock.spark.queues.queue_columns import queue_schema  # noqa: PLC0415

            return queue_schema(include_headers=include_headers)
        return row_schema(include_headers=include_headers)

    def reader(self, schema: "StructType") -> "DataSourceReader":
        """Make the reader for `spark.read`."""
        given = self._given()
        if QUEUE in given:
            from penstock.spark.queues.queue_reader import queue_reader  # noqa: PLC0415

            return queue_reader(schema, given)
        from penstock.spark.reading.read_options import read_options  # noqa: PLC0415

        options = read_options(given, is_stream=False)
        if options.push_filters:
            from penstock.spark.reading.filters import FilteringReader  # noqa: PLC0415

            return FilteringReader(schema, options)
        from penstock.spark.reading.reader import PenstockReader  # noqa: PLC0415

        return PenstockReader(schema, options)

    def streamReader(self, schema: "StructType") -> "DataSourceStreamReader":  # noqa: N802
        """Make the reader for `spark.readStream`."""
        given = self._given()
        if QUEUE in given:
            from penstock.spark.queues.queue_reader import queue_stream_reader  # noqa: PLC0415

            return queue_stream_reader(schema, given)
        from penstock.spark.reading.read_options import read_options  # noqa: PLC0415
        from penstock.spark.reading.stream_reader import PenstockStreamReader  # noqa: PLC0415

        return PenstockStreamReader(schema, read_options(given, is_stream=True))

    def writer(self, schema: "StructType", overwrite: bool) -> "DataSourceWriter":
        """Make the writer for `DataFrame.write`."""
        from penstock.spark.sink.writer import PenstockWriter  # noqa: PLC0415

        return PenstockWriter(self._given(), schema, overwrite=overwrite)

    def streamWriter(  # noqa: N802
        self,
        schema: "StructType",
        overwrite: bool,
    ) -> "DataSourceStreamWriter":
        """Make the writer for `DataFrame.writeStream`."""
        from penstock.spark.sink.stream_writer import PenstockStreamWriter  # noqa: PLC0415

        return PenstockStreamWriter(self._given(), schema, overwrite=overwrite)
