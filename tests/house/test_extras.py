"""The package without extras is enough for a client, and each extra is enough for its part.

Every script runs in a process of its own, in which all packages are hidden but those that an
installation would have: the dependencies in pyproject.toml, those of the extras, and what they need
in turn.
"""

import os
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, packages_distributions, requires

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from penstock.cli.main import PACKAGES as CLI_PACKAGES
from penstock.core.extras import WHEEL
from penstock.server.http_port import PACKAGES as SERVER_PACKAGES
from penstock.testing import PenstockServer
from tests.house.sources import ROOT

pytestmark = pytest.mark.slow

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
OURS = {"penstock", "pyspark_penstock"}
HIDING = """
import sys
for name in {hidden!r}:
    sys.modules.setdefault(name, None)
"""
IMPORTING = """
import importlib, pkgutil
for name in {packages!r}:
    package = importlib.import_module(name)
    for module in pkgutil.walk_packages(getattr(package, "__path__", ()), name + "."):
        if module.name not in {but!r}:
            importlib.import_module(module.name)
"""
RUNNING = "from penstock.cli.main import run; sys.exit(run({arguments!r}))"
EXCHANGE = """
import asyncio, penstock, penstock.blocking
async def main(url):
    async with penstock.connect(url) as client:
        queue = client.queue("orders")
        await queue.send({{"order": 7}})
        [message] = await queue.receive(1, wait=20)
        assert message.body == {{"order": 7}}
        await message.ack()
asyncio.run(main({url!r}))
with penstock.blocking.connect({url!r}) as client:
    client.topic("lines").send("one")
"""
TRACED = {"penstock.client.meters", "penstock.client.spans"}
"""They need penstock[otel], and are imported only where the program has imported OpenTelemetry."""


def run(script: str, *extras: str, **values: object) -> "subprocess.CompletedProcess[str]":
    hiding = HIDING.format(hidden=sorted(hidden(extras)))
    return subprocess.run(
        [sys.executable, "-c", hiding + script.format(**values)],
        env={**os.environ, "PYTHONPATH": str(ROOT / "src"), "NO_COLOR": "1", "COLUMNS": "200"},
        capture_output=True,
        text=True,
        timeout=120,
    )


def hidden(extras: Iterable[str]) -> Iterator[str]:
    """Every module at hand that an installation with these extras would lack."""
    installed = needed(Requirement(f"penstock[{','.join(extras)}]"))
    for module, distributions in modules_at_hand().items():
        if not {canonicalize_name(one) for one in distributions} & installed:
            if module not in OURS and module not in sys.stdlib_module_names:
                yield module


@cache
def modules_at_hand() -> Mapping[str, list[str]]:
    """The distributions that have a module, by its name."""
    return packages_distributions()


def needed(wanted: Requirement) -> set[str]:
    """The distributions that pip would install for a requirement."""
    found: set[str] = set()
    seen: set[str] = set()
    waiting = [wanted]
    while waiting:
        one = waiting.pop()
        if str(one) in seen:
            continue
        seen.add(str(one))
        found.add(canonicalize_name(one.name))
        for text in requirements_of(one):
            further = Requirement(text)
            marker = further.marker
            if marker is None or any(
                marker.evaluate({"extra": name}) for name in one.extras | {""}
            ):
                waiting.append(further)
    return found


def requirements_of(wanted: Requirement) -> list[str]:
    if wanted.name == "penstock":
        extras = PROJECT["optional-dependencies"]
        return [
            *PROJECT["dependencies"],
            *(line for name in wanted.extras for line in extras[name]),
        ]
    try:
        return requires(wanted.name) or []
    except PackageNotFoundError:
        return []  # Of another system, or of Spark, which is not set up here.


def test_the_server_is_what_a_client_does_without() -> None:
    client, server = needed(Requirement("penstock")), needed(Requirement("penstock[server]"))
    assert client == {"penstock", "cramjam", "crc32c", "msgspec", "sortedcontainers", "uvloop"}
    assert {"jinja2", "rich", "starlette", "uvicorn", "prometheus-client", "cyclopts"} <= server
    named = {canonicalize_name(name) for name in (*CLI_PACKAGES, *SERVER_PACKAGES)}
    assert named <= server
    assert not named & client


def test_a_client_imports_nothing_that_only_a_server_has() -> None:
    packages = ["penstock." + name for name in ("client", "workers", "patterns", "embedded")]
    done = run(IMPORTING, packages=["penstock.blocking", *packages], but=TRACED)
    assert done.returncode == 0, done.stderr


def test_all_public_names_are_there_for_a_client() -> None:
    done = run("import penstock\nfor name in penstock.__all__: getattr(penstock, name)")
    assert done.returncode == 0, done.stderr


def test_a_client_speaks_with_a_broker() -> None:
    with PenstockServer() as broker:
        done = run(EXCHANGE, url=broker.url)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("url", ["memory:", "file:{path}"])
def test_a_client_runs_the_engine_itself(tmp_path: object, url: str) -> None:
    done = run(EXCHANGE, url=url.format(path=tmp_path))
    assert done.returncode == 0, done.stderr


def test_the_command_line_needs_no_server() -> None:
    done = run(IMPORTING, "cli", packages=["penstock.cli"], but=())
    assert done.returncode == 0, done.stderr
    done = run("from penstock.cli.assistant.command import mcp\nmcp()", "cli")
    assert done.returncode == 1
    assert "needs penstock[mcp]" in done.stderr
    done = run(RUNNING, "cli", arguments=["work", "--help"])
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("arguments", "extra"), [(["version"], "cli"), (["queue", "list"], "cli"), (["dev"], "server")]
)
def test_without_the_command_line_the_command_says_what_to_install(
    arguments: list[str], extra: str
) -> None:
    done = run(RUNNING, arguments=arguments)
    assert done.returncode == 1
    assert done.stderr == (
        f"penstock: The command line needs penstock[{extra}] (not installed: cyclopts, rich):"
        f" make setup in a clone of the repository, or pip install '{WHEEL}[{extra}]'\n"
    )


@pytest.mark.parametrize("extras", [(), ("cli",)])
def test_without_the_server_a_broker_says_what_to_install(
    tmp_path: object, extras: tuple[str, ...]
) -> None:
    data = f"{tmp_path}/data"
    done = run(RUNNING, *extras, arguments=["serve", "--data", data, "--kafka", "127.0.0.1:0"])
    assert done.returncode == 1
    assert f"pip install '{WHEEL}[server]'" in done.stderr
    assert "Traceback" not in done.stderr
    assert not os.path.exists(data)


def test_a_server_needs_nothing_but_its_extra() -> None:
    script = (
        "from penstock.testing import PenstockServer\nimport urllib.request\n"
        "with PenstockServer() as broker:\n"
        "    for path in ('/readyz', '/metrics', '/'):\n"
        "        assert urllib.request.urlopen(broker.http_url + path).status == 200\n"
    )
    done = run(script, "server")
    assert done.returncode == 0, done.stderr


def test_spans_need_nothing_but_their_extra() -> None:
    done = run(IMPORTING, "otel", packages=["penstock.client"], but=())
    assert done.returncode == 0, done.stderr
