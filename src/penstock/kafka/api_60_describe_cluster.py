"""DescribeCluster, key 60: the cluster's id, its controller and its brokers.

Versions    0–2.
Behaviour   Brokers are the nodes that are up; from version 2 on those that are down can be asked
            for too, and are called fenced. Every broker answers about itself and the others;
            a request for controllers (endpoint type 2) is refused: these are brokers.
KIPs        700, 919 (endpoint types), 1073 (fenced brokers).
Not served  Access rights: everything is allowed, and said to be when asked.
"""

from typing import Final

from penstock.kafka.api_03_metadata import CLUSTER_OPERATIONS, NO_OPERATIONS
from penstock.kafka.codec import Answer, Message
from penstock.kafka.context import Context
from penstock.kafka.metadata import NO_BROKER, brokers, endpoint
from penstock.kafka.row_errors import Row, refused_with

BROKERS: Final = 1
CONTROLLERS: Final = 2
_MISMATCHED_ENDPOINT_TYPE: Final = 114
_UNSUPPORTED_ENDPOINT_TYPE: Final = 115


async def handle(request: Message, context: Context) -> Answer:
    """The nodes of the cluster that clients can reach."""
    engine = context.engine
    kind = request.endpoint_type
    operations = request.include_cluster_authorized_operations
    answer: Row = {
        "endpoint_type": kind,
        "cluster_id": engine.topics.cluster_id,
        "brokers": [],
        "cluster_authorized_operations": CLUSTER_OPERATIONS if operations else NO_OPERATIONS,
    }
    if kind == CONTROLLERS:
        text = "this is a broker and no controller; ask for endpoint type 1"
        return answer | refused_with(context, _MISMATCHED_ENDPOINT_TYPE, text)
    if kind != BROKERS:
        text = f"there is no endpoint type {kind}; ask for endpoint type 1, brokers"
        return answer | refused_with(context, _UNSUPPORTED_ENDPOINT_TYPE, text)
    reachable = brokers(engine)
    controller = engine.topics.controller()
    answer["controller_id"] = controller if controller in reachable else NO_BROKER
    answer["brokers"] = [
        {
            "broker_id": node,
            "host": place.host,
            "port": place.port,
            "rack": place.rack,
            "is_fenced": node not in reachable,
        }
        for node, record in sorted(engine.topics.catalog.nodes.items())
        if (place := endpoint(record)) is not None
        and (node in reachable or request.include_fenced_brokers)
    ]
    return answer
