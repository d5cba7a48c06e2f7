"""`penstock context …`: name the brokers one works with, and choose one of them.

Nothing is asked of a broker: a context may be added before the broker it names is started.
"""

import os
import sys
from typing import Annotated

from cyclopts import App, CycloptsError, Parameter

from penstock.cli.admin import Json, parse_http, print_json
from penstock.cli.table import print_table
from penstock.client.context_file import (
    Context,
    Contexts,
    check_name,
    context_path,
    read_contexts,
    write_contexts,
)
from penstock.core.errors import LocalError

app = App(name="context", help="Manage named brokers, and choose the default one.")

Name = Annotated[str, Parameter(help="The name of the context.")]


@app.command
def add(
    name: Name,
    /,
    *,
    url: Annotated[
        str | None,
        Parameter(name=["--url", "-u"], metavar="URL", help="The native address of the broker."),
    ] = None,
    http: Annotated[
        str | None,
        Parameter(
            metavar="HOST:PORT",
            help="The HTTP address of the broker, if the one that its nodes advertise cannot be"
            " reached.",
        ),
    ] = None,
    use: Annotated[
        bool, Parameter(negative="", show_default=False, help="Make it the default.")
    ] = False,
    json: Json = False,
) -> None:
    """Add a context, which names the addresses of a broker, or change an existing one.

    The first context becomes the default.

    Examples
    --------
    penstock context add local --url penstock://127.0.0.1:9092
    penstock context add shop -u penstock://a.example:9092,b.example:9092 --use
    penstock context add notes --url file:./notes-data
    """
    check_name(name)
    if url is None and http is None:
        raise CycloptsError(msg="Give an address: --url URL, or also --http HOST:PORT.")
    if http is not None:
        parse_http(http)
    path = context_path(os.environ)
    known = read_contexts(path)
    before = known.contexts.get(name, Context())
    context = Context(
        url=before.url if url is None else _checked(url),
        http=before.http if http is None else http,
    )
    current = name if use or not known.contexts else known.current
    write_contexts(path, Contexts(current, {**known.contexts, name: context}))
    if json:
        print_json(_document(name, context, current))
        return
    chosen = " and is chosen" if current == name else f"; choose it: penstock context use {name}"
    print(f"context {name} is kept in {path}{chosen}", file=sys.stderr)


@app.command(name="list")
def list_contexts(*, json: Json = False) -> None:
    """List the contexts; a star marks the default.

    Examples
    --------
    penstock context list
    PENSTOCK_CONTEXT=shop penstock context list --json
    """
    known = read_contexts(context_path(os.environ))
    current = known.chosen_name(os.environ)
    if json:
        print_json([_document(name, one, current) for name, one in sorted(known.contexts.items())])
        return
    if not known.contexts:
        print("there are no contexts; add one: penstock context add NAME --url URL",
              file=sys.stderr)  # fmt: skip
        return
    print_table(
        ("", "CONTEXT", "URL", "HTTP"),
        [
            ("*" if name == current else "", name, one.url or "-", one.http or "-")
            for name, one in sorted(known.contexts.items())
        ],
    )


@app.command
def use(name: Name, /, *, json: Json = False) -> None:
    """Make a context the default: commands use its addresses unless a flag or variable is set.

    Examples
    --------
    penstock context use shop
    """
    path = context_path(os.environ)
    known = _known(name)
    write_contexts(path, Contexts(name, known.contexts))
    if json:
        print_json(_document(name, known.contexts[name], name))
        return
    print(f"commands go to context {name}", file=sys.stderr)


@app.command
def remove(name: Name, /, *, json: Json = False) -> None:
    """Delete a context. The broker is not affected.

    Examples
    --------
    penstock context remove shop
    """
    path = context_path(os.environ)
    known = _known(name)
    left = {other: context for other, context in known.contexts.items() if other != name}
    current = "" if known.current == name else known.current
    write_contexts(path, Contexts(current, left))
    if json:
        print_json({"removed": name, "current": current or None})
        return
    where = "" if current else "; none is chosen now"
    print(f"context {name} is removed{where}", file=sys.stderr)


def _document(name: str, context: Context, current: str) -> dict[str, object]:
    return {
        "name": name,
        "url": context.url or None,
        "http": context.http or None,
        "current": name == current,
    }


def _known(name: str) -> Contexts:
    known = read_contexts(context_path(os.environ))
    if name not in known.contexts:
        names = ", ".join(sorted(known.contexts)) or "none yet"
        raise LocalError(f"there is no context {name}; there are: {names}")
    return known


def _checked(url: str) -> str:
    """Check the syntax of a URL, without connecting to it."""
    scheme, colon, rest = url.partition(":")
    if not colon or scheme not in ("penstock", "file") or not rest or not url.isprintable():
        raise CycloptsError(
            msg=f'--url = "{url}" must be penstock://HOST:PORT[,HOST:PORT] or file:PATH.'
        )
    return url
