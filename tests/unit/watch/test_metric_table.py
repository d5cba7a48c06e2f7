"""Names keep to the rules, and each means one thing."""

import re

import pytest

from penstock.watch.metric_table import CHAPTERS, METRICS, Kind, Metric

ALIASES = ("batch_", "kafka_", "queue_")
UNITS = (
    "bytes", "seconds", "messages", "entries", "info", "index", "term", "leader", "segments",
    "connections", "consumers", "members", "letters", "requests", "full", "topics", "partitions",
    "connected", "offset", "watermark", "total", "alerts", "failed", "ratio",
)  # fmt: skip
OURS = [metric for metric in METRICS.values() if not metric.name.startswith(ALIASES)]


def test_a_name_stands_in_the_table_once() -> None:
    assert len(METRICS) == sum(len(chapter.metrics) for chapter in CHAPTERS)


@pytest.mark.parametrize("metric", METRICS.values(), ids=lambda metric: metric.name)
def test_names_and_labels_can_be_read_by_prometheus(metric: Metric) -> None:
    assert re.fullmatch("[a-z][a-z0-9_]*", metric.name)
    assert all(re.fullmatch("[a-z][a-z0-9_]*", label) for label in metric.labels)
    assert "le" not in metric.labels
    assert metric.meaning.endswith(".")
    assert metric.over_nodes in ("sum", "max", "min")


@pytest.mark.parametrize("metric", OURS, ids=lambda metric: metric.name)
def test_our_names_have_one_prefix_and_end_with_what_they_count(metric: Metric) -> None:
    assert metric.name.startswith("penstock_")
    assert metric.name.endswith(UNITS)
    assert metric.name.endswith("_total") == (metric.kind is Kind.COUNTER)
    if metric.kind is Kind.HISTOGRAM:
        assert metric.name.endswith(("_duration_seconds", "_depth_messages"))


def test_the_names_that_others_expect_are_there() -> None:
    assert METRICS["kafka_consumergroup_lag"].labels == ("consumergroup", "topic", "partition")
    wanted = {
        "queue_enqueue_rate",
        "queue_dequeue_rate",
        "queue_processing_latency_p95",
        "queue_depth",
        "queue_error_rate",
        "queue_consumer_lag",
        "batch_size_avg",
    }
    assert "error_type" in METRICS["queue_error_rate"].labels
    assert wanted <= METRICS.keys()
