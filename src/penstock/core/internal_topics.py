"""Topics that the cluster keeps for itself: lists of topics and pattern subscriptions leave them
out by default. Other names that begin with two underscores are ordinary ones, as with Kafka:
programs such as Debezium use them.
"""

from typing import Final

from penstock.core.errors import TopicProtected

STAGING_TOPIC: Final = "__staging"
"""The topic of staged messages, which wait to be published."""
AUDIT_TOPIC: Final = "__audit"
"""The topic of operators' actions."""
SILENCES_TOPIC: Final = "__silences"
"""The topic of acknowledgements and silences of alerts."""
PROTECTED_TOPICS: Final = frozenset((AUDIT_TOPIC, SILENCES_TOPIC, STAGING_TOPIC))
"""The cluster writes them itself; clients can only read them."""

_KAFKA_TOPICS: Final = frozenset(
    ("__cluster_metadata", "__consumer_offsets", "__share_group_state", "__transaction_state")
)
"""Kafka's own, which a mirror of a Kafka cluster may bring along."""


def is_internal(name: str) -> bool:
    """True if a topic belongs to the cluster itself."""
    return name in PROTECTED_TOPICS or name in _KAFKA_TOPICS


def check_unprotected(name: str) -> None:
    """Refuse a change that a client asks for of a topic that the cluster keeps for itself."""
    if name in PROTECTED_TOPICS:
        raise TopicProtected(
            f"topic {name} is kept by the cluster: it can be read, and not written, configured,"
            " deleted or used as a queue"
        )
