"""The flags by which a queue is set, made from the one table of topic configs.

A command is written with a first argument `settings` and its own arguments; `takes_queue_settings`
gives it a flag for each `queue.*` config and hands over what was typed, by full name. Nothing about
a config is written here: `queue.retry.delay.ms` is `--retry-delay`, takes a duration with its unit,
and its help is the table's.

    queue.lease.ms      --lease 30s           .ms: a duration, or -1 where the table allows it
    queue.bytes.max     --bytes-max 64MiB     .bytes: a size, likewise
    queue.delete.acked  --delete-acked        or --no-delete-acked
    queue.priority      --priority strict     anything else: as it is
"""

import functools
import inspect
from collections.abc import Callable
from typing import Annotated, Any

from cyclopts import CycloptsError, Group, Parameter

from penstock.core.configs import Config, ConfigKind
from penstock.core.errors import InvalidConfig
from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.server.notation import parse_duration_ms, parse_size
from penstock.web.setting_names import BESIDES, HIDDEN, PREFIX, SHORT_NAMES

PAUSED = "queue.paused"
"""The setting that `queue pause` and `queue resume` change."""
NO_LIMIT = "-1"
MILLISECONDS = "_ms"

GROUP = Group("Settings of the queue", sort_key=2)


def set_configs() -> list[Config]:
    return [
        config
        for name, config in TOPIC_CONFIGS.items()
        if (name.startswith(PREFIX) and name not in (HIDDEN, PAUSED)) or name in BESIDES
    ]


def flag_of(config: Config) -> str:
    """The flag of a setting; the unit is part of the value."""
    return "--" + config.name.removeprefix(PREFIX).removesuffix(".ms").replace(".", "-")


def setting_name(name: str) -> str:
    """A setting as it is shown: its value has a unit, so that its name needs none."""
    return name.removesuffix(MILLISECONDS)


def config_name(typed: str) -> str:
    """The topic config of a setting as it is shown, or spelled as a flag, or in full; any other
    name is left to the broker, which may be of another release."""
    name = typed.removeprefix("--").replace("-", "_")
    return SHORT_NAMES.get(name) or SHORT_NAMES.get(name + MILLISECONDS) or typed


def takes_queue_settings(command: Callable[..., int | None]) -> Callable[..., int | None]:
    """Give a command the flags of all queue configs."""

    @functools.wraps(command)
    def with_settings(*typed: Any, **named: Any) -> int | None:
        settings = {
            config.name: _text(config, named.pop(_parameter_name(config)))
            for config in set_configs()
            if _parameter_name(config) in named
        }
        return command(settings, *typed, **named)

    own = list(inspect.signature(command).parameters.values())[1:]
    parameters = [*own, *map(_parameter, set_configs())]
    with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_settings.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_settings


def _parameter_name(config: Config) -> str:
    return config.name.replace(".", "__")


def _parameter(config: Config) -> inspect.Parameter:
    is_switch = config.kind is ConfigKind.BOOLEAN
    told = Parameter(
        name=flag_of(config),
        group=GROUP,
        show_default=False,
        metavar=None if is_switch else _placeholder(config),
        allow_leading_hyphen=not is_switch,
        help=config.documentation,
    )
    kind = bool if is_switch else str
    return inspect.Parameter(
        _parameter_name(config),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, told],
    )


def _placeholder(config: Config) -> str:
    if _is_duration(config):
        return "DURATION"
    if _is_size(config):
        return "SIZE"
    if config.kind is ConfigKind.STRING:
        return "|".join(config.choices) or "TEXT"
    return "N"


def _is_duration(config: Config) -> bool:
    return config.name.endswith(".ms")


def _is_size(config: Config) -> bool:
    return "bytes" in config.name.split(".")


def _text(config: Config, typed: str | bool) -> str:
    """Return the value of a flag as the text of the setting. Raise CycloptsError for an invalid
    value."""
    if isinstance(typed, bool):
        return "true" if typed else "false"
    written = typed
    try:
        if typed != NO_LIMIT and _is_duration(config):
            written = str(parse_duration_ms(typed))
        elif typed != NO_LIMIT and _is_size(config):
            written = str(parse_size(typed))
        config.parse(written)
    except (ValueError, InvalidConfig) as error:
        raise CycloptsError(msg=f'{flag_of(config)} = "{typed}" must be {_allowed(config)}.') from (
            error
        )
    return written


def _allowed(config: Config) -> str:
    unless = f", or {NO_LIMIT}" if config.least < 0 else ""
    if _is_duration(config):
        return f'a duration with its unit (ms, s, m, h or d), such as "30s"{unless}'
    if _is_size(config):
        return f'a size, such as "64MiB"{unless}'
    return config.allowed
