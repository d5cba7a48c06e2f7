"""One Spark and, for each file, one broker: a session takes seconds to start, a topic does not.

Every test here is marked `spark`. Those of a file run one after another in one process, because
they share a JVM; each uses topics, groups and checkpoints of its own. One that takes ten seconds or
more is marked `long`, and only `make spark` runs it.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from penstock.server.reserved_ports import ReservedPorts
from penstock.spark import session
from penstock.testing import PenstockServer

HERE = Path(__file__).parent
CONNECT_PORT = "spark.connect.grpc.binding.port"


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark what is in this directory."""
    for item in items:
        if item.path.is_relative_to(HERE):
            item.add_marker(pytest.mark.spark)


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """Spark on two cores of this machine, for all tests. It serves Spark Connect too, on a free
    port: a second JVM for that would take seconds more."""
    with ReservedPorts(1) as (port,):
        settings = {
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": "127.0.0.1",
            CONNECT_PORT: str(port),
        }
        running = session("tests", master="local[2]", settings=settings)
        yield running
        running.stop()


@pytest.fixture(scope="module")
def broker() -> Iterator[PenstockServer]:
    """One broker for all tests of a file, with its data in memory: `.url`, `.kafka`."""
    with PenstockServer() as running:
        yield running
