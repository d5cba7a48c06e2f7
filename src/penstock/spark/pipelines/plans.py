"""The stages of a declaration as plans of Spark, and whether they can be.

A plan is tried on a stream that is never started and has the columns of a topic, so that SQL which
is none, columns that are not there and tables that cannot be read are found before anything is
written, and without a broker.
"""

import logging
from pathlib import Path
from typing import TYPE_CHECKING

from penstock.spark.pipelines.declaration import Declaration, Stage
from penstock.spark.pipelines.frames import CARRIED, StagePlan, columns_of, judged
from penstock.spark.pipelines.messages import messages_of
from penstock.spark.sessions import session

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

SETTINGS = {
    # What cannot be computed is null and not an error that would stop all rows for one.
    "spark.sql.ansi.enabled": "false",
    # Errors are in the report, in a line each. Say ERROR in a pipeline's settings for Spark's.
    "spark.log.level": "OFF",
    "spark.scheduler.mode": "FAIR",
    "spark.sql.streaming.stopTimeout": "30s",
}
_SQL = "spark.sql."
_EMPTY = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in CARRIED.items()]


def pipeline_session(declaration: Declaration, *, master: str, once: bool) -> "SparkSession":
    """Start Spark for this pipeline."""
    # It repeats, with a stack trace, every error that is reported here in a sentence.
    logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL + 1)
    running = session(
        f"pipeline {declaration.name}",
        master=master,
        profile="bulk" if once else "lowlatency",
        settings={
            **{name: value for name, value in SETTINGS.items() if not name.startswith(_SQL)},
            **declaration.settings,
        },
    )
    # Spark may have been there before: what is set for the pipeline is for it alone. Nor does
    # anything else commit its progress at the broker.
    own = running.newSession()
    for name, value in {**SETTINGS, **declaration.settings}.items():
        if name.startswith(_SQL) and own.conf.isModifiable(name):
            own.conf.set(name, value)
    return own


class Plans:
    """The plans of all stages, made in order: a stage without a schema has that of the stage it
    reads."""

    def __init__(self, spark: "SparkSession", declaration: Declaration, directory: Path) -> None:
        self._spark = spark
        self._declaration = declaration
        self._directory = directory
        self._columns: dict[str, StructType] = {}

    def check(self) -> "dict[str, StructType]":
        """Try every stage; the columns of each. `InvalidRequest` says what cannot be."""
        for stage in self._declaration.stages:
            nothing = self._spark.readStream.format("rate").load().selectExpr(*_EMPTY)
            frames = self.judge(stage, nothing)
            self.messages(stage, frames)
            chosen = frames[0].select(*(f"`{name}`" for name in columns_of(frames[0])))
            self._columns[stage.name] = chosen.schema
        return self._columns

    def judge(self, stage: Stage, messages: "DataFrame") -> "list[DataFrame]":
        """The rows of a stage with their verdicts."""
        number = self._declaration.stages.index(stage)
        plan = StagePlan(
            spark=self._spark,
            stage=stage,
            path=f"stages[{number}]",
            directory=self._directory,
            before=self._columns.get(stage.source.stage or ""),
        )
        return judged(plan, messages)

    def messages(self, stage: Stage, frames: "list[DataFrame]") -> "DataFrame":
        """Return the messages that a stage writes to topics; for a lake, only its dead letters."""
        return messages_of(
            frames,
            source=self._declaration.input_of(stage),
            topic=stage.to.topic or stage.to.queue or stage.dead_letters,
            dead_letters=stage.dead_letters,
            key=stage.key,
            group=self._declaration.group_of(stage),
            path=f"stages[{self._declaration.stages.index(stage)}]",
        )
