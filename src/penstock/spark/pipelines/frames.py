"""A stage as a plan of Spark: from messages to rows, each with a verdict, and back to messages.

    messages ─> parsed and judged ─┬─ sound rows ─> enrich, where, each, python, sql, select, expect
                                   └─ refused rows ─────────────────────────────> dead letters

A row carries what it came with in columns that begin with `_` (`_key`, `_value`, `_headers`,
`_topic`, `_partition`, `_offset`, `_timestamp`), which expressions may use, and `_reason`, null for
as long as nothing speaks against it. **Sound and refused rows go through one plan**, and out in one
write: a micro-batch is published with its dead letters or not at all, and the topic is read once.

`python`, `sql` and functions that make many rows of one cannot be trusted with refused rows; only
there the plan parts in two, and the topic is read twice.

Everything here is lazy and knows neither the broker nor streaming: a frame may as well be a table,
which is how a declaration is checked.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.core.errors import InvalidRequest
from penstock.spark.pipelines.checks import watermark_of
from penstock.spark.pipelines.declaration import Column, Stage
from penstock.spark.pipelines.functions import load_function, row_outcome
from penstock.spark.pipelines.reasons import (
    CORRUPT,
    ROW,
    expectation,
    first_reason,
    parsed_row,
    quoted,
    unfitting,
)
from penstock.spark.pipelines.tables import enrich

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

REASON = "_reason"
CARRIED = {
    "key": "BINARY",
    "value": "BINARY",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
}
"""Columns of a message, and their types; a row has them with `_` in front."""
INPUT_VIEW = "input"
_OUTCOME = "_outcome"
_CLASS = re.compile(r"^\[[A-Z_.]+\] ")
_MANY = re.compile(
    r"\b(?:(?:pos)?explode|inline|stack|json_tuple|variant_explode)(?:_outer)?\s*\(", re.IGNORECASE
)


@dataclass(frozen=True, slots=True, kw_only=True)
class StagePlan:
    """The context in which a stage's plan is made."""

    spark: "SparkSession"
    stage: Stage
    path: str
    """Of the stage in its declaration, for errors."""
    directory: Path
    """The directory of the user's modules."""
    before: "StructType | None" = None
    """The columns of the stage before, if it reads one."""

    @property
    def parts_in_two(self) -> bool:
        """Refused rows are kept away from what the user does to sound ones."""
        stage = self.stage
        return bool(stage.python or stage.sql or any(map(_MANY.search, stage.select)))


def judged(plan: StagePlan, messages: "DataFrame") -> "list[DataFrame]":
    """The rows of a stage, each with its verdict in `_reason`: one frame, or sound and refused."""
    frame = _parsed(plan, messages)
    for number, table in enumerate(plan.stage.enrich):
        where = f"{plan.path}.enrich[{number}]"
        with errors_at(where):
            frame = enrich(plan.spark, frame, table, reason=REASON, path=where)
    if plan.stage.where is not None:
        with errors_at(f"{plan.path}.where"):
            frame = frame.where(f"{REASON} IS NOT NULL OR ({plan.stage.where})")
    if plan.stage.each is not None:
        frame = _mapped(plan, frame)
    if not plan.parts_in_two:
        return [_finished(plan, frame)]
    sound = _transformed(plan, frame.where(f"{REASON} IS NULL"))
    return [_finished(plan, sound), frame.where(f"{REASON} IS NOT NULL")]


def united(frames: "Sequence[DataFrame]") -> "DataFrame":
    """Sound and refused rows as one frame; refused ones have nulls for columns."""
    whole = frames[0]
    for refused in frames[1:]:
        carried = refused.select(*(f"_{name}" for name in CARRIED), REASON)
        whole = whole.unionByName(carried, allowMissingColumns=True)
    return whole


def columns_of(frame: "DataFrame") -> list[str]:
    """The columns that are the user's."""
    return [name for name in frame.columns if not name.startswith("_")]


def _parsed(plan: StagePlan, messages: "DataFrame") -> "DataFrame":
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    carried = [F.col(name).alias(f"_{name}") for name in CARRIED]
    frame = messages.select(*carried)
    schema = plan.stage.schema or _schema_of(plan.before)
    if not schema:
        text = F.col("_value").cast("string").alias("value")
        return frame.select("*", text, F.lit(None).cast("string").alias(REASON))
    with errors_at(f"{plan.path}.schema"):
        parsed = F.expr(parsed_row(schema, "CAST(_value AS STRING)"))
        frame = frame.withColumn(ROW, parsed)
        columns = [F.col(f"{ROW}.{quoted(name)}").alias(name) for name in schema]
        frame = frame.select("*", *columns)
        return frame.withColumn(REASON, F.expr(first_reason(schema))).drop(ROW)


