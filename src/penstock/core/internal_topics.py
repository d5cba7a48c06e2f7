"""Topics that the cluster keeps for itself. As with Kafka, their names begin with two underscores,
and lists of topics and pattern subscriptions leave them out by default.
"""

from typing import Final

INTERNAL_PREFIX: Final = "__"
STAGING_TOPIC: Final = "__staging"
"""Where messages wait that are to be published."""
AUDIT_TOPIC: Final = "__audit"
"""What operators have ordered."""


def is_internal(name: str) -> bool:
    """Whether a topic is the cluster's own."""
    return name.startswith(INTERNAL_PREFIX)
