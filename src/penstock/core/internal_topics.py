"""Topics that the cluster keeps for itself. As with Kafka, their names begin with two underscores,
and lists of topics and pattern subscriptions leave them out by default.
"""

from typing import Final

from penstock.core.errors import TopicProtected

INTERNAL_PREFIX: Final = "__"
STAGING_TOPIC: Final = "__staging"
"""Where messages wait that are to be published."""
AUDIT_TOPIC: Final = "__audit"
"""What operators have ordered."""
SILENCES_TOPIC: Final = "__silences"
"""Which alerts are acknowledged or silenced."""
PROTECTED_TOPICS: Final = frozenset((AUDIT_TOPIC, SILENCES_TOPIC, STAGING_TOPIC))
"""The cluster writes them itself; clients can only read them."""


def is_internal(name: str) -> bool:
    """Whether a topic is the cluster's own."""
    return name.startswith(INTERNAL_PREFIX)


def check_unprotected(name: str) -> None:
    """Refuse a change that a client asks for of a topic that the cluster keeps for itself."""
    if name in PROTECTED_TOPICS:
        raise TopicProtected(
            f"topic {name} is kept by the cluster: it can be read, and not written, configured,"
            " deleted or used as a queue"
        )
