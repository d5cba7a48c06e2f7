"""IncrementalAlterConfigs, key 44: change some configurations of topics and groups.

Versions    0–1.
Behaviour   SET, DELETE (back to the default), and for lists such as cleanup.policy APPEND and
            SUBTRACT, which start from what this broker knows to be in force; what is there already
            is not added twice. All changes of one topic happen together or not at all. A GROUP need
            not exist to be configured. BROKER is refused with INVALID_REQUEST: its settings are in
            its configuration file; only a DELETE of what was never set succeeds.
KIPs        339, 932.
Not served  Anything but TOPIC and GROUP.
"""

from collections.abc import Mapping
from enum import IntEnum

from penstock.core.configs import Config, ConfigKind, check_config_names
from penstock.core.errors import InvalidConfig, InvalidRequest
from penstock.kafka.codec import Answer, Message
from penstock.kafka.config_changes import change_resources, check_given_once
from penstock.kafka.context import Context


class Operation(IntEnum):
    """What is to be done with a config."""

    SET = 0
    DELETE = 1
    APPEND = 2
    SUBTRACT = 3


async def handle(request: Message, context: Context) -> Answer:
    """Change the configs of each; those that cannot be are answered with the reason."""
    rows = await change_resources(request, context, _changes, _sets_something)
    return {"responses": rows}


def _sets_something(resource: Message) -> bool:
    return any(one.config_operation != Operation.DELETE for one in resource.configs)


def _changes(
    resource: Message, table: Mapping[str, Config], configs: Mapping[str, str]
) -> dict[str, str | None]:
    check_given_once(resource)
    return {one.name: _value(one, table, configs) for one in resource.configs}


def _value(change: Message, table: Mapping[str, Config], configs: Mapping[str, str]) -> str | None:
    name, value = change.name, change.value
    check_config_names(table, [name], next(iter(table.values())).subject)
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
    config = table[name]
    if config.kind is not ConfigKind.LIST:
        raise InvalidConfig(f"config {name} is no list: nothing can be added or taken away; set it")
    config.check_characters(value)
    parts = _parts(configs.get(name, config.default))
    named = _parts(value)
    if operation is Operation.APPEND:
        parts += [part for part in named if part not in parts]
    else:
        parts = [part for part in parts if part not in named]
    return ",".join(parts)


def _parts(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]
