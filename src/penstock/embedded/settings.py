"""The settings of an engine inside another program.

A broker of its own may fill a machine; an engine inside a program is a guest there. So it has fewer
shards (each is two threads and a few files) and smaller segments, of which one is reserved whole
for each shard.
"""

from dataclasses import dataclass

from penstock.core.limits import GIB, MIB, TICK_MS


@dataclass(frozen=True, slots=True, kw_only=True)
class EmbeddedSettings:
    """The settings of an engine: some are fixed when the directory is created, the others apply
    while it is open."""

    shards: int
    """The number of logs that the partitions are spread over; fixed when a directory is created."""
    segment_bytes: int
    ballast_bytes: int
    """The space held back for each shard, so that acks still work when the disk is full."""
    tick_ms: int
    """The interval of checks for expired leases and delays."""
    memory_bytes_max: int
    """The size of `memory:`; `file:` is bounded by its disk."""


FILE_SETTINGS = EmbeddedSettings(
    shards=2,
    segment_bytes=16 * MIB,
    ballast_bytes=16 * MIB,
    tick_ms=TICK_MS,
    memory_bytes_max=0,
)
"""A new directory takes 96 MiB: a segment and the ballast, for the catalog and two shards."""

MEMORY_SETTINGS = EmbeddedSettings(
    shards=1,
    segment_bytes=4 * MIB,
    ballast_bytes=4 * MIB,
    tick_ms=20,
    memory_bytes_max=1 * GIB,
)
"""Space that is reserved and not written takes no memory, so ballast costs nothing here and a full
`memory:` behaves as a full disk does. Segments are small because whole ones are given back."""
