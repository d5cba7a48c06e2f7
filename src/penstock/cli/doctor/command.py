"""`penstock doctor`: is this machine fit for a broker, and is the broker well?"""

import importlib.metadata
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Annotated

from cyclopts import CycloptsError, Parameter
from rich.console import Console

from penstock.cli.address_flags import DEFAULT_URL, HERE, BrokerAddress
from penstock.cli.admin import Json, print_json
from penstock.cli.broker.serve import DEV_DATA
from penstock.cli.doctor.broker import check_http, check_version
from penstock.cli.doctor.checklist import check_production
from penstock.cli.doctor.facts import ask_facts
from penstock.cli.doctor.machine import Finding, check_machine
from penstock.cli.session import with_client
from penstock.client.client import Client
from penstock.core.errors import NotInstalled, PenstockError
from penstock.server.config import Broker
from penstock.spark.java import find_java
from penstock.spark.sessions import INSTALL, check_packages

STYLES = {"ok": "green", "warn": "yellow", "fail": "red", "ask": "cyan"}
ROUND_TRIPS = 10
CONNECT_SECONDS_MAX = 5.0
PAGE = "production-checklist.md"
PACKAGED = Path(__file__).parent / PAGE
CHECKOUT = Path(__file__).resolve().parents[4] / "docs" / "guides" / PAGE
_CHAPTER = re.compile(r"^## (.+) \(`([a-z ]+)`\)$", re.MULTILINE)
_LINK = re.compile(r"\[([^\]]+)\]\([^)]+\)")

Data = Annotated[
    str,
    Parameter(
        metavar="PATH",
        help="The data directory of a broker on this machine; it need not exist yet.",
    ),
]
Checklist = Annotated[
    bool,
    Parameter(
        show_default=False,
        help="Check the production checklist, or do not; by default if a broker answers.",
    ),
]


Explain = Annotated[
    str | None,
    Parameter(metavar="ITEM", help="Print what the checklist says about an item, and end."),
]


def doctor(
    *,
    explain: Explain = None,
    data: Data = DEV_DATA,
    broker: BrokerAddress = HERE,
    checklist: Checklist = True,
    json: Json = False,
) -> int | None:
    """Check this machine and a broker for problems, with advice on each.

    A running cluster is also checked against the production checklist. "ask" marks items that
    only you can answer; --explain prints the chapter about an item.

    The exit code is 1 if anything fails. A broker that does not answer counts as a failure only if
    you said where it should be, by a flag, a variable or a context.

    Examples
    --------
    penstock doctor
    penstock doctor --explain poison
    penstock doctor --data /var/lib/penstock --url penstock://127.0.0.1:9092
    penstock doctor --json | python3 -m json.tool
    """
    if explain is not None:
        _explain(explain, json=json)
        return None
    findings = []
    for finding in _findings(data, broker, checklist=checklist):
        findings.append(finding)
        if not json:
            _print(finding)
    failed = sum(one.verdict == "fail" for one in findings)
    warned = sum(one.verdict == "warn" for one in findings)
    if json:
        print_json({"ok": not failed, "findings": findings})
    else:
        told = f"{failed} failed, {warned} to look at" if failed or warned else "all is well"
        print(f"{len(findings)} checks: {told}", file=sys.stderr)
    return 1 if failed else None


def _explain(item: str, *, json: bool) -> None:
    known = _chapters()
    text = known.get(item)
    if text is None:
        raise CycloptsError(msg=f'--explain = "{item}" must be one of: {", ".join(known)}.')
    if json:
        print_json({"item": item, "text": text})
    else:
        print(text, end="")


@cache
def _chapters() -> dict[str, str]:
    """Return the chapters of the production checklist by item, as text for a terminal.

    A wheel has the page as a file of the package, a checkout among its guides."""
    path = next((one for one in (PACKAGED, CHECKOUT) if one.is_file()), None)
    if path is None:
        return {}
    # Before the first chapter there is an introduction; then title, item and text take turns.
    _, *parts = _CHAPTER.split(_LINK.sub(r"\1", path.read_text("utf-8")))
    titles, items, texts = parts[::3], parts[1::3], parts[2::3]
    return {
        item: f"{title}\n\n{text.strip()}\n"
        for title, item, text in zip(titles, items, texts, strict=True)
    }


def _findings(data: str, broker: BrokerAddress, *, checklist: bool) -> Iterator[Finding]:
    usual = Broker()
    ports = {"kafka": usual.kafka, "http": usual.http, "peer": usual.peer}
    yield from check_machine(data, ports)
    yield check_spark()
    url = broker.native()
    yield from check_native(url or DEFAULT_URL, wanted=bool(url))
    try:
        http = str(broker.address())
    except PenstockError as error:
        told, _, advice = " ".join(str(error).split()).partition("; ")
        yield Finding("http", "fail", told, advice)
        return
    answers = True
    for finding in check_http(http, now=time.time(), wanted=broker.is_given):
        answers = answers and (finding.check != "http" or finding.verdict == "ok")
        yield finding
    if checklist and answers:
        yield from _checklist(http)


def _checklist(http: str) -> Iterator[Finding]:
    try:
        facts = ask_facts(http)
    except PenstockError as error:
        told = " ".join(str(error).split())
        yield Finding("checklist", "warn", f"it could not be gone through: {told}", "ask again")
        return
    yield from check_production(facts)


def check_native(url: str, *, wanted: bool) -> list[Finding]:
    """The native port: that it answers, how fast, and which version is there."""

    async def look(client: Client) -> list[Finding]:
        took = []
        cluster = await client.cluster()
        for _ in range(ROUND_TRIPS):
            begun = time.perf_counter()
            cluster = await client.cluster()
            took.append((time.perf_counter() - begun) * 1_000)
        told = f"{url} answers in {min(took):.2f} ms"
        return [Finding("native", "ok", told), check_version(cluster.version)]

    try:
        return with_client(url, look, timeout=CONNECT_SECONDS_MAX)
    except PenstockError as error:
        told, _, advice = " ".join(str(error).split()).partition("; ")
        return [
            Finding("native", "fail" if wanted else "warn", told, advice or "correct --url URL")
        ]


def _print(finding: Finding) -> None:
    console = Console(highlight=False, soft_wrap=True, no_color="NO_COLOR" in os.environ or None)
    console.print(f"{finding.verdict:<4}", style=STYLES[finding.verdict], end="  ", markup=False)
    console.print(f"{finding.check:<14}  {finding.found}", markup=False)
    if finding.advice:
        console.print(f"{'':<22}{finding.advice}", style="dim", markup=False)


def check_spark() -> Finding:
    """Which PySpark is installed, and which Java it would run on."""
    try:
        check_packages()
    except NotInstalled as error:
        told, _, _ = str(error).partition(": ")
        return Finding("spark", "ok", f"{told}; only pipelines and jobs need it: {INSTALL}")
    version = f"PySpark {importlib.metadata.version('pyspark')}"
    try:
        java = find_java()
    except NotInstalled as error:
        told, _, advice = str(error).rpartition("; ")
        return Finding("spark", "warn", f"{version}; {told}", advice)
    return Finding("spark", "ok", f"{version} on Java {java.version} of {java.found}, {java.home}")
