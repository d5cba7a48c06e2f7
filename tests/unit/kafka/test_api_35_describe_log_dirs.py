"""DescribeLogDirs: one directory, and what is in it."""

import pytest

from tests.unit.kafka.asking import Asker


@pytest.mark.parametrize("version", [1, 5])
def test_partitions_and_their_sizes(ask: Asker, version: int) -> None:
    name = f"sized-{version}"
    ask.create_topic(name, 2)
    ask.produce(name, 1, count=5)
    answer = ask(35, version, {"topics": None})
    assert answer.error_code == 0
    (row,) = answer.results
    assert (row.error_code, row.log_dir) == (0, ask.broker.node.engine.topics.directory)
    if version == 5:
        assert 0 < row.usable_bytes <= row.total_bytes
        assert not row.is_cordoned
    topics = {topic.name: topic.partitions for topic in row.topics}
    assert topics.keys() == ask.broker.node.engine.topics.catalog.topics.keys()
    empty, full = topics[name]
    assert (empty.partition_index, empty.partition_size) == (0, 0)
    assert full.partition_size > 50
    assert (full.offset_lag, full.is_future_key) == (0, False)


def test_only_what_is_asked_for(ask: Asker) -> None:
    ask.create_topic("chosen", 3)
    topics = [
        {"topic": "chosen", "partitions": [2, 9, -1]},
        {"topic": "missing", "partitions": [0]},
    ]
    (row,) = ask(35, 4, {"topics": topics}).results
    (topic,) = row.topics
    assert topic.name == "chosen"
    assert [one.partition_index for one in topic.partitions] == [2]
    (row,) = ask(35, 4, {"topics": []}).results
    assert row.topics == ()
