"""Penstock as a source and a sink of Apache Spark; it needs the extra `penstock[spark]`.

    from penstock.spark import session

    spark = session("orders")
    orders = (
        spark.read.format("penstock")
        .option("kafka.bootstrap.servers", "127.0.0.1:9092")
        .option("subscribe", "orders")
        .load()
    )

session                 a SparkSession with Java found, and settings that suit Penstock
find_java, Java         the Java that Spark would run on
watch                   tell the broker how far queries are; `session` has done it
lag, PartitionLag       how far a streaming query is behind, by partition
split, bury             rows that failed: dead letters, with a reason
archive, compact        topics into a lake of Parquet files, each offset once; fewer, larger files
history                 a topic as one table: its lake for old offsets, the broker for the rest
register_history        the same for SQL, as a view
register_table_function and as a table function, penstock_history('lake', 'topic', 'url')
replay                  messages of a lake or a log, sent once more
audit                   prove that nothing is lost and nothing doubled
dead_letter_report      what failed, why, what the dead have in common; redrive by SQL predicate
rollup, rollup_stream   rates, lag, latency, errors and forecasts of topics, as tables
enrich, enrich_stream   each message joined with the row of a table that it speaks of
Pipeline                stages that check, change and pass on rows; see the guide to pipelines

A name is imported when it is first asked for: Spark's workers import this package for every task.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.java import Java, find_java
    from penstock.spark.jobs.archive import Archived, ArchiveStep, archive
    from penstock.spark.jobs.audit import (
        AuditReport,
        Difference,
        PartitionAudit,
        SinkAudit,
        audit,
    )
    from penstock.spark.jobs.dead_letters import DeadLetterReport, dead_letter_report
    from penstock.spark.jobs.join import Enriched, enrich, enrich_stream
    from penstock.spark.jobs.replay import Replayed, ReplayStep, replay
    from penstock.spark.jobs.rollup import RollupReport, rollup, rollup_stream
    from penstock.spark.lake.compaction import Compacted, compact
    from penstock.spark.lake.history import history, register_history
    from penstock.spark.lake.table_function import register_table_function
    from penstock.spark.pipelines.pipeline import Pipeline
    from penstock.spark.queues.failures import bury, split
    from penstock.spark.queues.progress import watch
    from penstock.spark.reading.partition_lag import PartitionLag, lag
    from penstock.spark.sessions import session
else:
    from penstock.spark.public_names import load as __getattr__  # noqa: F401
    from penstock.spark.public_names import names as __dir__  # noqa: F401

__all__ = [
    "ArchiveStep",
    "Archived",
    "AuditReport",
    "Compacted",
    "DeadLetterReport",
    "Difference",
    "Enriched",
    "Java",
    "PartitionAudit",
    "PartitionLag",
    "Pipeline",
    "ReplayStep",
    "Replayed",
    "RollupReport",
    "SinkAudit",
    "archive",
    "audit",
    "bury",
    "compact",
    "dead_letter_report",
    "enrich",
    "enrich_stream",
    "find_java",
    "history",
    "lag",
    "register_history",
    "register_table_function",
    "replay",
    "rollup",
    "rollup_stream",
    "session",
    "split",
    "watch",
]
