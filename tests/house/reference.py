"""The generated pages of docs/reference: one list per fact, and the page is derived from it.

`pytest tests/house --rewrite` writes them; without it they are compared.
"""

import ast
import inspect
import io
from collections.abc import Callable, Iterator
from pathlib import Path

from cyclopts import App
from rich.console import Console

from penstock.cli.program import app
from penstock.core import errors, limits
from penstock.core.errors import PenstockError
from penstock.server.reference import reference_page
from tests.house.http_api import http_api_page, openapi_file
from tests.house.kafka_apis import kafka_apis_page
from tests.house.kafka_messages import messages_page
from tests.house.metrics_page import metrics_page
from tests.house.python_api import python_page
from tests.house.topic_configs import topic_configs_page

NOTICE = "Generated from the code; `pytest tests/house --rewrite` renews it."

EXIT_CODES = """\
Data goes to stdout, talk to stderr. Exit code 0: done; 1: refused or failed, with one sentence that
says why; 2: typed wrongly."""


def commands(parent: App = app, path: tuple[str, ...] = ("penstock",)) -> Iterator[tuple[str, App]]:
    """Every command with its full name, groups before what they hold."""
    for name in sorted(parent):
        if not name.startswith("-"):
            command = parent[name]
            yield " ".join((*path, name)), command
            yield from commands(command, (*path, name))


def cli_page() -> str:
    """docs/reference/cli.md."""
    parts = [
        "# Commands",
        NOTICE,
        EXIT_CODES,
        _help_text("penstock", app),
    ]
    for name, command in commands():
        parts += [f"## {name}", _help_text(name, command)]
    return "\n\n".join(parts) + "\n"


def _help_text(name: str, command: App) -> str:
    output = io.StringIO()
    console = Console(file=output, width=90, no_color=True, force_terminal=False)
    app.help_print(name.split()[1:], console=console)
    lines = [line.rstrip() for line in output.getvalue().strip().splitlines()]
    return "\n".join(["```", *lines, "```"])


def config_page() -> str:
    """docs/reference/config.md."""
    return f"# Configuration\n\n{NOTICE}\n\n{reference_page()}"


def errors_page() -> str:
    """docs/reference/errors.md."""
    lines = [
        "# Errors",
        "",
        NOTICE,
        "",
        "| error | kind of | what it means | Kafka | SQS | HTTP |",
        "|---|---|---|---|---|---|",
    ]
    for kind in vars(errors).values():
        if inspect.isclass(kind) and issubclass(kind, PenstockError):
            parent = kind.__bases__[0].__name__ if kind is not PenstockError else ""
            lines.append(
                f"| `{kind.__name__}` | {parent} | {_first_line(kind.__doc__)} "
                f"| {kind.kafka_code} | {kind.sqs_code} | {kind.http_status} |"
            )
    return "\n".join(lines) + "\n"


def limits_page() -> str:
    """docs/reference/limits.md."""
    lines = ["# Limits", "", NOTICE, "", "| limit | value | what it bounds |", "|---|---|---|"]
    body = ast.parse(inspect.getsource(limits)).body
    for node, following in zip(body, [*body[1:], None], strict=True):
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
            name = node.targets[0].id
            value = getattr(limits, name)
            note = ""
            if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
                note = " ".join(str(following.value.value).split())
            if name not in ("KIB", "MIB", "GIB"):
                lines.append(f"| `{name}` | {_amount(name, value)} | {note} |")
    return "\n".join(lines) + "\n"


def _amount(name: str, value: int) -> str:
    if "_BYTES" in name or name.endswith("BYTES_MAX"):
        for unit, size in (("GiB", limits.GIB), ("MiB", limits.MIB), ("KiB", limits.KIB)):
            if value >= size and value % size == 0:
                return f"{value // size} {unit}"
    return f"{value:,}"


def _first_line(docstring: str | None) -> str:
    assert docstring, "an error without a docstring"
    return inspect.cleandoc(docstring).splitlines()[0]


PAGES: dict[Path, Callable[[], str]] = {
    Path("docs/reference/cli.md"): cli_page,
    Path("docs/reference/config.md"): config_page,
    Path("docs/reference/errors.md"): errors_page,
    Path("docs/reference/http-api.md"): lambda: http_api_page(NOTICE),
    Path("docs/reference/kafka-apis.md"): kafka_apis_page,
    Path("docs/reference/limits.md"): limits_page,
    Path("docs/reference/metrics.md"): lambda: metrics_page(NOTICE),
    Path("docs/reference/openapi.json"): openapi_file,
    Path("docs/reference/python.md"): lambda: python_page(NOTICE),
    Path("docs/reference/topic-configs.md"): lambda: topic_configs_page(NOTICE),
    Path("src/penstock/kafka/messages.txt"): messages_page,
}
