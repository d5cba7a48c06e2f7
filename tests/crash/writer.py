"""A process to be killed: it appends to a shard of its own and says what was acknowledged.

    python -m tests.crash.writer write DIRECTORY --life 3      until it is killed or its log fails
    python -m tests.crash.writer read DIRECTORY                what is there, then a clean stop

Whoever kills it believes nothing but its output, one fact a line:

    pid 4711                     whom to kill; under strace it is not the process that was started
    start 0 0                    a partition's log start, as recovered
    found 0 12 2-17              what recovery found: partition, offset, value
    ready                        everything found has been told
    trimming 1 40                a trim is about to be asked for: it may happen from now on
    trimmed 1 40                 it has happened
    ack 0 13 3-1                 printed after the acknowledgement, never before it

Partition KEPT holds everything for ever. Partition TRIMMED gets most of the bytes and forgets them
soon. Together with small segments and frequent snapshots this makes a second's work roll, seal,
snapshot, remove and rewrite segments. Values are unique, and a batch's length and padding follow
from its value, so that a reader can tell a batch that was altered.
"""

import argparse
import asyncio
import os
import sys
import time
from collections.abc import Iterator, Sequence
from typing import Any

from crc32c import crc32c

from penstock.core.entries import Membership
from penstock.core.errors import PartitionExists, PenstockError, Unavailable
from penstock.core.records import BATCH_HEADER_BYTES, read_header
from penstock.core.types import NodeId, Offset, PartitionId, ShardId
from penstock.engine.peers.loopback import LoopbackNetwork
from penstock.engine.replica.shard import Shard, ShardSettings
from penstock.machines.commands import CreatePartition, TrimPartition
from penstock.storage import Identity, LogSettings
from penstock.storage.disk import Buffer, RealFile
from tests.simulation.history import NOT_IDEMPOTENT, build_batch

KEPT, TRIMMED = PartitionId(0), PartitionId(1)
IDENTITY = Identity("crash-test", ShardId(0), NodeId(1))
IN_FLIGHT = 8
TRIM_EVERY_ACKS = 50
TRIM_KEEPS_OFFSETS = 60
TURN_BATCHES = 40
EXIT_HALTED = 3
EXIT_REFUSED = 4


def settings(directory: str) -> ShardSettings:
    """A cluster of one whose log rolls, snapshots and reclaims all the time."""
    return ShardSettings(
        directory=directory,
        identity=IDENTITY,
        members=Membership((NodeId(1),)),
        log=LogSettings(segment_bytes=1 << 20, ballast_bytes=1 << 20, rewrite_live_percent_max=60),
        snapshot_log_bytes=512 << 10,
        tick_ms=20,
    )


async def open_shard(directory: str) -> Shard:
    """Recover the directory and wait until the shard serves."""
    network = LoopbackNetwork(asyncio.get_running_loop().call_soon)
    shard = await Shard.open(settings(directory), network)
    while not shard.halted.done():
        try:
            await shard.wait_current()
            break
        except Unavailable:  # Even a cluster of one must elect itself first.
            await asyncio.sleep(0.001)
    for partition in (KEPT, TRIMMED):
        try:
            await shard.change(CreatePartition(partition=partition))
        except PartitionExists:
            continue
    return shard


def batch_of(value: str) -> bytearray:
    """The one batch that belongs to a value."""
    chance = crc32c(value.encode())
    large = value.endswith("t")
    body = value.encode().ljust(4_000 + chance % 12_000 if large else 100 + chance % 1_500, b".")
    return build_batch(body, 1 + chance % 3, 1_700_000_000_000, NOT_IDEMPOTENT, -1, -1)


