"""The settings of a node."""

import msgspec

from penstock.core.limits import DELIVERY_HISTORY_BYTES_MAX, MIB, SHARD_STATE_BYTES_MAX, TICK_MS
from penstock.core.types import NodeId
from penstock.engine.groups.requests import GroupSettings
from penstock.engine.topics.topics import EngineSettings
from penstock.storage import LogSettings

BALLAST_BYTES_PER_SHARD = 32 * MIB


class NodeSettings(msgspec.Struct, frozen=True, kw_only=True):
    data: str
    node_id: NodeId = NodeId(1)
    cluster: dict[NodeId, str] = {}
    """The addresses of the peers, this node's own included; empty for a cluster of one."""
    peer_host: str = "127.0.0.1"
    peer_port: int | None = 0
    """0: any that is free. None: no peers, no sockets; only for a cluster of one."""
    cluster_key_file: str | None = None
    """The cluster key, if it is not the one in the data directory."""
    dialled_networks: tuple[str, ...] = ()
    """The networks of other nodes besides loopback and private ones, as `192.0.2.0/24`."""
    shards: int = 4
    rack: str = ""
    tick_ms: int = TICK_MS
    """The pace of Raft's clock, on which every timeout of a shard rests."""
    log: LogSettings = LogSettings(ballast_bytes=BALLAST_BYTES_PER_SHARD)
    history_bytes: int = DELIVERY_HISTORY_BYTES_MAX
    """The size of each shard's delivery history."""
    state_bytes_max: int = SHARD_STATE_BYTES_MAX
    """Of each shard; above it new state is refused."""
    engine: EngineSettings = EngineSettings()
    groups: GroupSettings = GroupSettings()
