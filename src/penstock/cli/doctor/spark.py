"""The checks of `penstock doctor` on Spark, which only pipelines and jobs need."""

import importlib.metadata

from penstock.cli.doctor.machine import Finding
from penstock.core.errors import NotInstalled
from penstock.spark.java import find_java
from penstock.spark.sessions import INSTALL, check_packages


def check_spark() -> Finding:
    """Check which PySpark is installed and which Java it would run on."""
    try:
        check_packages()
    except NotInstalled as error:
        told, _, _ = str(error).partition(": ")
        return Finding("spark", "ok", f"{told}; only pipelines and jobs need it: {INSTALL}")
    version = f"PySpark {importlib.metadata.version('pyspark')}"
    try:
        java = find_java()
    except NotInstalled as error:
        told, _, advice = str(error).rpartition("; ")
        return Finding("spark", "warn", f"{version}; {told}", advice)
    return Finding("spark", "ok", f"{version} on Java {java.version} of {java.found}, {java.home}")
