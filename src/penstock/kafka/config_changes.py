"""Changing configurations: what AlterConfigs and IncrementalAlterConfigs have in common.

Topics and groups have configurations that can be changed. A broker's settings count from its start
on, so a change of them is refused with the sentence where to make it: accepted and not in force
would be worse. To take back what was never set succeeds, as in Kafka: its tools do so for brokers
when they end a reassignment. A resource that appears twice is refused twice: which one was meant
cannot be known.
"""

from collections import Counter
from collections.abc import Callable, Mapping

from penstock.core.configs import Config
from penstock.core.errors import InvalidRequest, PenstockError
from penstock.core.group_configs import GROUP_CONFIGS
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.kafka.codec import Message
from penstock.kafka.configs import Resource
from penstock.kafka.context import Context
from penstock.kafka.row_errors import Row, refused, side_by_side
from penstock.machines.topics import check_topic_name

CONFIGS_PER_RESOURCE_MAX = 1_000
ChangesOf = Callable[[Message, Mapping[str, Config], Mapping[str, str]], dict[str, str | None]]
"""From a resource of the request, the table of its configs and those that are set, to the changes;
None takes a config back."""


async def change_resources(
    request: Message,
    context: Context,
    changes_of: ChangesOf,
    sets_something: Callable[[Message], bool],
) -> list[Row]:
    """Change every resource that can be changed; a row for each, in their order."""
    engine = context.engine
    seen = Counter(
        [(one.resource_type, one.resource_name) async for one in context.each(request.resources)]
    )

    async def change(resource: Message) -> Row:
        kind, name = resource.resource_type, resource.resource_name
        row: Row = {"resource_type": kind, "resource_name": name, "error_message": None}
        try:
            if seen[kind, name] > 1:
                raise InvalidRequest("each resource may appear once in a request")
            if kind == Resource.BROKER and not sets_something(resource):
                check_given_once(resource)
                return row
            _check_changeable(kind)
            if kind == Resource.GROUP:
                known = engine.groups.group_configs(name)
                changes = _needed(changes_of(resource, GROUP_CONFIGS, known), GROUP_CONFIGS, known)
                await engine.groups.configure_group(
                    name, changes, validate_only=request.validate_only
                )
            else:
                check_topic_name(name)
                known = engine.topics.topic(name).configs
                changes = _needed(changes_of(resource, TOPIC_CONFIGS, known), TOPIC_CONFIGS, known)
                await engine.topics.configure_topic(
                    name, changes, validate_only=request.validate_only
                )
        except PenstockError as error:
            row |= refused(context, error)
        return row

    return await side_by_side(change, request.resources)


def _needed(
    changes: dict[str, str | None], table: Mapping[str, Config], known: Mapping[str, str]
) -> dict[str, str | None]:
    """Without taking back what is not set and what nodes of an older release do not know."""
    return {
        name: value
        for name, value in changes.items()
        if value is not None
        or name in known
        or name not in table
        or table[name].catalog_version == 1
    }


def check_given_once(resource: Message) -> None:
    """Refuse a config that is named twice in one resource."""
    if len(resource.configs) > CONFIGS_PER_RESOURCE_MAX:
        raise InvalidRequest(
            f"{len(resource.configs)} configs of one resource; {CONFIGS_PER_RESOURCE_MAX} at most"
        )
    names = Counter(one.name for one in resource.configs)
    twice = sorted(name for name, count in names.items() if count > 1)
    if twice:
        raise InvalidRequest(f"config {twice[0]} is named more than once; say which value counts")


def _check_changeable(kind: int) -> None:
    if kind in (Resource.TOPIC, Resource.GROUP):
        return
    if kind == Resource.BROKER:
        raise InvalidRequest(
            "a broker's settings are not changed while it runs; set them in its configuration file,"
            " by flag or by variable, and start it again"
        )
    known = Resource(kind).name if kind in list(Resource) else str(kind)
    raise InvalidRequest(
        f"resources of type {known} have no configurations here; topics and groups have"
    )