def batches_in(shard: Shard, partition: PartitionId) -> Iterator[tuple[int, str]]:
    """Offset and value of each batch of a partition; what is not as it was sent has no value."""
    bounds = shard.replica.machine.bounds(partition)
    offset: int = bounds.log_start
    while offset < bounds.high_watermark:
        data = shard.fetch(partition, Offset(offset), 1 << 20)
        assert data, f"partition {partition} cannot be read at {offset}"
        position = 0
        while position < len(data):
            header = read_header(data, position)
            batch = data[position : position + header.size]
            value = batch[BATCH_HEADER_BYTES:].split(b".", 1)[0].decode(errors="replace")
            sent = batch_of(value)
            # The leader's stamps, offset and epoch, are the only difference there may be.
            whole = batch[8:12] == sent[8:12] and batch[16:] == sent[16:]
            yield header.base_offset, value if whole else "altered"
            position += header.size
            offset = header.base_offset + header.record_count


class Writer:
    """Appends and trims without end."""

    def __init__(self, shard: Shard, life: int) -> None:
        self._shard = shard
        self._life = life
        self._sent = 0
        self._since_trim = 0

    async def run(self) -> None:
        async with asyncio.TaskGroup() as tasks:
            for _ in range(IN_FLIGHT):
                tasks.create_task(self._append())

    async def _append(self) -> None:
        while True:
            self._sent += 1
            # In turns, because an entry that holds living batches besides dead ones stays whole.
            partition = KEPT if self._sent // TURN_BATCHES % 4 == 0 else TRIMMED
            value = f"{self._life}-{self._sent}" + ("t" if partition == TRIMMED else "")
            reply = await self._shard.append(partition, batch_of(value))
            say("ack", partition, reply.base_offset, value)
            if partition == TRIMMED:
                await self._trim(reply.base_offset - TRIM_KEEPS_OFFSETS)

    async def _trim(self, before: int) -> None:
        self._since_trim += 1
        if self._since_trim >= TRIM_EVERY_ACKS and before > 0:
            self._since_trim = 0
            say("trimming", TRIMMED, before)
            await self._shard.change(TrimPartition(partition=TRIMMED, before=Offset(before)))
            say("trimmed", TRIMMED, before)


async def write(directory: str, life: int) -> int:
    """Append until the log fails; being killed is the usual end."""
    shard = await open_shard(directory)
    tell_everything(shard)
    writer = asyncio.create_task(Writer(shard, life).run())
    ends: list[asyncio.Future[Any]] = [writer, shard.halted]
    await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
    if shard.halted.done():
        sys.stderr.write(f"halted: {shard.halted.result()}\n")
        writer.cancel()
        await asyncio.wait([writer])
        # Whatever was under way ended with an error, of which the halt is the reason.
        assert writer.cancelled() or writer.exception() is not None
        return EXIT_HALTED
    await writer
    raise AssertionError("the writer came to an end")


async def read(directory: str) -> int:
    """Tell what is there and stop in good order."""
    shard = await open_shard(directory)
    tell_everything(shard)
    await shard.close()
    return 0


def tell_everything(shard: Shard) -> None:
    for partition in (KEPT, TRIMMED):
        say("start", partition, shard.replica.machine.bounds(partition).log_start)
        for offset, value in batches_in(shard, partition):
            say("found", partition, offset, value)
    say("ready")


def say(*words: object) -> None:
    """One fact; it has left this process when this returns."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def _write_only(file: RealFile, position: int, buffers: Sequence[Buffer]) -> bool:
    file.write(position, buffers)
    return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.split("\n", maxsplit=1)[0])
    parser.add_argument("mode", choices=["write", "read"])
    parser.add_argument("directory")
    parser.add_argument("--life", type=int, default=int(time.time()))
    parser.add_argument(
        "--two-calls", action="store_true", help="write, then sync: each can be tampered with"
    )
    options = parser.parse_args()
    if options.two_calls:
        RealFile.write_through = _write_only  # type: ignore[method-assign,assignment]
    say("pid", os.getpid())
    try:
        if options.mode == "read":
            return asyncio.run(read(options.directory))
        return asyncio.run(write(options.directory, options.life))
    except PenstockError as error:
        sys.stderr.write(f"refused: {error}\n")
        return EXIT_REFUSED


if __name__ == "__main__":
    sys.exit(main())
