"""Bounds on partitions that the settings of a node set, below those of the catalog."""

from penstock.core.errors import CatalogFull, InvalidPartitions


def check_topic_partitions(name: str, total: int, total_max: int) -> None:
    """Refuse a topic of too many partitions."""
    if total > total_max:
        raise InvalidPartitions(
            f"topic {name} cannot have {total} partitions; {total_max} at most"
            " (topics.partitions_max): choose fewer, or raise it on every node"
        )


def check_all_partitions(there: int, new: int, total_max: int) -> None:
    """Refuse new partitions if the cluster has as many as it may."""
    if there + new > total_max:
        raise CatalogFull(
            f"there are {there} partitions, and {total_max} at most"
            f" (topics.partitions_total_max): no room for {new} more; delete topics, or raise it"
            " on every node"
        )
