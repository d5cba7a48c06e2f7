"""The ready file: the addresses of a broker, for the program that started it.

It is there while the broker serves and at no other time, but for a crash: then it stays until the
next start, and its `pid` shows that it is old. It appears whole, by a rename.
"""

import contextlib
import os

import msgspec

from penstock.core.decoders import decode_json
from penstock.core.errors import LocalError

BYTES_MAX = 65_536


def write_ready_file(path: str, content: msgspec.Struct) -> None:
    """Write it as JSON, on one line."""
    aside = f"{path}.{os.getpid()}.new"
    try:
        with open(aside, "wb") as file:
            file.write(msgspec.json.encode(content) + b"\n")
        os.replace(aside, path)
    except OSError as error:
        raise LocalError(
            f"ready_file = {path} cannot be written: {error.strerror or error}"
        ) from error


class _Written(msgspec.Struct):
    pid: int = 0


def remove_old_ready_file(path: str) -> None:
    """Remove what a crashed broker left; that of a living one is not ours to remove."""
    try:
        with open(path, "rb") as file:
            pid = decode_json(file.read(BYTES_MAX), _Written).pid
    except FileNotFoundError:
        return
    except (OSError, msgspec.DecodeError):
        pid = 0
    if pid == os.getpid() or not _is_alive(pid):
        remove_ready_file(path)


def _is_alive(pid: int) -> bool:
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except (ProcessLookupError, OverflowError):
        return False
    except PermissionError:  # Another user's process, but alive.
        return True
    return True


def remove_ready_file(path: str) -> None:
    """The broker does not serve any more."""
    with contextlib.suppress(OSError):
        os.remove(path)
