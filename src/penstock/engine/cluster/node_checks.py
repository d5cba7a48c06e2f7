"""Checks at the start of a node: its settings, and its membership of the cluster."""

from collections.abc import Collection, Mapping

from penstock.core.errors import DirectoryRefused, InvalidRequest
from penstock.core.types import NO_NODE, NodeId
from penstock.machines.catalog import Catalog


def check_cluster(node: NodeId, cluster: Collection[NodeId], peer_port: int | None) -> None:
    """Refuse a list of peers that cannot be right for this node."""
    if cluster and node not in cluster:
        listed = " ".join(map(str, sorted(cluster)))
        raise DirectoryRefused(
            f"this is node {node}, and the cluster lists nodes {listed}; add this"
            " node's own peer address to --cluster, or give the right --node-id"
        )
    if peer_port is None and len(cluster) > 1:
        raise InvalidRequest("a node without a peer port is alone, and the cluster lists others")


def not_alone(directory: str) -> DirectoryRefused:
    """A node without a peer port has found that there are, or should be, others."""
    return DirectoryRefused(
        f"{directory} belongs to a cluster of several nodes, and a node without a peer port is"
        " alone; start it with `penstock serve`, and connect to that"
    )


def is_founder(node: NodeId, incarnation: str, founders: Mapping[NodeId, str]) -> bool:
    """Whether this can be a member, as long as this node has nothing of the catalog. A node that
    joins knows no founders, and must believe every node that has the key."""
    return founders.get(node, "") in ("", incarnation)


def is_member(node: NodeId, incarnation: str, catalog: Catalog, leader: NodeId) -> bool:
    """Whether this is a member, as far as this node's copy of the catalog says. The copy may be out
    of date: while no other node that is known leads the catalog, an unknown node may be a member
    that was added meanwhile, and may be the one that this node hears of it from (Raft thesis §4.1:
    a server takes requests of servers that are not in its configuration)."""
    record = catalog.nodes.get(node)
    if record is not None:
        return record.incarnation in ("", incarnation)
    return node not in catalog.retired and leader in (NO_NODE, node)
