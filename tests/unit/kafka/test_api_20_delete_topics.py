"""DeleteTopics: by name and by id, one by one."""

from penstock.core.types import NO_TOPIC_ID
from tests.unit.kafka.asking import Asker


def test_topics_go_by_name(ask: Asker) -> None:
    ask.create_topic("goes")
    gone, missing = ask(20, 1, {"topic_names": ["goes", "never-was"], "timeout": 1_000}).responses
    assert (gone.name, gone.error_code) == ("goes", 0)
    assert (missing.name, missing.error_code) == ("never-was", 3)
    assert ask.broker.node.engine.topics.catalog.topic("goes") is None
    (row,) = ask(20, 5, {"topic_names": ["goes"], "timeout": 1_000}).responses
    assert (row.error_code, row.error_message) == (3, "there is no topic 'goes'")


def test_an_id_is_that_very_topic(ask: Asker) -> None:
    first = ask.create_topic("renewed")
    topics = [{"name": None, "topic_id": first}]
    (row,) = ask(20, 6, {"topics": topics, "timeout": 1_000}).responses
    assert (row.name, row.topic_id, row.error_code) == ("renewed", first, 0)
    ask.create_topic("renewed")
    (row,) = ask(20, 6, {"topics": topics, "timeout": 1_000}).responses
    assert (row.name, row.topic_id, row.error_code) == (None, first, 100)
    assert ask.broker.node.engine.topics.catalog.topic("renewed") is not None


def test_a_topic_is_named_once_and_in_one_way(ask: Asker) -> None:
    known = ask.create_topic("stays")
    twice = {"name": "stays", "topic_id": NO_TOPIC_ID}
    topics = [
        twice, twice, {"name": "stays", "topic_id": known}, {"name": None, "topic_id": NO_TOPIC_ID},
    ]  # fmt: skip
    rows = ask(20, 6, {"topics": topics, "timeout": 1_000}).responses
    assert [row.error_code for row in rows] == [42, 42, 42]
    assert [row.error_message for row in rows] == [
        "the topic is named more than once in the request",
        "give the name of a topic or its id, and not both",
        "give the name of a topic or its id, and not both",
    ]
    assert ask.broker.node.engine.topics.catalog.topic("stays") is not None
