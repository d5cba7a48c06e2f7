"""A file system in a file: what has not been synced is not in the file, and a copy of the file is
what a power cut leaves.

The image lies in memory and is mounted through a loop device. ext4 commits its journal by itself
only every ten minutes (`commit=600`), so that what reaches the image is what somebody synced, and
what the kernel chose to write back early. Needs root, loop devices and the ext4 tools.
"""

import contextlib
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from functools import cache

IMAGE_BYTES = 512 << 20
_MEMORY = "/dev/shm"
_UNMOUNT_TRIES = 50


@contextlib.contextmanager
def workspace() -> Iterator[str]:
    """A directory, in memory if there is such a place, that is gone afterwards."""
    home = _MEMORY if os.access(_MEMORY, os.W_OK) else None
    with tempfile.TemporaryDirectory(prefix="penstock-crash-", dir=home) as directory:
        yield directory


@cache
def mounting_missing() -> str | None:
    """Why images cannot be mounted here; None if they can."""
    if os.geteuid() != 0:
        return "mounting a file system needs root"
    for tool in ("mkfs.ext4", "mount", "umount"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed"
    if not os.path.exists("/dev/loop-control"):
        return "there are no loop devices"
    with workspace() as directory:
        image = os.path.join(directory, "probe.image")
        try:
            make_image(image, 16 << 20)
            with mounted(image, os.path.join(directory, "probe")):
                return None
        except subprocess.CalledProcessError as error:
            return f"mounting an image failed: {error.stderr.decode(errors='replace').strip()}"


def make_image(path: str, size: int = IMAGE_BYTES) -> None:
    """An empty file system; sparse, so it costs what is written to it."""
    with open(path, "wb") as file:
        file.truncate(size)
    _run("mkfs.ext4", "-q", "-F", "-E", "lazy_itable_init=1,lazy_journal_init=1", path)


def copy_image(source: str, target: str) -> None:
    _run("cp", "--sparse=always", source, target)


@contextlib.contextmanager
def mounted(image: str, place: str) -> Iterator[str]:
    """The image as a directory; always unmounted again."""
    os.makedirs(place, exist_ok=True)
    _run("mount", "-o", "loop,commit=600", image, place)
    try:
        yield place
    finally:
        _unmount(place)


@contextlib.contextmanager
def mounted_memory(size: int, place: str) -> Iterator[str]:
    """A small file system in memory, to be filled up."""
    os.makedirs(place, exist_ok=True)
    _run("mount", "-t", "tmpfs", "-o", f"size={size}", "penstock-test", place)
    try:
        yield place
    finally:
        _unmount(place)


def _unmount(place: str) -> None:
    """The last file of a killed process may be closed a moment after its death."""
    for _ in range(_UNMOUNT_TRIES):
        if subprocess.run(["umount", place], capture_output=True, check=False).returncode == 0:
            return
        time.sleep(0.1)
    _run("umount", "--lazy", place)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)
