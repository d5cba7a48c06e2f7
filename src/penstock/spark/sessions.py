"""A SparkSession that is ready for Penstock.

    spark = session("orders")                                  all cores of this machine, or the
                                                               cluster given to `spark-submit`
    spark = session("orders", master="spark://host:7077")      a cluster
    spark = session("orders", master="sc://host:15002")        Spark Connect: no Java on this side
    spark = session("alerts", profile="lowlatency")            micro-batches of tens of milliseconds

What plain `SparkSession.builder` leaves to chance is settled here: which Java (see `java`), that
workers run this very Python with these very packages, that times are UTC, that logs are quiet and
no web page is served, as many shuffle partitions as cores, and where temporary files go (see
`scratch`). `settings` are Spark's own and win over all of it.

**Profiles.** "bulk" suits scans and backfills. "lowlatency" suits streams of small micro-batches:
workers talk over Unix sockets, which costs scans a tenth and saves 45 ms a task, and checkpoints
are written without a process for each file, which saves 50 ms a batch. That way of writing checks
and then renames; with two drivers on one checkpoint it is unsafe, and two drivers on one checkpoint
are an error anyway.

Spark knows one session per process: a second call returns the first session, with those settings
changed that can be.
"""

import importlib.util
import os
import re
import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Literal
from urllib.parse import quote

from penstock.core.errors import InvalidRequest, NotInstalled
from penstock.core.extras import how_to_install
from penstock.spark.java import find_java
from penstock.spark.scratch import scratch_directory

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

Profile = Literal["bulk", "lowlatency"]

INSTALL = how_to_install("spark")
NEEDED = ("pyspark", "pyarrow", "pandas", "numpy")
OLDEST = (4, 2)
"""Before it, Python data sources know no limit to what a micro-batch may read."""
SUBMITTED = "PYSPARK_GATEWAY_PORT"
"""Set where `spark-submit` started this Python: Java runs already and knows its master."""
ARROW_BYTES = 4 << 20
"""Batches between Spark and Python: above and below it, throughput falls off."""

_LOGS = os.path.join(os.path.dirname(__file__), "log4j2.properties")
_ALWAYS = {
    "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{quote(_LOGS)}",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(ARROW_BYTES),
    "spark.sql.execution.arrow.pyspark.enabled": "true",
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
}
_PROFILES: dict[str, dict[str, str]] = {
    "bulk": {},
    "lowlatency": {
        "spark.python.unix.domain.socket.enabled": "true",
        "spark.sql.streaming.checkpointFileManagerClass": (
            "org.apache.spark.sql.execution.streaming.checkpointing"
            ".FileSystemBasedCheckpointFileManager"
        ),
    },
}
_LOCAL = re.compile(r"local(?:\[(\d+|\*)(?:,\s*\d+)?\])?")


def session(
    app_name: str = "penstock",
    *,
    master: str | None = None,
    profile: Profile = "bulk",
    settings: Mapping[str, str] | None = None,
) -> "SparkSession":
    """Start Spark, or return the session that this process has. Without a `master` it is the
    one given to `spark-submit`, else `local[*]`. `NotInstalled` says what is missing, before
    anything is started."""
    if profile not in _PROFILES:
        known = " or ".join(f'"{name}"' for name in _PROFILES)
        raise InvalidRequest(f'there is no profile "{profile}" of Spark settings: use {known}')
    check_packages()
    if master is None and SUBMITTED not in os.environ:
        master = "local[*]"
    is_remote = master is not None and master.startswith("sc://")
    chosen = _ALWAYS | _PROFILES[profile] | _placed(master)
    if is_remote:
        chosen = {name: value for name, value in chosen.items() if name.startswith("spark.sql.")}
    elif SUBMITTED not in os.environ:
        os.environ["JAVA_HOME"] = find_java().home
    workers = os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415 - it is not there on every machine

    builder = SparkSession.builder.appName(app_name)
    if master is not None:
        builder = builder.remote(master) if is_remote else builder.master(master)
    for name, value in {**chosen, **(settings or {})}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    if not is_remote and os.environ.get("PYSPARK_DRIVER_PYTHON", workers) != workers:
        # A source that Spark finds by itself is run with the driver's Python, on executors too,
        # where that may not be; one that is registered is run with PYSPARK_PYTHON.
        from penstock.spark.source import PenstockSource  # noqa: PLC0415 - it needs pyspark

        spark.dataSource.register(PenstockSource)
    if not is_remote:  # A server may not have Penstock installed.
        from penstock.spark.queues.progress import watch  # noqa: PLC0415 - it needs pyspark

        watch(spark)
    return spark


def check_packages() -> None:
    """Raise `NotInstalled` unless the packages are there that Spark in Python needs."""
    missing = [name for name in NEEDED if importlib.util.find_spec(name) is None]
    if missing:
        raise NotInstalled(f"Spark is not installed here ({', '.join(missing)}): {INSTALL}")
    from pyspark import __version__  # noqa: PLC0415 - it is not there on every machine

    if tuple(int(number) for number in re.findall(r"\d+", __version__)[:2]) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise NotInstalled(
            f"PySpark {__version__} is too old, Penstock needs {oldest} or later: {INSTALL}"
        )


def cores(master: str) -> int | None:
    """The number of tasks that a local master runs at once; None for other masters, where it is
    unknown."""
    matched = _LOCAL.fullmatch(master)
    if matched is None:
        return None
    if matched[1] == "*":
        return os.cpu_count() or 1
    return int(matched[1] or 1)


def _placed(master: str | None) -> dict[str, str]:
    """The settings that depend on where tasks run."""
    count = None if master is None else cores(master)
    if count is None:
        return {}
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    directory = scratch_directory()
    return {
        "spark.driver.host": "localhost",
        "spark.local.dir": directory,
        "spark.sql.shuffle.partitions": str(count),
        "spark.sql.warehouse.dir": os.path.join(directory, "warehouse"),
    }
