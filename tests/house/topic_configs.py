"""docs/reference/topic-configs.md: what can be set on topics and on groups, from the two tables."""

from collections.abc import Iterable

from penstock.core.configs import Config
from penstock.core.group_configs import GROUP_CONFIGS, GroupConfig
from penstock.core.topic_configs import TOPIC_CONFIGS

INTRODUCTION = """\
Set them when a topic is made, or later with any Kafka admin client. Names that do not begin with
`queue.`, `alert.` or `penstock.` are Kafka's. What says "Changes nothing here" is accepted and
shown, because topics that were made for Kafka have it."""

GROUPS = """\
Set them with any Kafka admin client that knows configs of groups. They need not wait for the group
to exist."""


def topic_configs_page(notice: str) -> str:
    """The whole page."""
    parts = [
        "# Configs of topics and groups",
        notice,
        INTRODUCTION,
        _table(TOPIC_CONFIGS.values()),
        "## Groups",
        GROUPS,
        _table(GROUP_CONFIGS.values()),
    ]
    return "\n\n".join(parts) + "\n"


def _table(configs: Iterable[Config]) -> str:
    lines = ["| config | default | value | what it does |", "|---|---|---|---|"]
    for one in configs:
        default = f"`{one.default}`" if one.default else ""
        if isinstance(one, GroupConfig) and one.inherited:
            default = "the queue's"
        text = one.documentation if one.acts else f"Changes nothing here. {one.documentation}"
        lines.append(f"| `{one.name}` | {default} | {one.allowed} | {text} |")
    return "\n".join(lines)
