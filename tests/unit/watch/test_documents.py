"""What the pages say about alerts is what the table says, and every rule has its runbook."""

import re
from pathlib import Path

import pytest

from penstock.core.alert_configs import ALERT_CONFIGS
from penstock.watch.rules import RULES, Rule, Unit

ROOT = Path(__file__).parents[3]
GUIDE = (ROOT / "docs/guides/alerts.md").read_text("utf-8")
RUNBOOKS = ROOT / "docs/runbooks"


def written(rule: Rule, number: float | None) -> str:
    """A number of the table, for people."""
    if number is None:
        return ""
    match rule.unit:
        case Unit.MESSAGES:
            return f"{number:,.0f}"
        case Unit.SHARE:
            return f"{100 * number:g} %"
        case Unit.DURATION:
            return f"{number / 60_000:g} minutes"


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_the_guide_has_the_numbers(rule: Rule) -> None:
    (row,) = re.findall(rf"^\| `{rule.name}` \|(.*)\|$", GUIDE, re.MULTILINE)
    cells = [cell.strip() for cell in row.split("|")]
    levels = rule.levels
    assert cells[1:5] == [
        written(rule, number)
        for number in (levels.attention, levels.warning, levels.critical, rule.target)
    ]
    assert f"(../runbooks/{rule.page})" in cells[5]


@pytest.mark.parametrize("rule", RULES.values(), ids=lambda rule: rule.name)
def test_every_rule_has_a_runbook(rule: Rule) -> None:
    text = (RUNBOOKS / rule.page).read_text("utf-8")
    assert f"**Alert `{rule.name}`.**" in text
    for title in ("## What it means", "## Look", "## Do"):
        assert title in text
    first = " ".join(text.split("\n## ")[0].split())
    for level in ("attention", "warning", "critical"):
        number = getattr(rule.levels, level)
        if number is not None and rule.name not in ("no_consumers", "processing_rate"):
            assert written(rule, number) in first, (level, number)


def test_every_runbook_has_a_rule() -> None:
    assert {path.name for path in RUNBOOKS.glob("*.md")} == {rule.page for rule in RULES.values()}


def test_the_guide_names_only_configs_that_there_are() -> None:
    names = {config.name for config in ALERT_CONFIGS}
    assert set(re.findall(r"\balert\.[a-z.]+[a-z]", GUIDE)) <= names
