"""The checks of `penstock doctor` on this machine: settings that make a broker slow or stop it.

A check says what it found in one sentence, and what to do if that is not good. "fail" is for what
keeps a broker from working or from keeping its promises, "warn" for what will hurt one day. A check
changes nothing that stays: the file it writes to time the disk is removed again.
"""

import ctypes
import os
import resource
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from typing import Literal

import msgspec

from penstock.core.limits import GIB
from penstock.server.notation import Address
from penstock.server.ports import is_free

Verdict = Literal["ok", "warn", "fail", "ask"]
"""The last is for what only people can answer."""

PYTHON_OLDEST = (3, 11)
OPEN_FILES_WANTED = 4_096
"""A broker holds a descriptor for each connection and several for each shard."""
SYNCS = 32
SYNC_BYTES = 4_096
SYNC_SLOW_MS = 20.0
"""Above this, one acknowledgement at a time means fewer than fifty a second."""
FREE_WARN_SHARE = 0.10
FREE_FAIL_BYTES = 256 << 20
MEMORY_FILE_SYSTEMS = {"tmpfs", "ramfs"}
NETWORK_FILE_SYSTEMS = {"nfs", "nfs4", "cifs", "smb3", "9p", "fuse.sshfs"}
MOUNTS = "/proc/self/mounts"
TIMEX_BYTES = 512
"""More than the kernel's `struct timex` has on any platform."""
CLOCK_UNSYNCHRONISED = 5
"""The state TIME_ERROR of adjtimex(2)."""


class Finding(msgspec.Struct, frozen=True):
    """The outcome of one check."""

    check: str
    verdict: Verdict
    found: str
    advice: str = ""


def check_machine(data: str, ports: dict[str, Address]) -> Iterator[Finding]:
    """Everything about this machine; `data` is where a broker would keep its files."""
    yield check_python()
    yield check_open_files()
    yield from check_disk(data)
    yield check_clock()
    for name, address in ports.items():
        yield check_port(name, address)


def check_python() -> Finding:
    """The interpreter: new enough, with asserts, and with the fast loop."""
    version = ".".join(map(str, sys.version_info[:3]))
    if sys.version_info[:2] < PYTHON_OLDEST:
        return Finding("python", "fail", f"Python {version}", "use Python 3.11 or later")
    if sys.flags.optimize:
        advice = "start it without -O and PYTHONOPTIMIZE: asserts guard the data"
        return Finding("python", "fail", f"Python {version} without asserts", advice)
    if sys.platform != "linux":
        advice = "run brokers that matter on Linux; this is fine for developing"
        return Finding("python", "warn", f"Python {version} on {sys.platform}", advice)
    return Finding("python", "ok", f"Python {version}, {os.cpu_count() or 1} processors")


