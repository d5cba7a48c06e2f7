"""The short names of a queue's settings: `lease_ms` for the topic config `queue.lease.ms`.

A short name is a config's name without `queue.` and with underscores; the full names are taken as
well, and so are all other topic configs. There is no list here: the one list is the table of topic
configs, and what is new there has a short name at once.

A time may be written as a duration: "45s" for `lease_ms` is 45000.
"""

from collections.abc import Mapping
from difflib import get_close_matches

from penstock.core.configs import ConfigValue
from penstock.core.durations import read_duration_ms
from penstock.core.errors import InvalidConfig
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.core.work_settings import WORK_CONFIGS
from penstock.web.queue_lines import GroupSettingLine

PREFIX = "queue."
SHOWN = (PREFIX, "alert.")
"""The prefixes of the configs that a queue shows."""
HIDDEN = "queue.sqs"
"""The config in which the SQS port stores its own data; no other component reads it."""
BESIDES = ("retention.ms", "retention.bytes", "max.message.bytes")
"""Configs of every topic that matter to a queue, too."""

SettingValue = str | int | bool | None


def short_name(config: str) -> str:
    """Return the short name of a topic config."""
    return config.removeprefix(PREFIX).replace(".", "_")


SHORT_NAMES: Mapping[str, str] = {short_name(name): name for name in sorted(TOPIC_CONFIGS)} | {
    short_name(name): name for name in sorted(TOPIC_CONFIGS) if name.startswith(PREFIX)
}
"""Every short name and the config it stands for."""


def topic_configs(settings: Mapping[str, SettingValue]) -> dict[str, str | None]:
    """Settings by short or full name as topic configs; None stays None: back to the default."""
    configs: dict[str, str | None] = {}
    for name, value in settings.items():
        config = _config(name)
        if config in configs:
            raise InvalidConfig(f"{config} is given twice")
        configs[config] = _text(config, value)
    return configs


def queue_settings(configs: Mapping[str, str]) -> dict[str, ConfigValue]:
    """Everything a queue is set to, by short name, defaults included."""
    return {
        short_name(name): one.parse(configs.get(name, one.default))
        for name, one in TOPIC_CONFIGS.items()
        if (name.startswith(SHOWN) and name != HIDDEN) or name in BESIDES
    }


def group_settings(settings: Mapping[str, tuple[str, str]]) -> dict[str, GroupSettingLine]:
    """Everything a work group is set to, by short name; each a text and where it comes from."""
    return {
        short_name(name): GroupSettingLine(value=WORK_CONFIGS[name].parse(value), source=source)
        for name, (value, source) in settings.items()
    }


def is_queue(configs: Mapping[str, str]) -> bool:
    """The topic has queue settings."""
    return any(name.startswith(PREFIX) for name in configs)


def queue_kind(settings: Mapping[str, ConfigValue]) -> str:
    """fifo, priority, delay, standard if it is none of them, hybrid if it is several."""
    traits = [
        kind
        for kind, has in (
            ("fifo", settings["order"] == "fifo"),
            ("priority", settings["priority"] != "off"),
            ("delay", settings["delay_ms"] != 0),
        )
        if has
    ]
    return "hybrid" if len(traits) > 1 else traits[0] if traits else "standard"


def _config(name: str) -> str:
    if name in TOPIC_CONFIGS:
        return name
    if name in SHORT_NAMES:
        return SHORT_NAMES[name]
    near = get_close_matches(name[:60], [*SHORT_NAMES, *TOPIC_CONFIGS], 1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise InvalidConfig(f"a queue has no setting {name[:60]}{hint}")


def _text(config: str, value: SettingValue) -> str | None:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str) and config.endswith(".ms"):
        return ",".join(map(_milliseconds, value.split(",")))
    return value if value is None else str(value)


def _milliseconds(text: str) -> str:
    """A duration in milliseconds; any other text stays, and is judged by the table."""
    try:
        return str(read_duration_ms(text))
    except ValueError:
        return text
