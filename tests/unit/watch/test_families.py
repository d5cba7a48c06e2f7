"""A page is written as Prometheus' own library writes it, and can be read by it."""

import pytest
from prometheus_client.exposition import generate_latest
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.parser import text_string_to_metric_families as parse
from prometheus_client.samples import Sample

from penstock.core.histogram import Histogram
from penstock.watch.families import Families
from tests.unit.watch.scraped import read_open

HOSTILE = 'a "queue"\\with\na line'


def filled() -> Families:
    page = Families()
    times = Histogram()
    times.observe(0.003)
    times.observe(20.0, 3)
    page.add("penstock_messages_produced_total", 12, "orders", "kafka")
    page.add("penstock_messages_produced_total", 1, HOSTILE, "sqs")
    page.add("penstock_queue_messages", 3, "orders", "queue", "ready")
    page.add("penstock_uptime_seconds", 1.5)
    page.add_times("penstock_request_duration_seconds", times.statistics(), "kafka", "Produce")
    page.add_times("penstock_raft_commit_duration_seconds", times.statistics(), "0")
    return page


def samples(text: str) -> set[Sample]:
    return {
        (one.name, tuple(sorted(one.labels.items())), one.value)  # type: ignore[misc]
        for family in parse(text)
        for one in family.samples
    }


def test_both_ways_of_writing_say_the_same() -> None:
    page = filled()
    ours, theirs = samples("".join(page.write())), samples(generate_latest(page).decode())
    assert ours == theirs
    assert len(ours) == 4 + 2 * 20


def test_names_full_of_odd_characters_stay_names() -> None:
    names = {
        one.labels["destination"]
        for family in parse("".join(filled().write()))
        for one in family.samples
        if family.name == "penstock_messages_produced"
    }
    assert names == {"orders", HOSTILE}


def test_every_line_before_a_sample_says_what_it_is() -> None:
    lines = "".join(filled().write()).splitlines()
    assert lines[0].startswith("# HELP penstock_messages_produced_total ")
    assert lines[1] == "# TYPE penstock_messages_produced_total counter"
    assert lines[2] == 'penstock_messages_produced_total{destination="orders",protocol="kafka"} 12'


def test_openmetrics_can_be_read_too() -> None:
    text = generate_openmetrics(filled()).decode()  # type: ignore[no-untyped-call]
    assert {family.name for family in read_open(text)} == {
        "penstock_messages_produced",
        "penstock_queue_messages",
        "penstock_request_duration_seconds",
        "penstock_raft_commit_duration_seconds",
        "penstock_uptime_seconds",
    }


def test_what_is_not_in_the_table_is_found_at_once() -> None:
    page = Families()
    with pytest.raises(KeyError):
        page.add("penstock_nothing", 1)
    with pytest.raises(AssertionError, match="other labels"):
        page.add("penstock_connections", 1)
    with pytest.raises(AssertionError, match="histogram"):
        page.add("penstock_request_duration_seconds", 1, "kafka", "Produce")
    with pytest.raises(AssertionError, match="no histogram"):
        page.add_times("penstock_connections", Histogram().statistics(), "kafka")
