"""AlterConfigs, key 33: set all configurations of topics and groups anew.

Versions    0–2.
Behaviour   What is not named goes back to its default, in one step with what is set. Use
            IncrementalAlterConfigs to change some and leave the rest. BROKER is refused with
            INVALID_REQUEST: its settings are in its configuration file.
KIPs        133, 932.
Not served  Anything but TOPIC and GROUP.
"""

from collections.abc import Mapping

from penstock.core.configs import Config
from penstock.core.errors import InvalidConfig
from penstock.kafka.codec import Answer, Message
from penstock.kafka.config_changes import change_resources, check_given_once
from penstock.kafka.context import Context


async def handle(request: Message, context: Context) -> Answer:
    """Set the configs of each; those that cannot be set are answered with the reason."""
    return {"responses": await change_resources(request, context, _replace, _sets_something)}


def _sets_something(resource: Message) -> bool:
    return bool(resource.configs)


def _replace(
    resource: Message, table: Mapping[str, Config], _set: Mapping[str, str]
) -> dict[str, str | None]:
    check_given_once(resource)
    changes: dict[str, str | None] = dict.fromkeys(table)
    for one in resource.configs:
        if one.value is None:
            raise InvalidConfig(f"config {one.name} has no value; leave it out for its default")
        changes[one.name] = one.value
    return changes
