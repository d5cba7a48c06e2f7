"""Placement of shards on nodes, and the next safe step towards a target placement.

Three decisions, all pure functions of what the catalog and a shard's leader know:

    found       when a cluster is made: shards go round the nodes, each to `REPLICAS` of them
    balance     when nodes come and go: one changed placement at a time, as little moved as possible
    next_step   one membership change that brings a shard closer to its placement, or None

The first node of a placement is the one that should lead. Placements found here rotate, so leaders
spread as evenly as replicas do.

Shard 0 is the catalog's and is on every node: the first `CATALOG_VOTERS` nodes vote, the others
only listen, so that every node can answer questions about topics by itself.

A step never lowers safety: a node is added as a learner, becomes a voter when it has caught up, and
members leave only when all future voters are voters, one at a time (Raft §4).
"""

from collections.abc import Collection, Iterable, Mapping, Sequence

from penstock.core.entries import Membership
from penstock.core.types import CATALOG_SHARD, NodeId, ShardId

CATALOG_VOTERS = 5
REPLICAS = 3

Placement = tuple[NodeId, ...]


def found(shards: int, nodes: Iterable[NodeId]) -> dict[ShardId, Placement]:
    """The placement of the data shards of a new cluster."""
    ring = sorted(nodes)
    count = min(REPLICAS, len(ring))
    return {
        ShardId(shard): tuple(ring[(shard - 1 + step) % len(ring)] for step in range(count))
        for shard in range(1, shards + 1)
    }


def founding_members(shard: ShardId, shards: int, nodes: Iterable[NodeId]) -> Membership:
    """The founders of a shard: every node computes the same."""
    if shard == CATALOG_SHARD:
        return catalog_members(nodes)
    return Membership(tuple(sorted(found(shards, nodes)[shard])))


def catalog_members(
    nodes: Iterable[NodeId], voters: Collection[NodeId] = (), unseen: Collection[NodeId] = ()
) -> Membership:
    """The members of the catalog's shard; voters keep their vote, and nodes that were not seen
    yet are learners."""
    everyone = sorted(nodes)
    fit = [node for node in everyone if node in voters or node not in unseen]
    ranked = sorted(fit, key=lambda node: (node not in voters, node))
    chosen = sorted(ranked[:CATALOG_VOTERS])
    return Membership(tuple(chosen), tuple(node for node in everyone if node not in chosen))


def balance(
    placement: Mapping[ShardId, Placement], nodes: Collection[NodeId]
) -> tuple[ShardId, Placement] | None:
    """Return the next shard whose placement should change, and the new placement; None if there is
    none.

    Nodes that are not in `nodes` lose their places first; then places that are missing are filled;
    then the fullest node gives to the emptiest; last, preferred leaders are evened out."""
    if not nodes:
        return None
    wanted = min(REPLICAS, len(nodes))
    load = dict.fromkeys(nodes, 0)
    for holders in placement.values():
        for node in holders:
            if node in load:
                load[node] += 1
    for shard in sorted(placement):
        kept = [node for node in placement[shard] if node in load]
        spare = sorted(load.keys() - set(kept), key=lambda node: (load[node], node))
        if len(kept) != len(placement[shard]) or len(kept) < wanted:
            return shard, tuple(kept + spare[: max(0, wanted - len(kept))])[:wanted]
    return _even_out(placement, load) or _even_out_leaders(placement, nodes)


def _even_out(
    placement: Mapping[ShardId, Placement], load: Mapping[NodeId, int]
) -> tuple[ShardId, Placement] | None:
    fullest = max(load, key=lambda node: (load[node], -node))
    emptiest = min(load, key=lambda node: (load[node], node))
    if load[fullest] - load[emptiest] < 2:
        return None
    for shard in sorted(placement):
        holders = placement[shard]
        if fullest in holders and emptiest not in holders:
            return shard, tuple(emptiest if node == fullest else node for node in holders)
    return None


def _even_out_leaders(
    placement: Mapping[ShardId, Placement], nodes: Collection[NodeId]
) -> tuple[ShardId, Placement] | None:
    led = dict.fromkeys(nodes, 0)
    for holders in placement.values():
        led[holders[0]] += 1
    for shard in sorted(placement):
        holders = placement[shard]
        best = min(holders, key=lambda node: (led[node], node))
        if led[holders[0]] - led[best] >= 2:
            return shard, led_by(best, holders)
    return None


def led_by(node: NodeId, holders: Sequence[NodeId]) -> Placement:
    """Return the placement with this node first."""
    return (node, *(other for other in holders if other != node))


def next_step(
    current: Membership, target: Membership, *, me: NodeId, caught_up: Collection[NodeId]
) -> Membership | NodeId | None:
    """Return the next step of the leader `me`: a membership to propose, a node to hand leadership
    to because this one must go, or None if there is nothing to do now."""
    voters, learners = set(current.voters), set(current.learners)
    wanted = set(target.everyone())
    missing = wanted - voters - learners
    if missing:
        return _members(voters, learners | missing)
    ready = sorted((learners & set(target.voters)) & set(caught_up))
    if ready:
        return _members(voters | {ready[0]}, learners - {ready[0]})
    if not set(target.voters) <= voters:
        return None
    for node in sorted(voters - set(target.voters), key=lambda node: (node == me, node)):
        if node != me:
            return _members(voters - {node}, learners | ({node} & set(target.learners)))
        heirs = sorted(set(target.voters) & set(caught_up))
        return heirs[0] if heirs else None
    strangers = learners - wanted
    return _members(voters, learners - strangers) if strangers else None


def _members(voters: Iterable[NodeId], learners: Iterable[NodeId]) -> Membership:
    return Membership(tuple(sorted(voters)), tuple(sorted(learners)))
