"""The settings of a `RaftNode`, and the randomness it is handed.

Times are in ticks: the node has no clock. The shell ticks it at a steady pace
(`core.limits.TICK_MS`) and may skip ticks when it was paused; only liveness depends on them,
never safety."""

from typing import Protocol

import msgspec

from penstock.core.limits import (
    APPEND_MESSAGE_BYTES_MAX,
    APPLY_BYTES_MAX,
    ELECTION_TICKS,
    ENTRY_CACHE_BYTES_MAX,
    HEARTBEAT_TICKS,
    INFLIGHT_BYTES_MAX,
    INFLIGHT_MESSAGES_MAX,
    UNCOMMITTED_BYTES_MAX,
)
from penstock.core.types import NodeId


class Random(Protocol):
    """A source of randomness; `random.Random` is one."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to `stop` - 1."""
        ...


class RaftSettings(msgspec.Struct, frozen=True, kw_only=True):
    """The bounds and timeouts of one node."""

    node: NodeId
    election_ticks: int = ELECTION_TICKS
    """T: an election timeout is drawn anew from [T, 2T) each time."""
    heartbeat_ticks: int = HEARTBEAT_TICKS
    append_bytes_max: int = APPEND_MESSAGE_BYTES_MAX
    """Entries in one append; a single larger entry still goes, alone."""
    inflight_messages_max: int = INFLIGHT_MESSAGES_MAX
    inflight_bytes_max: int = INFLIGHT_BYTES_MAX
    uncommitted_bytes_max: int = UNCOMMITTED_BYTES_MAX
    """Proposals above this are refused with `Overloaded`; one alone is always taken."""
    cache_bytes_max: int = ENTRY_CACHE_BYTES_MAX
    apply_bytes_max: int = APPLY_BYTES_MAX
    prompt_commits: bool = False
    """Followers learn of a commit at once. It costs a message to each and its answer: for logs that
    are read on every node and change seldom."""

    def __post_init__(self) -> None:
        assert self.node > 0, f"node ids start at 1, not {self.node}"
        assert 0 < self.heartbeat_ticks < self.election_ticks, (
            f"heartbeats every {self.heartbeat_ticks} ticks cannot stop "
            f"elections after {self.election_ticks}"
        )
        assert self.inflight_messages_max > 0, "nothing could ever be sent"
