"""Pipelines in Spark's own form: a `spark-pipeline.yml` with Python and SQL files beside it.

Spark Declarative Pipelines are run by a program of Spark's that knows neither where Java is nor
which Python to use, and forgets, from one run to the next, which tables it has made. Here it is
started so that `format("penstock")` is there to read and to write, and tables are remembered in a
catalog beside the pipeline's other state. A run does what there is and ends.
"""

import contextlib
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from penstock.core.errors import InvalidRequest
from penstock.spark.java import find_java
from penstock.spark.pipelines.state import PipelineState
from penstock.spark.sessions import INSTALL, check_packages

SPECIFICATIONS = ("spark-pipeline.yml", "spark-pipeline.yaml")
STOP_SECONDS_MAX = 30.0


def specification_in(path: Path) -> Path | None:
    """The specification that a path is, or has in it; None if it is no pipeline of this form."""
    if path.name in SPECIFICATIONS:
        return path
    found = [path / name for name in SPECIFICATIONS if (path / name).is_file()]
    return found[0] if found else None


def declarative_command(specification: Path, *, master: str, state: Path, dry: bool) -> list[str]:
    """Return the command to run. Spark starts a server of its own for it, so the master is given as
    a remote."""
    import pyspark  # noqa: PLC0415 - it is not there on every machine

    program = Path(pyspark.__file__).parent / "bin" / "spark-pipelines"
    if not program.exists():
        raise InvalidRequest(f"this PySpark has no declarative pipelines: {INSTALL}")
    settings = {
        "spark.log.level": "ERROR",
        "spark.ui.enabled": "false",
        "spark.sql.catalogImplementation": "hive",
        "spark.sql.warehouse.dir": str(state / "warehouse"),
        "spark.hadoop.javax.jdo.option.ConnectionURL": (
            f"jdbc:derby:;databaseName={state / 'catalog'};create=true"
        ),
    }
    confs = [part for name, value in settings.items() for part in ("--conf", f"{name}={value}")]
    order = "dry-run" if dry else "run"
    return [str(program), order, "--spec", str(specification), "--remote", master, *confs]


def declarative_environment(url: str) -> Mapping[str, str]:
    """The variables for it. `PENSTOCK_URL` is for the pipeline's own files."""
    import pyspark  # noqa: PLC0415 - it is not there on every machine

    return {
        **os.environ,
        "JAVA_HOME": find_java().home,
        "PENSTOCK_URL": url,
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }


def run_declarative(
    specification: Path, *, master: str, state: Path, url: str, dry: bool = False
) -> int:
    """Run it; its exit code. What it says goes where this process says things."""
    check_packages()
    with PipelineState(state) as held:
        command = declarative_command(
            specification.absolute(), master=master, state=held.directory, dry=dry
        )
        process = subprocess.Popen(  # noqa: S603 - the program is Spark's, by its full path
            command,
            cwd=specification.absolute().parent,
            env=dict(declarative_environment(url)),
        )
        try:
            return process.wait()
        finally:
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(STOP_SECONDS_MAX)
                process.kill()
                process.wait()
