"""DescribeTopicPartitions: pages of topics that fit together."""

from penstock.core.types import NO_TOPIC_ID
from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker

Place = tuple[str, int]


def page(
    ask: Asker, names: list[str], *, limit: int = 2_000, cursor: Place | None = None
) -> Message:
    fields = {
        "topics": [{"name": name} for name in names],
        "response_partition_limit": limit,
        "cursor": cursor and {"topic_name": cursor[0], "partition_index": cursor[1]},
    }
    return ask(75, 0, fields)


def places(answer: Message) -> list[Place]:
    return [
        (topic.name, row.partition_index) for topic in answer.topics for row in topic.partitions
    ]


def following(answer: Message) -> Place | None:
    cursor = answer.next_cursor
    return None if cursor is None else (cursor.topic_name, cursor.partition_index)


def test_a_topic_and_its_partitions(ask: Asker) -> None:
    known = ask.create_topic("paged", 2)
    answer = page(ask, ["paged"])
    (topic,) = answer.topics
    assert (topic.name, topic.topic_id, topic.error_code) == ("paged", known, 0)
    assert (topic.is_internal, following(answer)) == (False, None)
    for index, row in enumerate(topic.partitions):
        assert (row.partition_index, row.error_code, row.leader_id) == (index, 0, 1)
        assert row.leader_epoch >= 1
        assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ((1,), (1,), ())


def test_topics_of_the_cluster_itself_are_internal(ask: Asker) -> None:
    ask.create_topic("__paged", 1)
    ask.create_topic("__consumer_offsets", 1)
    (own, other) = page(ask, ["__consumer_offsets", "__paged"]).topics
    assert (own.is_internal, other.is_internal) == (True, False)


def test_pages_fit_together_whatever_their_size(ask: Asker) -> None:
    names = [f"page-{letter}" for letter in "cab"]
    for name, partitions in zip(names, (3, 1, 4), strict=True):
        ask.create_topic(name, partitions)
    whole = places(page(ask, names))
    assert whole == sorted(whole)
    assert len(whole) == 8
    for limit in (-1, 1, 2, 3, 4, 7, 8, 9):
        seen: list[Place] = []
        cursor: Place | None = None
        while True:
            answer = page(ask, names, limit=limit, cursor=cursor)
            assert 1 <= len(places(answer)) <= max(1, limit)
            seen += places(answer)
            cursor = following(answer)
            if cursor is None:
                break
        assert seen == whole


def test_no_names_are_all_topics(ask: Asker) -> None:
    ask.create_topic("among-all")
    names = [topic.name for topic in page(ask, []).topics]
    assert names == sorted(ask.broker.node.engine.topics.catalog.topics)


def test_topics_that_are_not_there_have_errors(ask: Asker) -> None:
    ask.create_topic("there")
    rows = page(ask, ["there", "not-there", "not/there"]).topics
    assert [(row.name, row.error_code) for row in rows] == [
        ("not-there", 3),
        ("not/there", 17),
        ("there", 0),
    ]
    assert rows[0].topic_id == NO_TOPIC_ID


def test_a_cursor_survives_the_deletion_of_its_topic(ask: Asker) -> None:
    ask.create_topic("cursor-b", 2)
    answer = page(ask, [], cursor=("cursor-a", 1))
    assert places(answer)[:2] == [("cursor-b", 0), ("cursor-b", 1)]


def test_a_cursor_has_no_negative_partition(ask: Asker) -> None:
    rows = page(ask, [], cursor=("cursor-b", -1)).topics
    assert [(row.name, row.error_code) for row in rows] == [("cursor-b", 42)]
