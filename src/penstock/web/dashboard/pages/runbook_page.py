"""Runbooks: what to do about each alert, served by the broker itself."""

from pathlib import PurePosixPath

from starlette.requests import Request

from penstock.core.errors import UnknownAlert
from penstock.watch.rules import RULES
from penstock.watch.runbooks import rule_of, runbook, runbook_path
from penstock.web.broker import Broker
from penstock.web.dashboard.view import View
from penstock.web.dashboard.widgets.markdown import to_html


async def runbook_list(_broker: Broker, _request: Request) -> View:
    """The index: a line for each alert rule."""
    pages = [
        {"rule": rule.name, "title": rule.title, "meaning": rule.meaning,
         "path": runbook_path(rule.name)}
        for rule in RULES.values()
    ]  # fmt: skip
    return View(
        template="runbooks.html",
        title="Runbooks",
        data={"pages": pages},
        command="penstock alert runbook no_consumers",
    )


async def runbook_page(_broker: Broker, request: Request) -> View:
    """One, as HTML; as JSON it is Markdown."""
    name = request.path_params["name"].removesuffix(".md")
    rule = rule_of(name)
    text = None if rule is None else runbook(rule)
    if rule is None or text is None:
        raise UnknownAlert(f"there is no runbook {name[:60]}")
    as_json = request.query_params.get("format") == "json"
    return View(
        template="runbook.html",
        title=RULES[rule].title,
        data={"rule": rule, "markdown": text, "html": "" if as_json else to_html(text, _target)},
        command=f"penstock alert runbook {rule}",
    )


def _target(link: str) -> str | None:
    """Other runbooks are here; what else a runbook refers to is not."""
    if link.startswith("https://"):
        return link
    path = PurePosixPath(link)
    rule = rule_of(path.stem) if path.suffix == ".md" and len(path.parts) == 1 else None
    return None if rule is None else runbook_path(rule)
