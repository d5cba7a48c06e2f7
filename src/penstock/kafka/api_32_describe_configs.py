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

from collections.abc import Callable, Iterable, Mapping

from penstock.core.errors import InvalidRequest, PenstockError
from penstock.kafka.codec import Answer, EncodedRows, Message, row_writer
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

Entries = Callable[[Mapping[str, str], frozenset[str]], Iterable[ConfigEntry]]
"""All configs of something, or those with these names, from those that are set."""


async def handle(request: Message, context: Context) -> Answer:
    """Describe each resource; those that are not there are answered with the reason."""
    once = {(one.resource_type, one.resource_name): one for one in request.resources}
    description = _Description(request, context)
    rows = (description.row(one) async for one in context.each(once.values()))
    return {"results": await context.rows("results", rows)}


class _Description:
    """One answer. Where nothing is set, the configs of all topics are the same, and those of all
    groups, of which every name is one: they are encoded once."""

    def __init__(self, request: Message, context: Context) -> None:
        self._context = context
        self._synonyms: bool = request.include_synonyms
        self._documentation: bool = request.include_documentation
        self._write = row_writer(context.api.key, context.version, ("results", "configs"))
        self._defaults: dict[Resource, EncodedRows] = {}

    def row(self, resource: Message) -> Row:
        row: Row = {
            "resource_type": resource.resource_type,
            "resource_name": resource.resource_name,
            "error_message": None,
            "configs": [],
        }
        try:
            row["configs"] = self._configs(resource)
        except PenstockError as error:
            return row | refused(self._context, error)
        return row

    def _configs(self, resource: Message) -> EncodedRows:
        kind, name = resource.resource_type, resource.resource_name
        keys = frozenset(resource.configuration_keys or ())
        engine = self._context.engine
        if kind == Resource.TOPIC:
            check_topic_name(name)
            own = engine.topics.topic(name).configs
            return self._set_or_default(Resource.TOPIC, topic_entries, own, keys)
        if kind == Resource.BROKER:
            if not name:
                return EncodedRows(0, b"")
            if name != str(engine.topics.node_id):
                raise InvalidRequest(
                    f"this is broker {engine.topics.node_id}; ask broker {name} itself"
                )
            return self._encoded(broker_entries(engine, self._context.port_state, keys))
        if kind == Resource.GROUP:
            if not name:
                raise InvalidRequest("a group has a name")
            set_on_group = engine.groups.group_configs(name)
            return self._set_or_default(Resource.GROUP, group_entries, set_on_group, keys)
        known = Resource(kind).name if kind in list(Resource) else str(kind)
        raise InvalidRequest(f"resources of type {known} have no configurations here")

    def _set_or_default(
        self, kind: Resource, entries: Entries, configs: Mapping[str, str], keys: frozenset[str]
    ) -> EncodedRows:
        if configs or keys:
            return self._encoded(entries(configs, keys))
        if kind not in self._defaults:
            self._defaults[kind] = self._encoded(entries(configs, keys))
        return self._defaults[kind]

    def _encoded(self, entries: Iterable[ConfigEntry]) -> EncodedRows:
        out = bytearray()
        number = 0
        for entry in entries:
            row = entry.row(synonyms=self._synonyms, documentation=self._documentation)
            self._write(row, out)
            number += 1
        return EncodedRows(number, out)
