"""DescribeShareGroupOffsets, AlterShareGroupOffsets, DeleteShareGroupOffsets."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.share_member import ACCEPT, ShareMember, acquired, rows_of

DESCRIBE, ALTER, DELETE = 90, 91, 92


@pytest.fixture
def group(ask: Asker, request: pytest.FixtureRequest) -> str:
    """A group without members that has done two of five messages of partition 0, of two."""
    name: str = request.node.name.split("[")[0].removeprefix("test_")
    here = (ask.create_topic(name, partitions=2), 0)
    ask.produce(name, count=5)
    ask.configure_group(name, {"share.auto.offset.reset": "earliest"})
    one = ShareMember(ask, name)
    one.fetch(here, records=2, exact=True)
    one.fetch(records=0, acks={here: [(0, 1, ACCEPT)]})
    one.fetch(epoch=-1)
    return name


def describe(ask: Asker, group: str, *topics: tuple[str, list[int]], version: int = 1) -> Message:
    rows = [{"topic_name": name, "partitions": indexes} for name, indexes in topics]
    asked = {"group_id": group, "topics": rows or None}
    row: Message = ask(DESCRIBE, version, {"groups": [asked]}).groups[0]
    return row


def places(row: Message) -> dict[tuple[str, int], tuple[int, int, int]]:
    assert row.error_code == 0, row.error_message
    return {
        (topic.topic_name, one.partition_index): (one.error_code, one.start_offset, one.lag)
        for topic in row.topics
        for one in topic.partitions
    }


def alter(ask: Asker, group: str, topic: str, offsets: dict[int, int]) -> Message:
    rows = [{"partition_index": index, "start_offset": at} for index, at in offsets.items()]
    topics = [{"topic_name": topic, "partitions": rows}]
    return ask(ALTER, 0, {"group_id": group, "topics": topics})


def test_offsets_are_shown(ask: Asker, group: str) -> None:
    wanted = {(group, 0): (0, 2, 3), (group, 1): (0, 0, 0)}
    assert places(describe(ask, group)) == wanted
    assert places(describe(ask, group, (group, [0, 1]))) == wanted
    row = describe(ask, group, (group, [7]), ("missing", [0]))
    assert places(row) == {(group, 7): (3, -1, -1), ("missing", 0): (3, -1, -1)}
    ask.create_topic(f"{group}-unread")
    row = describe(ask, group, (f"{group}-unread", [0]))
    assert places(row) == {(f"{group}-unread", 0): (0, -1, -1)}
    (topic,) = describe(ask, group, (group, [0]), version=0).topics
    assert (topic.partitions[0].start_offset, topic.partitions[0].lag) == (2, -1)
    assert topic.topic_id == ask.broker.node.engine.topics.topic(group).topic_id


def test_groups_that_are_not_there(ask: Asker) -> None:
    ask.create_topic("unread")
    assert places(describe(ask, "nobody")) == {}
    assert places(describe(ask, "nobody", ("unread", [0]))) == {("unread", 0): (0, -1, -1)}
    assert describe(ask, "queue").error_code == 69, "the default work group is no share group"
    assert alter(ask, "queue", "unread", {0: 0}).error_code == 69
    assert ask(DELETE, 0, {"group_id": "nobody", "topics": []}).error_code == 69
    ask.create_topic("classical")
    ask.join("classical", "classical")
    assert describe(ask, "classical").error_code == 69
    assert alter(ask, "classical", "classical", {0: 0}).error_code == 69


def test_the_start_of_a_group_is_set_before_it_has_members(ask: Asker) -> None:
    here = ask.create_topic("preset"), 0
    ask.produce("preset", count=5)
    (topic,) = alter(ask, "preset", "preset", {0: 3}).responses
    assert topic.partitions[0].error_code == 0
    assert places(describe(ask, "preset")) == {("preset", 0): (0, 3, 2)}
    assert acquired(rows_of(ShareMember(ask, "preset").fetch(here))[here]) == [(3, 4, 1)]


def test_a_group_goes_on_from_another_offset(ask: Asker, group: str) -> None:
    answer = alter(ask, group, group, {0: 1, 1: 0, 7: 0})
    assert answer.error_code == 0
    (topic,) = answer.responses
    assert [(row.partition_index, row.error_code) for row in topic.partitions] == [
        (0, 0),
        (1, 0),
        (7, 3),
    ]
    assert topic.topic_id == ask.broker.node.engine.topics.topic(group).topic_id
    here = (topic.topic_id, 0)
    assert acquired(rows_of(ShareMember(ask, group).fetch(here))[here]) == [(1, 4, 1)]


def test_offsets_out_of_range(ask: Asker, group: str) -> None:
    (topic,) = alter(ask, group, group, {0: 99, 1: -1}).responses
    assert [row.error_code for row in topic.partitions] == [0, 42]
    assert places(describe(ask, group, (group, [0]))) == {(group, 0): (0, 5, 0)}
    (topic,) = alter(ask, group, "missing", {0: 0}).responses
    assert (topic.partitions[0].error_code, topic.topic_id) == (3, bytes(16))


def test_an_unread_topic_is_begun(ask: Asker, group: str) -> None:
    ask.create_topic(f"{group}-other", partitions=2)
    ask.produce(f"{group}-other", count=3)
    (topic,) = alter(ask, group, f"{group}-other", {0: 1}).responses
    assert topic.partitions[0].error_code == 0
    assert places(describe(ask, group, (f"{group}-other", [0, 1]))) == {
        (f"{group}-other", 0): (0, 1, 2),
        (f"{group}-other", 1): (0, -1, -1),
    }
    rows = ask(DELETE, 0, {"group_id": group, "topics": [{"topic_name": f"{group}-other"}]})
    assert rows.responses[0].error_code == 0, "though one partition was never begun"


def test_a_group_forgets_a_topic(ask: Asker, group: str) -> None:
    topics = [{"topic_name": group}, {"topic_name": "missing"}]
    rows = ask(DELETE, 0, {"group_id": group, "topics": topics}).responses
    assert [(row.topic_name, row.error_code) for row in rows] == [(group, 0), ("missing", 3)]
    assert places(describe(ask, group)) == {}, "it was its only topic"
    (described,) = ask(77, 1, {"group_ids": [group]}).groups
    assert (described.error_code, described.group_state) == (0, "Empty")
    listed = ask(16, 5, {"types_filter": ["share"]}).groups
    assert group in {row.group_id for row in listed}
    for code in (0, 69):
        assert ask(42, 2, {"groups_names": [group]}).results[0].error_code == code
    here = (ask.broker.node.engine.topics.topic(group).topic_id, 0)
    assert acquired(rows_of(ShareMember(ask, group).fetch(here))[here]) == [(0, 4, 1)]


def test_members_are_in_the_way(ask: Asker, group: str) -> None:
    ShareMember(ask, group).heartbeat(group)
    assert alter(ask, group, group, {0: 0}).error_code == 68
    answer = ask(DELETE, 0, {"group_id": group, "topics": [{"topic_name": group}]})
    assert answer.error_code == 68
    assert places(describe(ask, group, (group, [0]))) == {(group, 0): (0, 2, 3)}
