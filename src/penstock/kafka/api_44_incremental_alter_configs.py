"""IncrementalAlterConfigs, key 44: change some configurations of topics.

Versions    0–1.
Behaviour   SET, DELETE (back to the default), and for lists such as cleanup.policy APPEND and
            SUBTRACT, which start from what this broker knows to be in force; what is there already
            is not added twice. All changes of one topic happen together or not at all. BROKER is
            refused with INVALID_REQUEST: its settings are in its configuration file.
KIPs        339.
Not served  Anything but TOPIC.
"""

from enum import IntEnum

from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.core.topic_configs import TOPIC_CONFIGS, ConfigKind, check_topic_config_names
from penstock.kafka.codec import Answer, Message
from penstock.kafka.config_changes import change_resources, check_given_once
from penstock.kafka.context import Context
from penstock.machines.catalog import Topic


class Operation(IntEnum):
    """What is to be done with a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(request: Message, context: Context) -> Answer:
    """Change each topic's configs; those that cannot be are answered with the reason."""
    return {"responses": await change_resources(request, context, _changes)}


def _changes(resource: Message, topic: Topic) -> dict[str, str | None]:
    check_given_once(resource)
    return {one.name: _value(one, topic) for one in resource.configs}


def _value(change: Message, topic: Topic) -> str | None:
    name, value = change.name, change.value
    check_topic_config_names([name])
    if change.config_operation not in list(Operation):
        raise InvalidRequest(
            f"there is no operation {change.config_operation}; 0 sets, 1 deletes, 2 appends, 3"
            " subtracts"
        )
    operation = Operation(change.config_operation)
    if operation is Operation.DELETE:
        return None
    if value is None:
        raise InvalidRequest(f"config {name} has no value; to take it back, delete it")
    if operation is Operation.SET:
        return str(value)
    config = TOPIC_CONFIGS[name]
    if config.kind is not ConfigKind.LIST:
        raise InvalidConfig(f"config {name} is no list: nothing can be added or taken away; set it")
    parts = _parts(topic.configs.get(name, config.default))
    named = _parts(value)
    if operation is Operation.APPEND:
        parts += [part for part in named if part not in parts]
    else:
        parts = [part for part in parts if part not in named]
    return ",".join(parts)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
