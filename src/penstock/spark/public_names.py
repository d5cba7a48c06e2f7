"""The public names of `penstock.spark`, and where each is: imported when it is first asked for.

A worker of Spark imports the package to run one task and needs little of it; a driver that only
reads does not wait for what writes.
"""

import sys
from importlib import import_module

PACKAGE = "penstock.spark"

_MODULES = {
    "penstock.spark.queues.failures": "bury split",
    "penstock.spark.java": "Java find_java",
    "penstock.spark.jobs.archive": "Archived ArchiveStep archive",
    "penstock.spark.jobs.audit": "AuditReport Difference PartitionAudit SinkAudit audit",
    "penstock.spark.jobs.replay": "Replayed ReplayStep replay",
    "penstock.spark.lake.compaction": "Compacted compact",
    "penstock.spark.lake.history": "history register_history",
    "penstock.spark.lake.table_function": "register_table_function",
    "penstock.spark.jobs.dead_letters": "DeadLetterReport dead_letter_report",
    "penstock.spark.jobs.join": "Enriched enrich enrich_stream",
    "penstock.spark.jobs.rollup": "RollupReport rollup rollup_stream",
    "penstock.spark.reading.partition_lag": "PartitionLag lag",
    "penstock.spark.pipelines.pipeline": "Pipeline",
    "penstock.spark.queues.progress": "watch",
    "penstock.spark.sessions": "session",
}
PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}


def load(name: str) -> object:
    """Import `penstock.spark.<name>` and store it in the package, so that this is called once per
    name."""
    module = PLACES.get(name)
    if module is None:
        raise AttributeError(f"module {PACKAGE!r} has no attribute {name!r}")
    value: object = getattr(import_module(module), name)
    setattr(sys.modules[PACKAGE], name, value)
    return value


def names() -> list[str]:
    """For `dir(penstock.spark)` and completion in an editor."""
    return sorted({*PLACES, *vars(sys.modules[PACKAGE])})
