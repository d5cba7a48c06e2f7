"""Where a measurement was made: without this its numbers mean nothing."""

import importlib.metadata
import os
import platform
import subprocess
from pathlib import Path

PACKAGES = ("penstock", "confluent-kafka", "crc32c", "kio", "msgspec", "uvloop")


def describe_machine(directory: str) -> dict[str, str]:
    """Processor, memory, kernel, file system, versions, and how busy it was."""
    versions = " ".join(f"{name} {importlib.metadata.version(name)}" for name in PACKAGES)
    return {
        "processor": _field("/proc/cpuinfo", "model name") or platform.processor(),
        "cores": str(os.cpu_count()),
        "memory": _field("/proc/meminfo", "MemTotal"),
        "kernel": platform.release(),
        "file system": _file_system(directory),
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "versions": versions,
        "commit": _commit(),
        "load average at the start": " ".join(f"{load:.1f}" for load in os.getloadavg()),
    }


def _field(path: str, name: str) -> str:
    try:
        lines = Path(path).read_text("utf-8").splitlines()
    except OSError:
        return ""
    return next((line.partition(":")[2].strip() for line in lines if line.startswith(name)), "")


def _file_system(directory: str) -> str:
    """Type and options of the file system that holds `directory`."""
    found = ""
    longest = -1
    try:
        mounts = Path("/proc/self/mounts").read_text("utf-8").splitlines()
    except OSError:
        return "unknown"
    target = os.path.realpath(directory)
    for line in mounts:
        _, point, kind, options, *_ = line.split()
        inside = point in ("/", target) or target.startswith(point + "/")
        if inside and len(point) >= longest:
            longest, found = len(point), f"{kind} {options}"
    return found


def _commit() -> str:
    asked = subprocess.run(
        ["git", "describe", "--always", "--dirty"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    return asked.stdout.strip() or "unknown"
