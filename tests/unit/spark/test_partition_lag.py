"""Rows out of the progress of a query."""

from typing import Any

from penstock.spark.reading.partition_lag import lag

PROGRESS: dict[str, Any] = {
    "durationMs": {"triggerExecution": 500},
    "sources": [
        {
            "startOffset": '{"orders": {"0": 10}}',
            "endOffset": '{"orders": {"0": 60, "1": 5}}',
            "latestOffset": '{"orders": {"0": 100, "1": 5}}',
        },
        {"startOffset": "12", "endOffset": "13", "latestOffset": "13"},
        {"startOffset": None, "endOffset": {"logOffset": 3}, "latestOffset": None},
    ],
}


def test_a_row_for_each_partition() -> None:
    first, second = lag(PROGRESS)
    assert (first.topic, first.partition, first.lag, first.rate) == ("orders", 0, 40, 100.0)
    assert (second.start, second.end, second.lag) == (5, 5, 0)


def test_before_the_first_micro_batch_there_is_nothing() -> None:
    assert lag(None) == []


def test_what_else_a_source_says_is_no_topic() -> None:
    queue = {
        "startOffset": '{"jobs": {"0": 1}, "jobs:batch": {"stream": "s", "again": {"0": "0-1"}}}',
        "endOffset": '{"jobs": {"0": 3}, "jobs:batch": {"stream": "s", "again": {}}}',
        "latestOffset": '{"jobs": {"0": 9}, ":penstock": {"url": "u", "group": "g"}}',
    }
    (row,) = lag({"durationMs": {}, "sources": [queue]})
    assert (row.topic, row.start, row.end, row.lag) == ("jobs", 1, 3, 6)