def check_open_files() -> Finding:
    """Check the limit of open files and sockets of a process."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft in (resource.RLIM_INFINITY, -1) or soft >= OPEN_FILES_WANTED:
        return Finding("open files", "ok", f"{_limit(soft)} may be open")
    advice = f"raise it before a broker starts: ulimit -n {min(hard, 65_536)}"
    if hard not in (resource.RLIM_INFINITY, -1) and hard < OPEN_FILES_WANTED:
        advice = "raise it for the broker's user, with LimitNOFILE= of systemd or limits.conf"
    return Finding("open files", "warn", f"only {soft} may be open", advice)


def check_disk(data: str) -> Iterator[Finding]:
    """The place for data: that it can be written, has space, and how long a sync takes there."""
    place = _existing(data)
    if not os.access(place, os.W_OK | os.X_OK):
        advice = "choose another place with --data, or let this user write there"
        yield Finding("disk", "fail", f"{place} cannot be written", advice)
        return
    yield _check_space(place)
    kind = file_system(place)
    if kind in MEMORY_FILE_SYSTEMS:
        advice = "keep data elsewhere: what is acknowledged here is gone after a restart"
        yield Finding("file system", "warn", f"{place} is in memory ({kind})", advice)
    elif kind in NETWORK_FILE_SYSTEMS:
        advice = "keep data on a disk of this machine: what a sync means over a network varies"
        yield Finding("file system", "warn", f"{place} is on a network ({kind})", advice)
    else:
        yield Finding("file system", "ok", f"{place} is on {kind or 'a file system'}")
    yield _check_sync(place)


def check_clock() -> Finding:
    """Check that the clock is synchronised; times of messages and of nodes depend on it."""
    try:
        state = ctypes.CDLL(None).adjtimex(ctypes.create_string_buffer(TIMEX_BYTES))
    except (AttributeError, OSError):
        state = -1
    if state == CLOCK_UNSYNCHRONISED:
        advice = "run chrony or systemd-timesyncd: delays and expiry follow the leader's clock"
        return Finding("clock", "warn", "the kernel says that it is not synchronised", advice)
    if state < 0:
        return Finding("clock", "ok", "the kernel does not say whether it is kept right")
    return Finding("clock", "ok", "it is kept right")


def check_port(name: str, address: Address) -> Finding:
    """Check that a broker could listen on a port. A port that is taken may be that of the broker
    itself."""
    try:
        free = is_free(address)
    except OSError as error:
        advice = f"choose another one: penstock serve --{name} HOST:PORT"
        return Finding(f"port {name}", "fail", f"{address}: {error.strerror or error}", advice)
    told = "is free" if free else "is in use, by a broker or by something else"
    return Finding(f"port {name}", "ok", f"{address} {told}")


def file_system(place: str) -> str:
    """The type of the file system a directory is on; empty if unknown."""
    try:
        with open(MOUNTS, encoding="utf-8", errors="replace") as file:
            mounts = [line.split()[1:3] for line in file]
    except OSError:
        return ""
    real = os.path.realpath(place)
    best, kind = "", ""
    for point, its_kind in mounts:
        inside = real == point or real.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):
            best, kind = point, its_kind
    return kind


def time_syncs(place: str, count: int = SYNCS) -> list[float]:
    """Measure a few small synced writes, in milliseconds each."""
    took = []
    with tempfile.TemporaryFile(dir=place, prefix=".penstock-doctor-") as file:
        for _ in range(count):
            begun = time.perf_counter()
            os.write(file.fileno(), bytes(SYNC_BYTES))
            os.fdatasync(file.fileno())
            took.append((time.perf_counter() - begun) * 1_000)
    return took


def _check_sync(place: str) -> Finding:
    try:
        took = time_syncs(place)
    except OSError as error:
        return Finding("sync", "fail", f"{place}: {error.strerror}", "look after this disk")
    middle, worst = statistics.median(took), max(took)
    told = f"a synced write takes {middle:.2f} ms, the slowest of {len(took)} took {worst:.2f} ms"
    if middle > SYNC_SLOW_MS:
        advice = "use a faster disk, or batches: each acknowledgement waits for a sync"
        return Finding("sync", "warn", told, advice)
    return Finding("sync", "ok", told)


def _check_space(place: str) -> Finding:
    usage = shutil.disk_usage(place)
    told = f"{usage.free / GIB:.1f} of {usage.total / GIB:.1f} GiB are free"
    if usage.free < FREE_FAIL_BYTES:
        return Finding("disk", "fail", told, "free some space: a full disk stops all appends")
    if usage.free < usage.total * FREE_WARN_SHARE:
        return Finding("disk", "warn", told, "free some space, or shorten retention")
    return Finding("disk", "ok", told)


def _existing(path: str) -> str:
    """The directory itself, or the nearest one above it that is there."""
    place = os.path.abspath(path)
    while not os.path.isdir(place):
        place = os.path.dirname(place)
    return place


def _limit(number: int) -> str:
    return f"{number:,}" if number >= 0 else "any number"
