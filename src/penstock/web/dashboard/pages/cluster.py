"""The cluster: its nodes, its shards and who leads them, and what happened lately."""

from collections.abc import Collection, Sequence

import msgspec
from starlette.requests import Request

from penstock.core.errors import Unavailable
from penstock.core.memory_budget import KINDS as KINDS_HELD
from penstock.core.types import NO_NODE, NodeId
from penstock.engine.cluster.node import Node as EngineNode
from penstock.engine.cluster.status import ClusterStatus, ShardStatus
from penstock.web.broker import Broker
from penstock.web.dashboard.live.recent_readings import event_lines, lately
from penstock.web.dashboard.view import View
from penstock.web.health import missing_replicas

LINES_SHOWN = 100
KINDS = ("leadership", "trouble", "link", "repair", "placement", "alert", "other")
SILENT_MS = 2_000
BEHIND_ENTRIES = 1_000


async def cluster(broker: Broker, request: Request) -> View:
    """The page of the cluster: nodes, shards and events."""
    if broker.node is None:
        raise Unavailable("the broker is starting; ask again", retry_after_ms=1_000)
    status = await broker.node.cluster.status()
    readings = lately(broker).readings
    seen = {} if readings is None else {one.node: one for one in readings.nodes}
    alive = {one.node for one in status.nodes if one.alive}
    kind = request.query_params.get("kind", "")
    return View(
        template="cluster.html",
        title="Cluster",
        data={
            "status": status,
            "nodes": [{"node": one, "reading": seen.get(one.node)} for one in status.nodes],
            "shards": [_shard_row(one, alive) for one in status.shards],
            "missing": _missing(status, alive),
            "memory": _memory(broker),
            "settled": all(node.alive for node in status.nodes)
            and all(shard.leader in alive and not shard.read_only for shard in status.shards),
            "lines": await event_lines(broker, LINES_SHOWN, _chosen(kind)),
            "kind": kind,
            "kinds": KINDS,
        },
        json="/v1/cluster",
        command="penstock cluster status",
    )


def _memory(broker: Broker) -> dict[str, object] | None:
    """The memory budget of the node that answers: what clients hold, by protocol."""
    if not isinstance(broker.node, EngineNode):
        return None
    found = broker.node.memory.statistics()
    protocols = sorted(
        {protocol for protocol, _ in found.held_by} | {*found.refused, *found.evicted}
    )
    return {
        "total": found,
        "share": min(1.0, found.held_bytes / found.bytes_max),
        "rows": [
            {
                "protocol": protocol,
                "held": [found.held_by.get((protocol, kind), 0) for kind in KINDS_HELD],
                "refused": found.refused.get(protocol, 0),
                "disconnected": found.evicted.get(protocol, 0),
            }
            for protocol in protocols
        ],
    }


def _chosen(kind: str) -> Sequence[str]:
    return (kind,) if kind in KINDS else ()


def _missing(status: ClusterStatus, alive: Collection[NodeId]) -> list[str]:
    """Return the missing replicas of shards whose leader can be reached."""
    known = tuple(one for one in status.shards if one.leader in alive)
    return missing_replicas(msgspec.structs.replace(status, shards=known))


def _shard_row(shard: ShardStatus, alive: Collection[NodeId]) -> dict[str, object]:
    """A row of a shard, with a word on its state."""
    behind = max((one.lag_entries for one in shard.followers), default=0)
    silent = [one.node for one in shard.followers if one.silent_ms >= SILENT_MS]
    if shard.read_only:
        tone, word = "critical", "read only: no majority"
    elif shard.leader == NO_NODE:
        tone, word = "critical", "no leader"
    elif shard.leader not in alive:
        tone, word = "critical", f"node {shard.leader} does not answer"
    elif shard.full:
        tone, word = "critical", "disk full"
    elif shard.snapshot_failure:
        tone, word = "warning", f"no snapshot: {shard.snapshot_failure}"
    elif any(one.damaged for one in shard.followers):
        tone, word = "warning", "a copy is being repaired"
    elif silent:
        tone, word = "warning", f"node {' and '.join(map(str, silent))} silent"
    elif behind > BEHIND_ENTRIES:
        tone, word = "attention", "a copy is behind"
    else:
        tone, word = "good", "settled"
    return {"shard": shard, "tone": tone, "word": word}
