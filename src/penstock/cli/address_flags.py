"""The broker's address: the flag `--url` of every command that talks to a broker.

A flag counts most, then the variable PENSTOCK_URL, then the context that was chosen (`penstock
context use`), then the default, which is a broker on this machine. Commands about messages, topics
and groups speak the native protocol there. Those about queues and the cluster ask the HTTP port,
which the broker names in its answer to a native request (see `http_discovery`).

Before 0.2 the second kind of command had a flag and a variable of its own, `--http` and
PENSTOCK_HTTP. Both still work: the flag is not listed, and the variable, which is the name of the
setting "where a broker listens", draws a remark and counts only where nothing else is given.

A context that lacks the address a command needs is an error: falling back to this machine would
silently ask another broker than the one the user chose.
"""

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Annotated, TypeVar

from cyclopts import App, ArgumentCollection, Parameter, Token

from penstock.cli.admin import DEFAULT_HTTP, ask, ask_for, parse_http
from penstock.client.context_file import Context, context_path, read_contexts
from penstock.client.default_url import DEFAULT_URL, URL_VARIABLE
from penstock.core.errors import LocalError, Unavailable
from penstock.server.notation import Address

T = TypeVar("T")

HTTP_VARIABLE = "PENSTOCK_HTTP"

Url = Annotated[
    str,
    Parameter(
        name=["--url", "-u"],
        env_var=URL_VARIABLE,
        show_env_var=False,
        metavar="URL",
        help="The address of the broker: penstock://HOST:PORT[,HOST:PORT], or file:PATH for a data"
        " directory that no broker has open; also from the variable PENSTOCK_URL.",
    ),
]
DeprecatedHttp = Annotated[
    str | None,
    Parameter(name="--http", show=False, help="The HTTP address of a node; deprecated."),
]

__all__ = [
    "DEFAULT_URL",
    "HERE",
    "URL_VARIABLE",
    "BrokerAddress",
    "DeprecatedHttp",
    "Url",
    "chosen_context",
    "context_url",
    "fill_in_addresses",
    "forget_addresses",
]


@Parameter(name="*")
@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerAddress:
    """The flag `--url` of commands that ask the broker's HTTP port."""

    url: Annotated[
        str | None,
        Parameter(
            name=["--url", "-u"],
            metavar="URL",
            show_default=False,
            help="The address of the broker: penstock://HOST:PORT[,HOST:PORT]; also from the"
            f" variable PENSTOCK_URL. [default: {DEFAULT_URL}]",
        ),
    ] = None
    http: DeprecatedHttp = None

    @property
    def is_given(self) -> bool:
        """A flag, a variable or a context says where the broker is."""
        return _given(self.url, self.http, os.environ) != ("", "")

    def native(self) -> str:
        """The native address, if one is given."""
        chosen = chosen_context(os.environ)
        known = "" if chosen is None else chosen[1].url
        return self.url or os.environ.get(URL_VARIABLE) or known

    def directory(self) -> str | None:
        """The URL, if it names a data directory: commands that can open one do so."""
        url, _ = _given(self.url, self.http, os.environ)
        return url if url.startswith("file:") else None

    def address(self, node: int | None = None) -> Address:
        """The HTTP address; of one node of the cluster, if the broker has to be asked for it."""
        url, http = _given(self.url, self.http, os.environ)
        return parse_http(http) if http else _found(url, node)

    def ask(self, method: str, path: str, body: object = None) -> bytes:
        """Send a request to the broker's HTTP port and return the body of the answer."""
        return ask(self.address(), method, path, body)

    def ask_for(self, method: str, path: str, kind: type[T], body: object = None) -> T:
        """Return the answer, decoded as `kind`."""
        return ask_for(str(self.address()), method, path, kind, body)


HERE = BrokerAddress()
"""The default: no flag was given."""


def _given(url: str | None, http: str | None, environment: Mapping[str, str]) -> tuple[str, str]:
    """The native or the HTTP address that counts; two empty texts if none is given."""
    if http:
        return "", http
    if url or (url := environment.get(URL_VARIABLE)):
        return url, ""
    chosen = chosen_context(environment)
    if chosen is not None:
        return ("", chosen[1].http) if chosen[1].http else (chosen[1].url, "")
    listening = environment.get(HTTP_VARIABLE, "")
    if listening:
        _remark_variable(listening)
    return "", listening


@lru_cache
def _remark_variable(http: str) -> None:
    print(
        f"penstock: {http} is taken from {HTTP_VARIABLE}, which says where a broker listens;"
        f" set {URL_VARIABLE} to say which broker to ask",
        file=sys.stderr,
    )


def forget_addresses() -> None:
    """Look for the broker's HTTP port anew at the next request: the node may be gone."""
    _found.cache_clear()


@lru_cache
def _found(url: str, node: int | None) -> Address:
    from penstock.cli.http_discovery import find_http

    if url:
        return find_http(url, node)
    try:
        return find_http(DEFAULT_URL, node)
    except Unavailable:
        # Its native port may be elsewhere, or not open yet: a node that looks for its cluster
        # answers HTTP before it answers anything else.
        return parse_http(DEFAULT_HTTP)


def fill_in_addresses(_app: App, _path: tuple[str, ...], arguments: ArgumentCollection) -> None:
    """Give a native `--url` that was not typed, and no variable set, the address of the context.

    Cyclopts calls it for every command line, after it has looked at the variables.
    """
    for argument in arguments:
        if URL_VARIABLE in (argument.parameter.env_var or ()) and not argument.tokens:
            address = context_url(os.environ, may_lack=argument.field_info.default is None)
            if address:
                argument.tokens.append(Token(keyword="--url", value=address))


def context_url(environment: Mapping[str, str], *, may_lack: bool = False) -> str:
    """The native address of the chosen context; nothing if none is chosen."""
    chosen = chosen_context(environment)
    if chosen is None:
        return ""
    name, context = chosen
    if not context.url and not may_lack:
        raise LocalError(
            f"context {name} has no address for this; add it with"
            f" `penstock context add {name} --url URL`, or give --url URL"
        )
    return context.url


def chosen_context(environment: Mapping[str, str]) -> tuple[str, Context] | None:
    """The context in force and its name."""
    return read_contexts(context_path(environment)).chosen(environment)
