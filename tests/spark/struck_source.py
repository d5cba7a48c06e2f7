"""The data source `struck`: it writes like `penstock`, and dies at the worst moment.

When the batch of `STRIKE_AFTER_BATCH` is published, the driver is killed before the sink's commit
returns: the broker has the batch and Spark has not noted it. The kill is the driver's whole process
group, which the driver leads; Spark's Python workers have one of their own and end by themselves.
"""

import os
import signal
import threading
from collections.abc import Mapping

from pyspark.sql.types import StructType

from penstock.spark.sink.publisher import TaskMessages
from penstock.spark.sink.stream_writer import PenstockStreamWriter
from penstock.spark.source import PenstockSource

STRIKE_AFTER_BATCH = "STRIKE_AFTER_BATCH"
DRIVER_GROUP = "DRIVER_GROUP"


class StruckWriter(PenstockStreamWriter):
    """Commits like the real one."""

    def __init__(self, options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> None:
        super().__init__(options, schema, overwrite=overwrite)
        self._batch = int(os.environ[STRIKE_AFTER_BATCH])
        self._group = int(os.environ[DRIVER_GROUP])

    def commit(self, messages: TaskMessages, batchId: int) -> None:  # noqa: N803
        super().commit(messages, batchId)
        if batchId >= self._batch:
            os.killpg(self._group, signal.SIGKILL)
            threading.Event().wait()  # Spark hears nothing of it.


class StruckSource(PenstockSource):
    """See the top of this module."""

    @classmethod
    def name(cls) -> str:
        return "struck"

    def streamWriter(self, schema: StructType, overwrite: bool) -> StruckWriter:  # noqa: N802
        return StruckWriter(dict(self.options), schema, overwrite=overwrite)
