"""`penstock serve` as machines write it: the flags of settings, written out in full, once each.

Reading this much takes a few lines and no library, so a broker does not wait for one. Whatever
looks different in any way is not read here but by `program`, which knows help, abbreviations and
good words for every mistake: a line that is read here means the same there (a test compares).

    --flag value   --flag=value      a value is not empty and begins with no dash
    --flag                           of a setting that is on or off
"""

import os
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from penstock.core.errors import LocalError

if TYPE_CHECKING:
    from penstock.server.sources import LoadedConfig

COMMAND = "serve"
CONFIG_FLAG = "--config"


def read_plainly(arguments: Sequence[str]) -> Callable[[], int] | None:
    """Return the function that runs a plain `serve` command; None for all other commands."""
    typed = plain_flags(arguments[1:]) if list(arguments[:1]) == [COMMAND] else None
    loaded = None if typed is None else _load(typed)
    if loaded is None:
        return None
    from penstock.cli.broker.broker import run_broker
    from penstock.server.checks import check_config

    def serve() -> int:
        check_config(loaded.config)
        return run_broker(loaded)

    return serve


def _load(typed: Mapping[str, str | bool]) -> "LoadedConfig | None":
    """The configuration; None if a flag has no good value, or there is no directory."""
    from penstock.server.config import FIELDS
    from penstock.server.sources import Origin, Source, load_config, parse_value

    flags: dict[str, object] = {}
    for entry in FIELDS:
        if entry.flag in typed:
            flags[entry.name] = typed[entry.flag]
            try:
                parse_value(entry, typed[entry.flag], Source(origin=Origin.FLAG, place=entry.flag))
            except LocalError:
                return None
    file = typed.get(CONFIG_FLAG)
    assert file is None or isinstance(file, str), f"{CONFIG_FLAG} is no switch"
    loaded = load_config(flags=flags, environment=os.environ, file=file)
    return loaded if loaded.config.broker.data is not None else None


def plain_flags(words: Sequence[str]) -> dict[str, str | bool] | None:
    """Flags and their values; None if not every word is plain."""
    from penstock.server.config import FIELDS

    switches = {entry.flag: entry.is_switch for entry in FIELDS} | {CONFIG_FLAG: False}
    found: dict[str, str | bool] = {}
    remaining = iter(words)
    for word in remaining:
        flag, equals, value = word.partition("=")
        if flag not in switches or flag in found:
            return None
        if switches[flag]:
            if equals:
                return None
            found[flag] = True
            continue
        if not equals:
            value = next(remaining, "")
        if not value or value.startswith("-"):
            return None
        found[flag] = value
    return found