def _mapped(plan: StagePlan, frame: "DataFrame") -> "DataFrame":
    """Rows through the user's function, one by one."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    stage, path = plan.stage, f"{plan.path}.each"
    assert stage.each is not None
    function = load_function(stage.each, plan.directory, path)
    given = columns_of(frame)
    types = {one.name: one.dataType.simpleString() for one in frame.schema.fields}
    gives = stage.gives or {name: types[name] for name in given}
    schema = {name: Column(type=kind) for name, kind in gives.items()}
    row = F.when(F.col(REASON).isNull(), F.struct(*(F.col(quoted(one)) for one in given)))
    text = f"{_OUTCOME}.row"
    with errors_at(path):
        done = frame.withColumn(_OUTCOME, row_outcome(function, row)).drop(*given)
        done = done.where(
            f"{REASON} IS NOT NULL OR {text} IS NOT NULL OR {_OUTCOME}.error IS NOT NULL"
        )
        done = done.withColumn(ROW, F.expr(parsed_row(schema, text)))
        done = done.select("*", *(F.col(f"{ROW}.{quoted(one)}").alias(one) for one in schema))
        verdict = (
            f"CASE WHEN {REASON} IS NOT NULL THEN {REASON}"
            f" WHEN {_OUTCOME}.error IS NOT NULL THEN {_OUTCOME}.error"
            f" WHEN {ROW}.{CORRUPT} IS NOT NULL THEN {unfitting(schema, text)} END"
        )
        return done.withColumn(REASON, F.expr(verdict)).drop(_OUTCOME, ROW)


def _transformed(plan: StagePlan, frame: "DataFrame") -> "DataFrame":
    """Sound rows through what the user does to frames."""
    stage = plan.stage
    frame = frame.drop(REASON)
    if stage.watermark is not None:
        with errors_at(f"{plan.path}.watermark"):
            frame = frame.withWatermark(*watermark_of(stage.watermark))
    if stage.python is not None:
        function = load_function(stage.python, plan.directory, f"{plan.path}.python")
        with errors_at(f"{plan.path}.python"):
            given = function(frame)
        if not isinstance(given, type(frame)):
            raise InvalidRequest(
                f"{plan.path}.python: {stage.python} returned a {type(given).__name__}, and must"
                " return a DataFrame"
            )
        frame = given
    if stage.sql is not None:
        with errors_at(f"{plan.path}.sql"):
            frame.createOrReplaceTempView(INPUT_VIEW)
            frame = plan.spark.sql(stage.sql)
    return frame


def _finished(plan: StagePlan, frame: "DataFrame") -> "DataFrame":
    """Apply `select` and `expect`, and add the columns of a message that were dropped on the way,
    as null."""
    from pyspark.sql import functions as F  # noqa: N812, PLC0415 - Spark's own habit

    stage = plan.stage
    wanted = {f"_{name}": kind for name, kind in CARRIED.items()} | {REASON: "STRING"}
    for name, kind in wanted.items():
        if name not in frame.columns:
            frame = frame.withColumn(name, F.lit(None).cast(kind))
    if stage.select:
        with errors_at(f"{plan.path}.select"):
            chosen = [
                part
                for one in stage.select
                for part in (map(quoted, columns_of(frame)) if one.strip() == "*" else [one])
            ]
            frame = frame.selectExpr(*chosen, *(name for name in wanted if name not in chosen))
    if stage.expect:
        with errors_at(f"{plan.path}.expect"):
            unmet = expectation(stage.expect)
            frame = frame.withColumn(REASON, F.expr(f"coalesce({REASON}, {unmet})"))
    if not columns_of(frame):
        raise InvalidRequest(f"{plan.path}: no column is left to be written")
    return frame


def _schema_of(before: "StructType | None") -> dict[str, Column]:
    if before is None:
        return {}
    names = before.fieldNames()
    if names == ["value"]:
        return {}
    return {one.name: Column(type=one.dataType.simpleString()) for one in before.fields}


class errors_at:  # noqa: N801 - it reads as a function
    """Spark's own errors, as a sentence that says where in the declaration they are."""

    def __init__(self, path: str) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        from pyspark.errors import PySparkException  # noqa: PLC0415 - not on every machine

        if isinstance(error, PySparkException):
            raise InvalidRequest(f"{self._path}: {_first_sentence(error)}") from error


def _first_sentence(error: BaseException) -> str:
    lines = []
    for line in str(error).splitlines():
        if line.startswith(("== SQL", "'", "JVM stacktrace")):
            break
        lines.append(line.strip())
    sentence = " ".join(lines).partition(" SQLSTATE")[0].strip()
    return _CLASS.sub("", sentence)[:500] or type(error).__name__
