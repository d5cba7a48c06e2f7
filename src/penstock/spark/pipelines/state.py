"""The directory of a pipeline: where its stages have got to, and that it runs once at a time.

    lock                   held by the process that runs the pipeline
    jvm.lock               held by its Spark, which outlives a killed driver for a moment
    stages/NAME/source     what the stage reads: a checkpoint counts another topic's offsets wrongly
    stages/NAME/checkpoint Spark's own

The kernel lets go of a lock when its process ends, however it ends. A pipeline begins anew if its
directory is removed; what it wrote before stays, and is written again.
"""

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from penstock.core.errors import DirectoryInUse, InvalidRequest
from penstock.spark.pipelines.declaration import Declaration, Stage

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JVM_SECONDS_MAX = 60.0
PAUSE_SECONDS = 0.2


def state_directory(declaration: Declaration, environment: Mapping[str, str]) -> Path:
    """Return the state directory of a pipeline; by default beside the user's other state."""
    if declaration.state is not None:
        return Path(declaration.state).absolute()
    base = environment.get("XDG_STATE_HOME")
    home = Path(base) if base and Path(base).is_absolute() else Path.home() / ".local" / "state"
    return home / "penstock" / "pipelines" / declaration.name


class PipelineState:
    """The directory, held from `with` to the end of its block."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._file: IO[bytes] | None = None
        self._jvm_lock: object | None = None

    def __enter__(self) -> "PipelineState":
        try:
            self.directory.mkdir(parents=True, exist_ok=True)
            file = (self.directory / "lock").open("ab")
        except OSError as error:
            raise InvalidRequest(
                f"the state of the pipeline cannot be kept in {self.directory}: {error.strerror};"
                " say another directory with --state"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            raise DirectoryInUse(
                f"this pipeline runs already: another process holds {self.directory}; stop it, or"
                " give this run a name or a --state of its own"
            ) from error
        self._file = file
        return self

    def __exit__(self, *exc: object) -> None:
        if self._file is not None:
            self._file.close()
        self._jvm_lock = None

    def hold_with(self, spark: "SparkSession") -> None:
        """Let Spark's own process hold it, too; waits for the Spark of a driver that was killed."""
        path = str(self.directory / "jvm.lock")
        jvm: Any = spark._jvm  # noqa: SLF001 - Spark has no other door
        channel = jvm.java.io.RandomAccessFile(path, "rw").getChannel()
        deadline = time.monotonic() + JVM_SECONDS_MAX
        while (lock := channel.tryLock()) is None:
            if time.monotonic() > deadline:
                raise DirectoryInUse(
                    f"the Spark of an earlier run of this pipeline has not ended within"
                    f" {JVM_SECONDS_MAX:.0f} s and still holds {path}; end that process"
                )
            time.sleep(PAUSE_SECONDS)
        self._jvm_lock = (channel, lock)

    def release_from_spark(self) -> None:
        """A Spark that goes on after the pipeline lets go of it."""
        if isinstance(self._jvm_lock, tuple):
            self._jvm_lock[0].close()
        self._jvm_lock = None

    def checkpoint(self, stage: Stage, source: str) -> str:
        """Return the directory of a stage's checkpoint; raise an error if it belongs to another
        topic."""
        directory = self.directory / "stages" / stage.name
        directory.mkdir(parents=True, exist_ok=True)
        note = directory / "source"
        with contextlib.suppress(FileNotFoundError):
            before = note.read_text("utf-8").strip()
            if before and before != source:
                raise InvalidRequest(
                    f"stage {stage.name} has read {before} so far, and is to read {source} now:"
                    f" give it another name, or let it begin anew by removing {directory}"
                )
        temporary = note.with_suffix(".new")
        temporary.write_text(source + "\n", "utf-8")
        os.replace(temporary, note)
        return str(directory / "checkpoint")

    def forget(self) -> None:
        """Remove the checkpoints, so that the stages begin anew."""
        shutil.rmtree(self.directory / "stages", ignore_errors=True)
