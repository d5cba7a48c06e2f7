"""Spark's own Kafka connector: from Maven, or from files that SPARK_KAFKA_JARS names."""

import os
import subprocess
import sys

from pyspark import __version__

from benchmarks.report import Progress

WITHIN_SECONDS = 120
_PACKAGE = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{__version__}"
_PROGRAM = """
from benchmarks.spark.connector import connector_settings
from penstock.spark import session

session("packages", master="local[1]", settings=connector_settings())
"""


def connector_settings() -> dict[str, str]:
    """What Spark is told to have the connector."""
    jars = os.environ.get("SPARK_KAFKA_JARS", "")
    return {"spark.jars": jars} if jars else {"spark.jars.packages": _PACKAGE}


def connector_name() -> str:
    """Which one that is."""
    jars = os.environ.get("SPARK_KAFKA_JARS", "")
    names = [os.path.basename(jar) for jar in jars.split(",") if "spark-sql-kafka" in jar]
    return names[0] if names else _PACKAGE


def connector_can_be_had(progress: Progress) -> bool:
    """Whether Spark starts with it."""
    try:
        done = subprocess.run(
            [sys.executable, "-c", _PROGRAM],
            check=False,
            timeout=WITHIN_SECONDS,
            capture_output=True,
        )
    except subprocess.TimeoutExpired:
        progress("spark: Maven's packages do not come, so the Kafka connector is left out")
        return False
    if done.returncode:
        progress("spark: Maven's packages cannot be had, so the Kafka connector is left out")
    return done.returncode == 0
