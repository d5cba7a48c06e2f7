"""The public names of the package, and the module of each: imported at the first use.

`import penstock` costs nothing this way: a program that needs only the command line, the broker or
one of its modules does not load the client, the workers and their dependencies.
"""

import sys
from importlib import import_module

_MODULES = {
    "penstock": "blocking",
    "penstock.client.client": "Client",
    "penstock.client.codecs": "Codec JSON",
    "penstock.client.producer.compression": "Compression",
    "penstock.client.consumer": "Consumer",
    "penstock.client.descriptions": "ClusterDescription GroupSetting QueueDescription QueueStats"
    " TopicDescription TopicSummary",
    "penstock.client.group_descriptions": "GroupDescription GroupSummary",
    "penstock.client.guarantees": "Guarantee",
    "penstock.client.message": "Message",
    "penstock.client.producer.outgoing_message": "Outgoing",
    "penstock.client.producer.partitioners": "HashPartitioner Partitioner RangePartitioner"
    " RoundRobinPartitioner StickyPartitioner",
    "penstock.client.peeked_message": "PeekedMessage",
    "penstock.client.processed_ids": "DatabaseProcessed ProcessedStore SqliteProcessed",
    "penstock.client.processed_store": "Transaction",
    "penstock.client.queue": "Queue",
    "penstock.client.record": "Record",
    "penstock.client.sent_message": "Sent SentMany",
    "penstock.client.settings": "Batching ClientSettings",
    "penstock.client.stage": "Stage",
    "penstock.client.staged_message": "Publication Staged",
    "penstock.client.statistics": "ClientStatistics",
    "penstock.client.subscription": "Subscription",
    "penstock.client.topic": "Topic",
    "penstock.core.errors": "DeadlinePassed InvalidBody OutcomeUnknown PenstockError Unavailable",
    "penstock.embedded.connector": "connect",
    "penstock.workers": "App CircuitBreaker NonRetryable Pool Reject"
    " Retry RetryLater Scaling worker",
    "penstock.wire.trace_requests": "TraceInfo",
}
PLACES = {name: module for module, names in _MODULES.items() for name in names.split()}


def load(name: str) -> object:
    """Import `penstock.<name>` and store it in the package, so that this is called once per
    name."""
    package = sys.modules["penstock"]
    module = PLACES.get(name)
    if module is None:
        raise AttributeError(f"module 'penstock' has no attribute {name!r}")
    value: object
    if module == package.__name__:
        value = import_module(f"{module}.{name}")  # A module of its own.
    else:
        value = getattr(import_module(module), name)
    setattr(package, name, value)
    return value


def names() -> list[str]:
    """For `dir(penstock)` and completion in an editor."""
    return sorted({*PLACES, *vars(sys.modules["penstock"])})
