"""`penstock config …`: the settings, their sources and their allowed values.

`show` and `check` take every flag of `penstock serve`, so that a command line can be tried without
starting anything.
"""

import sys
from dataclasses import replace
from functools import partial
from typing import Annotated

from cyclopts import App, Parameter

from penstock.cli.admin import Json, print_json
from penstock.cli.flags import Given, takes_settings
from penstock.server.checks import check_config
from penstock.server.config import FIELDS
from penstock.server.reference import reference_toml

app = App(name="config", help="Show, check and explain the broker's settings.")


@app.command
@partial(takes_settings, listed=False)
def show(given: Given, *, json: Json = False) -> None:
    """Print every setting with the source it comes from.

    A flag takes precedence over a variable, a variable over the file, the file over the
    default. Every flag of `penstock serve` may be given.

    Examples
    --------
    penstock config show
    penstock config show --json --config /etc/penstock.toml
    """
    loaded = given.load()
    rows = [
        (entry.name, entry.written(value), str(source)) for entry, value, source in loaded.rows()
    ]
    if json:
        document = [
            {"name": name, "value": value or None, "source": source} for name, value, source in rows
        ]
        print_json(document)
        return
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, source in rows:
        print(f"{name:<{names}}  {value or '-':<{values}}  {source}")


@app.command
@partial(takes_settings, listed=False)
def check(
    given: Given,
    file: Annotated[
        str | None, Parameter(show_default=False, help="The settings; as with --config.")
    ] = None,
    /,
    *,
    json: Json = False,
) -> None:
    """Check the settings; the exit code is 1 if one is invalid.

    Every flag of `penstock serve` may be given.

    Examples
    --------
    penstock config check /etc/penstock.toml && echo sound
    penstock config check --storage.segment-size 64MiB
    """
    loaded = (given if file is None else replace(given, file=file)).load()
    check_config(loaded.config)
    if json:
        print_json({"sound": True, "file": loaded.file})
        return
    where = f"{loaded.file} and the environment" if loaded.file else "the environment"
    print(f"the settings are sound; read from {where}", file=sys.stderr)


@app.command
def reference(*, json: Json = False) -> None:
    """Print a penstock.toml with every setting, its default and its meaning.

    Examples
    --------
    penstock config reference > penstock.toml
    """
    if not json:
        print(reference_toml(), end="")
        return
    settings = [
        {
            "name": entry.name,
            "default": entry.written(entry.default) or None,
            "flag": entry.flag,
            "variable": entry.variable,
            "meaning": entry.meaning,
        }
        for entry in FIELDS
    ]
    print_json(settings)
