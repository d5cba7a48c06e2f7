"""The environment of a replica: its bounds, clock, disk, network and callbacks.

In production the world is an event loop, two threads, a clock and sockets; in the simulator all of
it is one timeline. The replica cannot tell the difference.
"""

from collections.abc import Callable

import msgspec

from penstock.core.clock import Clock
from penstock.core.entries import Entry
from penstock.core.limits import (
    PROPOSALS_WAITING_BYTES_MAX,
    SNAPSHOT_LOG_BYTES,
    SNAPSHOT_PART_BYTES,
    SNAPSHOT_SLICE_BYTES,
    SNAPSHOT_WRITE_BYTES,
    WRITE_BYTES_MAX,
)
from penstock.engine.replica.network import Network
from penstock.engine.replica.worker import Worker
from penstock.machines.machine import Effect, Reply
from penstock.raft import RaftSettings, Random


class ReplicaSettings(msgspec.Struct, frozen=True, kw_only=True):
    """What a user may change about a replica."""

    raft: RaftSettings
    snapshot_log_bytes: int = SNAPSHOT_LOG_BYTES
    waiting_bytes_max: int = PROPOSALS_WAITING_BYTES_MAX
    write_bytes_max: int = WRITE_BYTES_MAX
    snapshot_part_bytes: int = SNAPSHOT_PART_BYTES
    snapshot_slice_bytes: int = SNAPSHOT_SLICE_BYTES
    snapshot_write_bytes: int = SNAPSHOT_WRITE_BYTES


class Environment(msgspec.Struct, frozen=True, kw_only=True):
    """The world a replica lives in; the simulator hands in its own."""

    clock: Clock
    random: Random
    network: Network
    writer: Worker
    """Carries out what must be durable before a promise."""
    background: Worker
    """Carries out background work: snapshots, reclaiming, receiving a snapshot's records."""
    soon: Callable[[Callable[[], None]], object]
    """Calls back on the same loop after the events at hand: requests of one moment share a turn."""
    from_worker: Callable[[Callable[[], None]], object] = lambda action: action()
    """Calls back on the loop from a worker's thread."""
    on_effect: Callable[[Effect], None] = lambda _effect: None
    on_halt: Callable[[Exception], None] = lambda _error: None
    on_leadership: Callable[[bool], None] = lambda _leads: None
    """Called with True when this replica leads and knows all that was committed before, False
    after."""
    on_applied: Callable[[Entry, tuple[Reply, ...]], None] = lambda _entry, _replies: None
    """Called with every applied entry, in order, and its replies: on every replica."""
    seconds: Callable[[], float] = lambda: 0.0
    """Tells how long things take, for statistics; nothing is decided by it."""
    announce: Callable[[str], None] = lambda _line: None
    """Takes one readable line for each event an operator would want to know of."""
