"""Agreement on one log, sans-IO: no loop, no clock, no file, no socket, no randomness of its own.

Read `messages` first (the contract with the caller), then `node`, then what a reader is after:
`roles`, `quorum`, `log`, `progress`, `membership`, `reads`, `following`, `leadership`.
"""

from penstock.raft.log import LogReader
from penstock.raft.messages import (
    AnyMessage,
    AppendRequest,
    AppendResponse,
    Heartbeat,
    HeartbeatResponse,
    ReadReady,
    Ready,
    SnapshotOffer,
    TimeoutNow,
    VoteRequest,
    VoteResponse,
)
from penstock.raft.node import RaftNode, RaftStatistics
from penstock.raft.progress import ProgressState, ProgressView
from penstock.raft.roles import Role
from penstock.raft.settings import RaftSettings, Random

__all__ = [
    "AnyMessage",
    "AppendRequest",
    "AppendResponse",
    "Heartbeat",
    "HeartbeatResponse",
    "LogReader",
    "ProgressState",
    "ProgressView",
    "RaftNode",
    "RaftSettings",
    "RaftStatistics",
    "Random",
    "ReadReady",
    "Ready",
    "Role",
    "SnapshotOffer",
    "TimeoutNow",
    "VoteRequest",
    "VoteResponse",
]
