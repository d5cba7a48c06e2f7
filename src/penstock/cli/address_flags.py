"""Where the broker is: the flags `--url` and `--http` of every command that talks to one.

A flag counts most, then a variable, then the context that was chosen (`penstock context use`), then
the default, which is a broker on this machine. Commands about messages, topics and groups speak the
native protocol at `--url`; those about queues and the cluster as such ask the HTTP port, `--http`.

A context that lacks the address a command needs is an error: falling back to this machine would
quietly ask another broker than the one the user chose.
"""

import os
from collections.abc import Mapping
from typing import Annotated

from cyclopts import App, ArgumentCollection, Parameter, Token

from penstock.client.context_file import Context, context_path, read_contexts
from penstock.client.default_url import DEFAULT_URL, URL_VARIABLE
from penstock.core.errors import LocalError

HTTP_VARIABLE = "PENSTOCK_HTTP"

Url = Annotated[
    str,
    Parameter(
        name=["--url", "-u"],
        env_var=URL_VARIABLE,
        show_env_var=False,
        metavar="URL",
        help="Where the broker is: penstock://HOST:PORT[,HOST:PORT], or file:PATH for a data"
        " directory that no broker has open; also from the variable PENSTOCK_URL.",
    ),
]

__all__ = [
    "DEFAULT_URL",
    "HTTP_VARIABLE",
    "URL_VARIABLE",
    "Url",
    "chosen_context",
    "context_address",
    "fill_in_addresses",
]

_KINDS = {URL_VARIABLE: ("url", "--url URL"), HTTP_VARIABLE: ("http", "--http HOST:PORT")}


def fill_in_addresses(_app: App, _path: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give flags that were not typed, and no variable set, the addresses of the context.

    Cyclopts calls it for every command line, after it has looked at the variables. Which flags are
    meant follows from their variables: `penstock serve --http` is about something else.
    """
    for argument in arguments:
        for variable in argument.parameter.env_var or ():
            if variable in _KINDS and not argument.tokens:
                may_lack = argument.field_info.default is None
                address = context_address(variable, os.environ, may_lack=may_lack)
                if address:
                    token = Token(keyword=_KINDS[variable][1].split()[0], value=address)
                    argument.tokens.append(token)


def context_address(
    variable: str, environment: Mapping[str, str], *, may_lack: bool = False
) -> str:
    """What the chosen context has in place of a variable; nothing if none is chosen."""
    chosen = chosen_context(environment)
    if chosen is None:
        return ""
    name, context = chosen
    kind, flag = _KINDS[variable]
    address: str = getattr(context, kind)
    if not address and not may_lack:
        raise LocalError(
            f"context {name} has no address for this; add it with"
            f" `penstock context add {name} {flag}`, or give {flag}"
        )
    return address


def chosen_context(environment: Mapping[str, str]) -> tuple[str, Context] | None:
    """The context in force and its name."""
    return read_contexts(context_path(environment)).chosen(environment)
