"""Work spread over Spark's tasks: one step each, and what each comes to.

    outcomes = run_tasks(spark, steps, work)        work(step) -> bytes, in a process of a worker

`work` and the steps are sent to the workers, so both must be plain values or names of modules. A
task may run more than once, and only what one of its runs returns counts. What the caller did wrong
(`LocalError`) would only happen again: it is handed over as an outcome, so that Spark does not try
again; anything else is Spark's to retry.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from penstock.core.errors import InvalidRequest, LocalError, PenstockError, Unavailable, error_named

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

T = TypeVar("T")

_SCHEMA = "step BIGINT, error STRING, outcome BINARY"


def run_tasks(spark: "SparkSession", steps: Sequence[T], work: Callable[[T], bytes]) -> list[bytes]:
    """Run all steps as tasks of Spark and return their results in order."""
    from pyspark.errors import PySparkException  # noqa: PLC0415 - only where there is Spark.

    if not steps:
        return []
    count = len(steps)
    try:
        rows = spark.range(0, count, 1, count).mapInArrow(_in_task(steps, work), _SCHEMA).collect()
    except PySparkException as error:
        raise reason_of(error) from error
    outcomes = {}
    for row in rows:
        if row["error"] is not None:
            raise error_named(row["error"])(bytes(row["outcome"]).decode())
        outcomes[row["step"]] = bytes(row["outcome"])
    assert len(outcomes) == count, f"{len(outcomes)} outcomes of {count} steps"
    return [outcomes[index] for index in range(count)]


def _in_task(
    steps: Sequence[T], work: Callable[[T], bytes]
) -> "Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]":
    def run(batches: "Iterator[pa.RecordBatch]") -> "Iterator[pa.RecordBatch]":
        import pyarrow as pa  # noqa: PLC0415 - in the worker.

        for batch in batches:
            for index in batch.column(0).to_pylist():
                error, outcome = None, b""
                try:
                    outcome = work(steps[index])
                except LocalError as refused:
                    error, outcome = type(refused).__name__, str(refused).encode()
                yield pa.RecordBatch.from_arrays(
                    [
                        pa.array([index], pa.int64()),
                        pa.array([error], pa.string()),
                        pa.array([outcome], pa.binary()),
                    ],
                    names=["step", "error", "outcome"],
                )

    return run


def reason_of(error: Any) -> PenstockError:
    """Return the error of a failed task, in one sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    for line in reversed(lines):
        place, colon, detail = line.partition(": ")
        if colon and place.startswith("penstock.core.errors."):
            kind = error_named(place.rpartition(".")[2])
            return kind(detail) if issubclass(kind, Unavailable) else PenstockError(detail)
    sparks = [line for line in lines if line.startswith("[")]
    pythons = [line for line in lines if "Error: " in line]
    reason = (sparks or pythons or lines or ["unknown"])[-1]
    return PenstockError(f"a task of Spark failed: {reason}")


def bad_predicate(text: str, error: Any) -> InvalidRequest:
    """Spark's error for a predicate, in a sentence."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return InvalidRequest(f"this cannot choose messages: {text}: {lines[0] if lines else error}")


def parallelism(spark: "SparkSession") -> int:
    """The number of tasks that run at once; through Spark Connect it is not known, and
    estimated."""
    context = getattr(spark, "_sc", None)
    return max(1, context.defaultParallelism) if context is not None else 8
