"""ListConfigResources, key 74: what has configurations.

Versions    0–1.
Behaviour   Version 0 asks for client metrics, of which there are none. From version 1 on all
            topics, all brokers and the groups on which something is set are listed, or the types
            asked for; an unknown type is answered with UNSUPPORTED_VERSION, as in Kafka.
KIPs        714, 1142.
Not served  Client metrics and loggers have no configurations here: none is listed.
"""

from penstock.core.errors import UnsupportedVersion
from penstock.kafka.codec import Answer, Message
from penstock.kafka.configs import Resource
from penstock.kafka.context import Context

_TYPES_FROM = 1


async def handle(request: Message, context: Context) -> Answer:
    """The resources of the types that are asked for; all types if none is."""
    if context.version < _TYPES_FROM:
        return {"config_resources": []}
    unknown = sorted(set(request.resource_types) - set(Resource))
    if unknown:
        raise UnsupportedVersion(f"there is no resource type {unknown[0]}")
    wanted = set(request.resource_types) or set(Resource)
    catalog = context.engine.topics.catalog
    names = {
        Resource.TOPIC: sorted(catalog.topics),
        Resource.BROKER: [str(node) for node in sorted(catalog.nodes)],
        Resource.GROUP: sorted(catalog.group_configs),
    }
    rows = (
        {"resource_name": name, "resource_type": int(kind)}
        for kind, found in names.items()
        if kind in wanted
        async for name in context.each(found)
    )
    return {"config_resources": await context.rows("config_resources", rows)}
