"""AlterConfigs, key 33: set all configurations of topics anew.

Versions    0–2.
Behaviour   What is not named goes back to its default, in one step with what is set. Use
            IncrementalAlterConfigs to change some and leave the rest. BROKER is refused with
            INVALID_REQUEST: its settings are in its configuration file.
KIPs        133.
Not served  Anything but TOPIC.
"""

from penstock.core.errors import InvalidConfig
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.kafka.codec import Answer, Message
from penstock.kafka.config_changes import change_resources, check_given_once
from penstock.kafka.context import Context
from penstock.machines.catalog import Topic


async def handle(request: Message, context: Context) -> Answer:
    """Set each topic's configs; those that cannot be set are answered with the reason."""
    return {"responses": await change_resources(request, context, _replace)}


def _replace(resource: Message, _topic: Topic) -> dict[str, str | None]:
    check_given_once(resource)
    changes: dict[str, str | None] = dict.fromkeys(TOPIC_CONFIGS)
    for one in resource.configs:
        if one.value is None:
            raise InvalidConfig(f"config {one.name} has no value; leave it out for its default")
        changes[one.name] = one.value
    return changes
