"""What a broker needs from the operating system: a directory, open files, and memory that it gives
back."""

import ctypes
import os
import resource
import sys
from collections.abc import Callable
from typing import Any, Final

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


def _find_trim() -> Callable[[int], Any] | None:
    try:
        trim: Callable[[int], Any] = ctypes.CDLL(None).malloc_trim
    except (OSError, AttributeError, TypeError):
        return None
    return trim


_TRIM: Final = _find_trim()


def release_freed_memory() -> None:
    """Give memory that the C library kept after it was freed back to the system (malloc_trim(3)).

    Buffers of requests and answers come and go by the hundred. What glibc keeps of them lies
    between blocks in use, and stays with the process until it is trimmed. It takes about 0.1 ms for
    each MiB, for the whole process. Other libraries have no such call."""
    if _TRIM is not None:
        _TRIM(0)
