"""ElectLeaders: one broker has nothing to elect; test_three_brokers has."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker


def elect(ask: Asker, version: int, topics: dict[str, list[int]] | None, kind: int = 0) -> Message:
    rows = topics and [{"topic": name, "partitions": indexes} for name, indexes in topics.items()]
    fields = {"election_type": kind, "topic_partitions": rows, "timeout": 1_000}
    return ask(43, version, fields)


@pytest.mark.parametrize(("version", "kind"), [(0, 0), (2, 0), (2, 1)])
def test_who_leads_goes_on(ask: Asker, version: int, kind: int) -> None:
    if ask.broker.node.engine.topics.catalog.topic("elected") is None:
        ask.create_topic("elected", 2)
    answer = elect(ask, version, {"elected": [0, 5], "missing": [0]}, kind)
    assert answer.error_code == 0
    rows = {
        (topic.topic, row.partition_id): (row.error_code, row.error_message)
        for topic in answer.replica_election_results
        for row in topic.partition_result
    }
    assert rows == {
        ("elected", 0): (84, "the partition has the leader it should have"),
        ("elected", 5): (3, "there is no such partition"),
        ("missing", 0): (3, "there is no such partition"),
    }


def test_of_all_partitions_only_changes_are_told(ask: Asker) -> None:
    ask.create_topic("elected-too", 2)
    assert elect(ask, 2, None).replica_election_results == ()


def test_other_elections_are_refused(ask: Asker) -> None:
    assert elect(ask, 1, None, kind=2).error_code == 42
