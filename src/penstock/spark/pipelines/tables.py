"""Joining rows with a table: read once, sent to every worker, looked up by key.

A row that waits for its verdict passes untouched: it has no columns to look up by.
"""

from pathlib import PurePath
from typing import TYPE_CHECKING

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.declaration import Table
from penstock.spark.pipelines.reasons import literal, quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

MATCHED = "_matched"


def read_table(spark: "SparkSession", table: Table) -> "DataFrame":
    """The table as it is now; a stage that is started again reads it anew."""
    if table.sql is not None:
        return spark.sql(table.sql)
    assert table.path is not None, "a table has a path or a query"
    chosen = table.format or table.path.rpartition(".")[2]
    reader = spark.read.format(chosen)
    if chosen == "csv":
        reader = reader.option("header", "true").option("inferSchema", "true")
    return reader.load(table.path)


def enrich(
    spark: "SparkSession", frame: "DataFrame", table: Table, *, reason: str, path: str
) -> "DataFrame":
    """The frame with the table's columns; `reason` is the column that is null for sound rows."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    found = read_table(spark, table)
    _check_columns(frame, found, table, path)
    columns = table.columns or tuple(one for one in found.columns if one not in table.keys)
    chosen = found.select(
        *(F.col(quoted(one)) for one in (*table.keys, *columns)), F.lit(True).alias(MATCHED)
    )
    joined = frame.join(F.broadcast(chosen), list(table.keys), "left")
    if table.missing == "drop":
        joined = joined.where(f"{reason} IS NOT NULL OR {MATCHED}")
    elif table.missing == "dead":
        problem = literal(f"{table_name(table)} has no row for its {', '.join(table.keys)}")
        verdict = f"CASE WHEN {MATCHED} IS NULL THEN {problem} END"
        joined = joined.withColumn(reason, F.expr(f"coalesce({reason}, {verdict})"))
    return joined.drop(MATCHED)


def table_name(table: Table) -> str:
    """The name of a table in the reason of a dead letter."""
    return "the table" if table.path is None else PurePath(table.path).stem


def _check_columns(frame: "DataFrame", found: "DataFrame", table: Table, path: str) -> None:
    for name in table.keys:
        for side, there in (("the rows have", frame.columns), ("the table has", found.columns)):
            if name not in there:
                raise InvalidRequest(
                    f"{path}.keys: {side} no column {name}; there are: "
                    + ", ".join(one for one in there if not one.startswith("_"))
                )
    for name in table.columns or found.columns:
        if name not in found.columns:
            raise InvalidRequest(f"{path}.columns: the table has no column {name}")
        if name in frame.columns and name not in table.keys:
            raise InvalidRequest(
                f"{path}: both the rows and the table have a column {name}; say in `columns` which"
                " of the table's to add, or rename it with sql"
            )
