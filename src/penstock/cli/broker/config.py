"""`penstock config …`: what is set, where, and what may be set.

`show` and `check` take every flag of `penstock serve`, so that a command line can be tried without
starting anything.
"""

import sys
from functools import partial
from typing import Annotated

import msgspec
from cyclopts import App, Parameter

from penstock.cli.flags import Given, takes_settings
from penstock.server.checks import check_config
from penstock.server.reference import reference_toml

app = App(name="config", help="Show, check and explain the broker's settings.")

Json = Annotated[
    bool,
    Parameter(
        name="--json",
        negative="",
        show_default=False,
        help="Print one JSON document, for programs.",
    ),
]


@app.command
@partial(takes_settings, listed=False)
def show(given: Given, *, json: Json = False) -> None:
    """Print every setting with the source it comes from.

    A flag counts more than a variable, a variable more than the file, the file more than the
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
        print(msgspec.json.format(msgspec.json.encode(document), indent=2).decode())
        return
    names, values = (max(len(row[column]) for row in rows) for column in (0, 1))
    for name, value, source in rows:
        print(f"{name:<{names}}  {value or '-':<{values}}  {source}")


@app.command
@partial(takes_settings, listed=False)
def check(given: Given) -> None:
    """Say whether the settings are sound; the exit code is 1 if not.

    Every flag of `penstock serve` may be given.

    Examples
    --------
    penstock config check --config /etc/penstock.toml && echo sound
    """
    loaded = given.load()
    check_config(loaded.config)
    where = f"{loaded.file} and the environment" if loaded.file else "the environment"
    print(f"the settings are sound; read from {where}", file=sys.stderr)


@app.command
def reference() -> None:
    """Print a penstock.toml with every setting, its default and its meaning.

    Examples
    --------
    penstock config reference > penstock.toml
    """
    print(reference_toml(), end="")
