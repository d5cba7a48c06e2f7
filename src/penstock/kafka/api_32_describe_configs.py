"""DescribeConfigs, key 32: the configurations of topics, groups and this broker.

Versions    1–4.
Behaviour   TOPIC: every config there is, with its value, source, type, synonyms and documentation
            if asked for. BROKER, by its number and asked of that broker: its settings under Kafka's
            names, read only; the documentation names the setting of Penstock. BROKER without a
            name: cluster-wide defaults, of which there are none. GROUP, whether it exists or not:
            every config of a group. No key, or none given, is all.
KIPs        133, 226 (synonyms), 569 (types, documentation), 932.
Not served  BROKER_LOGGER and CLIENT_METRICS are answered with INVALID_REQUEST.
"""

from penstock.core.errors import InvalidRequest, PenstockError
from penstock.kafka.codec import Answer, Message
from penstock.kafka.configs import (
    ConfigEntry,
    Resource,
    broker_entries,
    group_entries,
    topic_entries,
)
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused
from penstock.machines.topics import check_topic_name


async def handle(request: Message, context: Context) -> Answer:
    """Describe each resource; those that are not there are answered with the reason."""
    once = {(one.resource_type, one.resource_name): one for one in request.resources}
    rows = [_describe(one, request, context) async for one in context.each(once.values())]
    return {"results": rows}


def _describe(resource: Message, request: Message, context: Context) -> Row:
    row: Row = {
        "resource_type": resource.resource_type,
        "resource_name": resource.resource_name,
        "error_message": None,
        "configs": [],
    }
    try:
        entries = _entries(resource, context)
    except PenstockError as error:
        return row | refused(context, error)
    synonyms, documentation = request.include_synonyms, request.include_documentation
    row["configs"] = [one.row(synonyms=synonyms, documentation=documentation) for one in entries]
    return row


def _entries(resource: Message, context: Context) -> list[ConfigEntry]:
    kind, name, keys = (
        resource.resource_type,
        resource.resource_name,
        resource.configuration_keys,
    )
    engine = context.engine
    if kind == Resource.TOPIC:
        check_topic_name(name)
        return topic_entries(engine.topics.topic(name), keys)
    if kind == Resource.BROKER:
        if not name:
            return []
        if name != str(engine.topics.node_id):
            raise InvalidRequest(
                f"this is broker {engine.topics.node_id}; ask broker {name} itself"
            )
        return broker_entries(engine, context.port_state, keys)
    if kind == Resource.GROUP:
        if not name:
            raise InvalidRequest("a group has a name")
        return group_entries(engine.groups.group_configs(name), keys)
    known = Resource(kind).name if kind in list(Resource) else str(kind)
    raise InvalidRequest(f"resources of type {known} have no configurations here")
