"""The rules for Prometheus say what the broker's own rules say."""

import operator
import re
from typing import Any

import pytest
import yaml

from penstock.core.alert_levels import Levels
from penstock.watch.inspection import judge
from penstock.watch.metric_table import CHAPTERS
from penstock.watch.prometheus import EXPRESSIONS, rules_text, scrape_text, threshold_of
from penstock.watch.rules import RULES
from penstock.watch.settings import AlertSettings

METRICS = {metric.name for chapter in CHAPTERS for metric in chapter.metrics}
COMPARISON = re.compile(r"^\(?(?P<value>.*?) (?P<sign>[<>]) (?P<number>[0-9.]+)(?:\) and |$)")
SIGNS = {"<": operator.lt, ">": operator.gt}


def written(settings: AlertSettings | None = None) -> list[dict[str, Any]]:
    document = yaml.safe_load(rules_text(settings or AlertSettings()))
    (group,) = document["groups"]
    rules: list[dict[str, Any]] = group["rules"]
    return rules


def test_there_is_a_rule_for_every_level_of_every_rule() -> None:
    found = {(one["labels"]["rule"], one["labels"]["severity"]) for one in written()}
    wanted = {
        (rule.name, level.value) for rule in RULES.values() for level, _ in rule.levels.items()
    }
    assert found == wanted


def test_names_are_unique() -> None:
    names = [one["alert"] for one in written()]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("one", written(), ids=lambda one: str(one["alert"]))
def test_an_expression_judges_as_the_broker_does(one: dict[str, Any]) -> None:
    rule = RULES[one["labels"]["rule"]]
    at = getattr(rule.levels, one["labels"]["severity"])
    number = threshold_of(rule.name, at)
    if one["alert"].startswith("PenstockNoConsumersGroup"):
        assert one["for"] == f"{number:.0f}s" == "300s"
        return
    found = COMPARISON.match(one["expr"])
    assert found is not None, one["expr"]
    assert float(found["number"]) == number
    compare = SIGNS[found["sign"]]
    only = Levels(attention=at)
    for value in (at * 0.999, at, at * 1.001):
        expected = judge(only, value, below=rule.below) is not None
        assert compare(threshold_of(rule.name, value), float(found["number"])) is expected


def test_every_metric_is_one_that_brokers_have() -> None:
    named = set()
    for expression in EXPRESSIONS:
        named |= set(re.findall(r"penstock_\w+", f"{expression.value} {expression.condition}"))
    assert named
    assert named <= METRICS


def test_metrics_are_summed_by_labels_that_they_have() -> None:
    labels = {one.name: set(one.labels) for chapter in CHAPTERS for one in chapter.metrics}
    pattern = re.compile(r"by \(([a-z, ]+)\) \((?:rate\()?(penstock_\w+)(?:\{(\w+)=)?")
    seen = 0
    for expression in EXPRESSIONS:
        for by, metric, matched in pattern.findall(f"{expression.value} {expression.condition}"):
            seen += 1
            wanted = {label.strip() for label in by.split(",")} | ({matched} if matched else set())
            assert wanted <= labels[metric], (metric, wanted)
    assert seen >= len(EXPRESSIONS)


def test_parentheses_are_closed() -> None:
    for one in written():
        assert one["expr"].count("(") == one["expr"].count(")"), one["expr"]


def test_numbers_are_those_of_the_settings() -> None:
    levels = {name: rule.levels for name, rule in RULES.items()}
    levels["depth"] = Levels(warning=1_234_567)
    levels["lag"] = Levels()
    rules = written(AlertSettings(levels=levels, hold_ms=60_000, clear_ms=0))
    (depth,) = [one for one in rules if one["labels"]["rule"] == "depth"]
    assert depth["expr"].endswith("> 1234567")
    assert depth["for"] == "60s"
    assert not [one for one in rules if one["labels"]["rule"] == "lag"]


def test_silence_waits_for_nothing_more() -> None:
    (silent,) = [one for one in written() if one["alert"] == "PenstockNoConsumersCritical"]
    assert silent["for"] == "0s"
    assert "penstock_queue_silent_seconds" in silent["expr"]
    assert "> 300)" in silent["expr"]


def test_nodes_are_scraped() -> None:
    document = yaml.safe_load(scrape_text(["a:8080", "b:8080"]))
    (job,) = document["scrape_configs"]
    assert job["metrics_path"] == "/metrics"
    assert job["static_configs"] == [{"targets": ["a:8080", "b:8080"]}]
    assert document["rule_files"] == ["penstock-rules.yml"]
