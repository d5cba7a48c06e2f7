"""CreateTopics: what is made, and what is refused with which words."""

from pathlib import Path

import pytest

from penstock.core.topic_configs import TOPIC_CONFIGS
from penstock.core.types import NO_TOPIC_ID
from penstock.engine.topics.topics import EngineSettings
from penstock.kafka.codec import Message
from tests.kafka_broker import ThreadedBroker
from tests.unit.kafka.asking import Asker, asking, new_topic


def create(ask: Asker, version: int, *rows: object, validate_only: bool = False) -> list[Message]:
    fields = {"topics": list(rows), "timeout": 10_000, "validate_only": validate_only}
    return list(ask(19, version, fields).topics)


def test_topics_of_one_request_are_all_made_and_described(ask: Asker) -> None:
    rows = create(
        ask, 7, *(new_topic(f"many-{number}", number + 1) for number in range(150))
    )  # fmt: skip
    assert [row.error_code for row in rows] == [0] * 150
    assert [row.num_partitions for row in rows] == list(range(1, 151))
    assert {row.replication_factor for row in rows} == {1}
    assert len({row.topic_id for row in rows} - {NO_TOPIC_ID}) == 150
    for row in rows:
        topic = ask.broker.node.engine.topics.topic(row.name)
        assert topic.topic_id == row.topic_id
        assert len(topic.partitions) == row.num_partitions


def test_defaults_are_the_brokers(ask: Asker) -> None:
    (row,) = create(ask, 4, new_topic("by-default"))
    assert row.error_code == 0
    (described,) = create(ask, 5, new_topic("by-default-5"))
    assert described.num_partitions == ask.broker.node.engine.topics.settings.default_partitions


def test_all_configs_come_back_with_their_source(ask: Asker) -> None:
    (row,) = create(ask, 7, new_topic("configured", 1, configs={"retention.ms": "1000"}))
    configs = {one.name: one for one in row.configs}
    assert configs.keys() == TOPIC_CONFIGS.keys()
    assert (configs["retention.ms"].value, configs["retention.ms"].config_source) == ("1000", 1)
    assert (configs["segment.ms"].value, configs["segment.ms"].config_source) == ("604800000", 5)


def test_validating_makes_nothing(ask: Asker) -> None:
    (row,) = create(ask, 7, new_topic("only-looked-at", 3), validate_only=True)
    assert (row.error_code, row.num_partitions, row.topic_id) == (0, 3, NO_TOPIC_ID)
    assert ask.broker.node.engine.topics.catalog.topic("only-looked-at") is None


def test_the_others_are_made_when_one_is_refused(ask: Asker) -> None:
    good, bad = create(ask, 2, new_topic("sound", 1), new_topic("not sound", 1))
    assert (good.error_code, good.error_message) == (0, None)
    assert (bad.error_code, "letters" in bad.error_message) == (17, True)
    assert ask.broker.node.engine.topics.catalog.topic("sound") is not None


@pytest.mark.parametrize(
    ("row", "code", "words"),
    [
        (new_topic("no-partitions", 0), 37, "ask for 1 or more"),
        (new_topic("negative", -2), 37, "ask for 1 or more"),
        (new_topic("far-too-many", 2_000_000), 37, "choose from 1 to"),
        (new_topic("factor", 1, 2), 38, "cluster of 1"),
        (new_topic("no-factor", 1, 0), 38, "or for -1"),
        (new_topic(".."), 17, "cannot be a topic's name"),
        (new_topic("x" * 250), 17, "249 at most"),
        (new_topic("typo", 1, configs={"retention": "1"}), 40, "did you mean retention.ms"),
        (new_topic("wrong", 1, configs={"retention.ms": "long"}), 40, "an integer from -1"),
        (new_topic("null", 1, configs={"retention.ms": None}), 40, "leave it out"),
        (new_topic("both", 2, assignments=[[1], [1]]), 42, "not both"),
        (new_topic("stranger", assignments=[[1], [9]]), 39, "there is no broker 9"),
        (new_topic("nobody", assignments=[[]]), 39, "name one or more"),
    ],
)
def test_what_cannot_be_made_is_refused(ask: Asker, row: object, code: int, words: str) -> None:
    for version in (2, 7):
        (answer,) = create(ask, version, row)
        assert answer.error_code == code
        assert words in answer.error_message
        assert answer.topic_id == NO_TOPIC_ID


def test_a_topic_is_made_once(ask: Asker) -> None:
    ask.create_topic("made-once")
    (row,) = create(ask, 7, new_topic("made-once", 1))
    assert (row.error_code, row.error_message) == (36, "topic made-once exists already")
    (row,) = create(ask, 7, new_topic("made_once.", 1), new_topic("made_once.", 1))
    assert (row.error_code, "more than once" in row.error_message) == (42, True)


def test_assignments_count_for_the_number_of_partitions(ask: Asker) -> None:
    (row,) = create(ask, 7, new_topic("assigned", assignments=[[1], [1], [1]]))
    assert (row.error_code, row.num_partitions, row.replication_factor) == (0, 3, 1)


def test_assignments_name_each_partition_once(ask: Asker) -> None:
    rows = [{"partition_index": index, "broker_ids": [1]} for index in (0, 0)]
    (row,) = create(ask, 7, {**new_topic("twice"), "assignments": rows})
    assert (row.error_code, "from 0 on" in row.error_message) == (39, True)


def test_partitions_are_bounded_by_topic_and_altogether(tmp_path: Path) -> None:
    settings = EngineSettings(topic_partitions_max=5, partitions_max=8)
    with ThreadedBroker(tmp_path, settings) as broker, asking(broker) as ask:
        rows = ask(19, 7, {"topics": [new_topic("a", 6), new_topic("b", 5)]}).topics
        assert [row.error_code for row in rows] == [37, 0]
        assert "5 at most (topics.partitions_max)" in rows[0].error_message
        (row,) = ask(19, 7, {"topics": [new_topic("c", 4)]}).topics
        assert row.error_code == 44
        assert "topics.partitions_total_max" in row.error_message
        (row,) = ask(19, 7, {"topics": [new_topic("c", 3)]}).topics
        assert row.error_code == 0
        for name, count, code in (("b", 6, 37), ("c", 4, 44)):
            grown = [{"name": name, "count": count, "assignments": None}]
            (row,) = ask(37, 3, {"topics": grown, "timeout": 1, "validate_only": False}).results
            assert row.error_code == code, row.error_message
