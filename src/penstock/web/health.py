"""Two questions an operator asks before stopping a node, or before calling it a day.

`needed_here`: which shards would lose their majority if the answering node stopped now? A rolling
restart asks each node and waits while there are any. `missing_replicas`: which shards have fewer
copies in good order than they should? Both go by what each shard's leader says of its followers; a
shard whose leader cannot be asked counts as in danger, which errs on the side of waiting.

A cluster of one is never in danger by these rules: stopping it stops everything, and its owner
knows that.
"""

from penstock.core.types import NO_NODE, NodeId
from penstock.engine.cluster.status import ClusterStatus, ShardStatus

SILENT_MS_MAX = 2_000
LAG_ENTRIES_MAX = 10_000


def needed_here(status: ClusterStatus) -> list[str]:
    """Return a sentence for each shard that would lose its majority without the answering node."""
    found = []
    for shard in status.shards:
        if len(shard.voters) < 2 or status.node not in shard.voters:
            continue
        left = len(_sound_voters(shard) - {status.node})
        needed = len(shard.voters) // 2 + 1
        if left < needed:
            found.append(
                f"shard {shard.shard} would be left with {left} of {len(shard.voters)} voters in"
                f" good order and needs {needed}"
            )
    return found


def missing_replicas(status: ClusterStatus) -> list[str]:
    """Return a sentence for each shard that lacks a replica or a leader."""
    found = []
    for shard in status.shards:
        if shard.leader == NO_NODE or shard.read_only:
            found.append(f"shard {shard.shard} has no leader")
            continue
        sound = _sound(shard)
        missing = [str(node) for node in shard.placed if node not in sound]
        if missing:
            found.append(
                f"shard {shard.shard} has no copy in good order on node {' and '.join(missing)}"
            )
    return found


def _sound(shard: ShardStatus) -> set[NodeId]:
    """The leader, and the followers it hears from that are whole and close behind."""
    return {shard.leader} | {
        one.node
        for one in shard.followers
        if one.silent_ms < SILENT_MS_MAX and one.lag_entries <= LAG_ENTRIES_MAX and not one.damaged
    }


def _sound_voters(shard: ShardStatus) -> set[NodeId]:
    return _sound(shard) & set(shard.voters)
