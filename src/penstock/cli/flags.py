"""The flags of every command that takes the broker's settings, made from the one list of fields.

A command is written with a first argument `given` and its own keyword arguments; `takes_settings`
gives it a flag for each field, and `--config`, and hands over what was typed. Nothing about a
setting is written here.
"""

import functools
import inspect
import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any

from cyclopts import CycloptsError, Group, Parameter

from penstock.core.errors import LocalError
from penstock.server.config import BARE_SECTION, FIELDS, Field, sections
from penstock.server.sources import LoadedConfig, Origin, Source, load_config, parse_value

CONFIG_HELP = "Read settings from this TOML file. [default: penstock.toml, if there is one]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Given:
    """The flags of a command line."""

    flags: Mapping[str, object]
    """The values of the flags, by name of field."""
    file: str | None

    def load(self) -> LoadedConfig:
        """The configuration with these flags; a bad flag counts as typed wrongly."""
        for entry in FIELDS:
            if entry.name in self.flags:
                source = Source(origin=Origin.FLAG, place=entry.flag)
                try:
                    parse_value(entry, self.flags[entry.name], source)
                except LocalError as error:
                    raise CycloptsError(msg=f"{error}.") from error
        return load_config(flags=self.flags, environment=os.environ, file=self.file)


def takes_settings(
    command: Callable[..., int | None], *, listed: bool = True
) -> Callable[..., int | None]:
    """Give a command the flags of all fields; its help lists them unless `show` is False."""

    @functools.wraps(command)
    def with_settings(*own: Any, **typed: Any) -> int | None:
        flags = {
            entry.name: typed.pop(_parameter_name(entry))
            for entry in FIELDS
            if _parameter_name(entry) in typed
        }
        file = typed.pop("config", None)
        return command(Given(flags=flags, file=file), *own, **typed)

    kept = list(inspect.signature(command).parameters.values())[1:]
    ranks = {section: rank for rank, (section, _) in enumerate(sections(), 1)}
    flags_of_fields = [_parameter(entry, ranks, listed=listed) for entry in FIELDS]
    parameters = [*kept, _config_parameter(), *flags_of_fields]
    with_settings.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    with_settings.__annotations__ = {each.name: each.annotation for each in parameters}
    return with_settings


def _parameter_name(entry: Field) -> str:
    return entry.name.replace(".", "__")


def _config_parameter() -> inspect.Parameter:
    told = Parameter(name="--config", metavar="FILE", show_default=False, help=CONFIG_HELP)
    return inspect.Parameter(
        "config",
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[str | None, told],
    )


def _parameter(entry: Field, ranks: Mapping[str, int], *, listed: bool) -> inspect.Parameter:
    written = entry.written(entry.default)
    meaning = entry.meaning.replace("`", "")
    title = "Settings" if entry.section == BARE_SECTION else entry.section.capitalize()
    told = Parameter(
        name=entry.flag,
        show=listed,
        metavar=None if entry.is_switch else entry.notation.placeholder,
        show_default=False,
        help=f"{meaning} [default: {written}]" if written else meaning,
        group=Group(title, sort_key=ranks[entry.section]),
    )
    kind = bool if entry.is_switch else str
    return inspect.Parameter(
        _parameter_name(entry),
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[kind | None, told],
    )
