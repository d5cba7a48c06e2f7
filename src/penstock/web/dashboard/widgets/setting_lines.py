"""The settings of a queue as lines of a page, by what they are about.

Times are shown, and filled into fields, as durations: `45s`, not 45000.
"""

from collections.abc import Mapping

import msgspec

from penstock.core.configs import Config, ConfigKind
from penstock.core.durations import format_duration_ms
from penstock.core.queue_rules import DEFAULT_WORK_GROUP
from penstock.core.topic import Topic
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.core.work_settings import WORK_CONFIGS
from penstock.engine.cluster.node import Node
from penstock.web.dashboard.widgets.filters import age, size
from penstock.web.setting_names import BESIDES, HIDDEN, SHOWN, short_name

SECTIONS: Mapping[str, tuple[str, ...]] = {
    "Delivery": ("lease_", "delay_", "ttl_", "wait_", "in_flight_", "paused", "message_headers"),
    "Failures": ("deliveries_", "retry_", "dead_letter_"),
    "Order and duplicates": ("order", "priority", "deduplication"),
    "Room": ("bytes_", "length_", "overflow", "max_message_", "retention_", "delete_acked"),
    "Alerts": ("alert_",),
}
"""The sections of the settings, by the beginning of the name."""
OTHER = "Other"
_NO_LIMIT = "no limit"
_SOURCES: Mapping[str, str] = {
    "own": "set for this group",
    "group": "set for this group on all topics",
    "queue": "inherited from the queue",
    "default": "Kafka's default: the topic is no queue",
}


class SettingLine(msgspec.Struct, frozen=True, kw_only=True):
    """A setting of a queue."""

    name: str
    section: str
    value: str
    meaning: str
    """The value in readable form where that differs: 30 s for 30000, no limit for -1."""
    written: str
    """The initial text of the field that changes it: 30s for 30000."""
    is_set: bool
    about: str
    allowed: str
    choices: tuple[str, ...]
    source: str = ""
    """The origin of a work group's setting, in words."""


def setting_lines(topic: Topic) -> list[SettingLine]:
    """Everything a queue is set to, section by section."""
    lines = [
        _line(one, topic.configs.get(name, one.default), is_set=name in topic.configs)
        for name, one in TOPIC_CONFIGS.items()
        if (name.startswith(SHOWN) and name != HIDDEN) or name in BESIDES
    ]
    order = [*SECTIONS, OTHER]
    return sorted(lines, key=lambda one: (order.index(one.section), one.name))


def group_setting_lines(node: Node, topic: Topic, group: str) -> list[SettingLine]:
    """The settings of a work group; those of the default one are the queue's."""
    if group == DEFAULT_WORK_GROUP:
        return []
    return [
        _line(WORK_CONFIGS[name], value, is_set=source == "own", source=_SOURCES[source])
        for name, (value, source) in node.groups.work_settings(topic, group).items()
    ]


def _line(config: Config, value: str, *, is_set: bool, source: str = "") -> SettingLine:
    name = short_name(config.name)
    is_time = config.name.endswith(".ms") and value.isdecimal()
    return SettingLine(
        name=name,
        section=_section(name),
        value=value,
        meaning=_meaning(config, value),
        written=format_duration_ms(int(value)) if is_time else value,
        is_set=is_set,
        about=config.documentation,
        allowed=_allowed(config),
        choices=("true", "false") if config.kind is ConfigKind.BOOLEAN else config.choices,
        source=source,
    )


def _section(name: str) -> str:
    found = (about for about, begins in SECTIONS.items() if name.startswith(begins))
    return next(found, OTHER)


def _meaning(config: Config, value: str) -> str:
    if value == "-1" and config.least == -1:
        return _NO_LIMIT
    if not value.isdecimal():
        return ""
    if config.name.endswith(".ms"):
        return age(int(value))
    return size(int(value)) if "bytes" in config.name and int(value) >= 1_000 else ""


def _allowed(config: Config) -> str:
    if config.name.endswith(".ms") and config.kind in (ConfigKind.INT, ConfigKind.LONG):
        return "a duration: 500ms, 30s, 5m, 12h or 7d" + (
            f"; -1: {_NO_LIMIT}" if config.least == -1 else ""
        )
    return config.allowed
