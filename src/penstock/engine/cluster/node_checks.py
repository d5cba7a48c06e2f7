"""What a node refuses to be started with, before it does anything."""

from collections.abc import Collection

from penstock.core.errors import DirectoryRefused, InvalidRequest
from penstock.core.types import NodeId


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
