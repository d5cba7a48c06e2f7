"""The preparation of the process: the requirements of a broker on the operating system."""

import os
import resource
import sys

from penstock.core.errors import DirectoryRefused


def make_data_directory(path: str) -> None:
    """Make the directory and those above it, if they are not there."""
    try:
        os.makedirs(path, mode=0o750, exist_ok=True)
    except OSError as error:
        raise DirectoryRefused(
            f"the data directory {path} cannot be made: {error.strerror or error}"
        ) from error


def check_asserts() -> None:
    """Refuse an interpreter that leaves out asserts: they guard the data and many bounds."""
    if sys.flags.optimize:
        raise DirectoryRefused(
            "Python runs without asserts, which guard the data: start it without -O and without"
            " PYTHONOPTIMIZE"
        )


def raise_open_files_limit() -> int:
    """Take as many open files as are allowed; returns how many.

    The limit most systems start a process with, 1024, is there for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
