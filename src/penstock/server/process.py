"""What a broker needs from the operating system before anything else."""

import os
import resource

from penstock.core.errors import DirectoryRefused


def make_data_directory(path: str) -> None:
    """Make the directory and those above it, if they are not there."""
    try:
        os.makedirs(path, exist_ok=True)
    except OSError as error:
        raise DirectoryRefused(
            f"the data directory {path} cannot be made: {error.strerror or error}"
        ) from error


def raise_open_files_limit() -> int:
    """Take as many open files as are allowed; returns how many.

    The limit most systems start a process with, 1024, is there for programs that use `select`."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    return hard
