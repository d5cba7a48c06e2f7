"""Replica assignments that clients send with new partitions.

Where partitions live is decided by the cluster, shard by shard. An assignment is checked all the
same, so that a mistake in it is heard of, and then only its length counts. Refusing assignments
altogether would keep out tools that always send them.
"""

from collections.abc import Collection, Sequence

from penstock.core.errors import InvalidAssignment
from penstock.core.types import NodeId


def check_assignment(rows: Sequence[Sequence[int]], nodes: Collection[NodeId]) -> None:
    """Refuse brokers that are not there or appear twice, and rows of different lengths."""
    for brokers in rows:
        if not brokers or len(set(brokers)) != len(brokers):
            raise InvalidAssignment(
                f"a partition cannot be on brokers {list(brokers)[:10]}; name one or more, each"
                " once"
            )
        strangers = sorted(set(brokers).difference(nodes))
        if strangers:
            raise InvalidAssignment(
                f"there is no broker {strangers[0]}; choose from {sorted(nodes)[:20]}"
            )
        if len(brokers) != len(rows[0]):
            raise InvalidAssignment("all partitions of a topic have the same number of replicas")
