"""The runbooks: what to do about each alert, as Markdown.

They are the pages below `docs/runbooks`. A wheel has them as files of the package, so that a broker
can show them (`/runbooks/no-consumers`) and a terminal print them without the network; in a
checkout they are read where they are.
"""

import re
from functools import cache
from pathlib import Path

from penstock.watch.rules import RULES

PACKAGED = Path(__file__).parent / "runbook_pages"
CHECKOUT = Path(__file__).resolve().parents[3] / "docs" / "runbooks"
PATH = "/runbooks"
"""The path of the runbooks in the dashboard."""
_REMARK = re.compile(r"<!--.*?-->\n?", re.DOTALL)


def runbook_path(rule: str) -> str:
    """The page of the dashboard that shows the runbook of a rule."""
    return f"{PATH}/{_stem(rule)}"


def rule_of(stem: str) -> str | None:
    """Return the rule of a runbook's name, as no-consumers or no_consumers."""
    name = stem.replace("-", "_")
    return name if name in RULES else None


@cache
def runbook(rule: str) -> str | None:
    """The text of a runbook, without remarks to the tests of the documents; None if this
    installation has none."""
    name = RULES[rule].page
    for folder in (PACKAGED, CHECKOUT):
        if (folder / name).is_file():
            return _REMARK.sub("", (folder / name).read_text("utf-8"))
    return None


def _stem(rule: str) -> str:
    return RULES[rule].page.removesuffix(".md")
