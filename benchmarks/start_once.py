"""One process of the start benchmark:  python -m benchmarks.start_once build|kill|close DIRECTORY …

build DIRECTORY SHAPE BYTES   make a log, then die as by `kill -9`
kill DIRECTORY                start, report, die as by `kill -9`
close DIRECTORY               start, report, stop in good order
"""

import asyncio
import os
import signal
import sys
import time
from pathlib import Path

import msgspec
import uvloop

from benchmarks.logs import SHAPES, build_log, settings_for
from benchmarks.report import KIB
from benchmarks.shards import wait_leading
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard


class Started(msgspec.Struct, kw_only=True):
    """What one start took."""

    open_seconds: float
    ready_seconds: float
    memory_before_bytes: int
    memory_bytes: int
    memory_peak_bytes: int
    log_bytes: int
    segments: int


async def start(directory: str, *, close: bool) -> None:
    """Start a shard on the log, say what it took, and end as asked."""
    before = _memory("VmRSS")
    began = time.perf_counter()
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    shard = await Shard.open(settings_for(directory), network)
    opened = time.perf_counter()
    await wait_leading(shard)
    ready = time.perf_counter()
    log = shard.replica.log.statistics()
    started = Started(
        open_seconds=opened - began,
        ready_seconds=ready - began,
        memory_before_bytes=before,
        memory_bytes=_memory("VmRSS"),
        memory_peak_bytes=_memory("VmHWM"),
        log_bytes=log.size_bytes,
        segments=log.segments,
    )
    sys.stdout.buffer.write(msgspec.json.encode(started))
    sys.stdout.flush()
    if close:
        await shard.close()
    else:
        os.kill(os.getpid(), signal.SIGKILL)


def _memory(name: str) -> int:
    """A line of this process's status, in bytes."""
    for line in Path("/proc/self/status").read_text("utf-8").splitlines():
        if line.startswith(name):
            return int(line.split()[1]) * KIB
    raise AssertionError(f"the system does not tell {name}")


def main(arguments: list[str]) -> None:
    """See the top of this module."""
    asyncio.set_event_loop_policy(uvloop.EventLoopPolicy())
    match arguments:
        case ["build", directory, shape, total_bytes]:
            build_log(directory, SHAPES[shape], int(total_bytes))
            os.kill(os.getpid(), signal.SIGKILL)
        case ["kill" | "close" as how, directory]:
            asyncio.run(start(directory, close=how == "close"))
        case _:
            raise SystemExit(__doc__)


if __name__ == "__main__":
    main(sys.argv[1:])
