"""Long requests: rows that repeat are answered once, and no text is too long for its answer."""

import pytest

from tests.unit.kafka.asking import Asker

MANY = 30_000


def test_metadata_has_each_topic_once(ask: Asker) -> None:
    ask.create_topic("long-metadata", 3)
    topics = [{"name": "long-metadata"}, {"name": "nowhere"}] * MANY
    answer = ask(3, 9, {"topics": topics, "allow_auto_topic_creation": False})
    assert [(row.name, row.error_code) for row in answer.topics] == [
        ("long-metadata", 0),
        ("nowhere", 3),
    ]


def test_configs_of_a_topic_are_described_once(ask: Asker) -> None:
    ask.create_topic("long-configs")
    resource = {"resource_type": 2, "resource_name": "long-configs", "configuration_keys": None}
    (row,) = ask(32, 4, {"resources": [resource] * MANY}).results
    assert row.error_code == 0


def test_committed_offsets_are_answered_once(ask: Asker) -> None:
    ask.create_topic("long-offsets", 2)
    ask.commit("long-offsets", "long-offsets", {0: 5, 1: 6})
    topic = {"name": "long-offsets", "partition_indexes": [1, 0] * MANY}
    group = {"group_id": "long-offsets", "topics": [topic, topic]}
    (row,) = ask(9, 8, {"groups": [group, group]}).groups
    (found,) = row.topics
    offsets = [(one.partition_index, one.committed_offset) for one in found.partitions]
    assert offsets == [(1, 6), (0, 5)]


def test_a_large_commit_is_stored_by_several_commands(ask: Asker) -> None:
    ask.create_topic("long-commit", 2_000)
    offsets = {index: index + 7 for index in range(2_000)}
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": ""}
        for index, offset in offsets.items()
    ]
    topics = [{"name": "long-commit", "partitions": rows}] * 6
    answer = ask(8, 9, {"group_id": "long-commit", "topics": topics})
    assert {one.error_code for topic in answer.topics for one in topic.partitions} == {0}
    assert ask.committed("long-commit", "long-commit", range(2_000)) == offsets


@pytest.mark.parametrize("key", [15, 77])
def test_groups_are_described_once(ask: Asker, key: int) -> None:
    name = "groups" if key == 15 else "group_ids"
    version = 5 if key == 15 else 1
    answer = ask(key, version, {name: ["long-group"] * MANY, "include_authorized_operations": 0})
    assert [row.group_id for row in answer.groups] == ["long-group"]


def test_records_of_a_partition_are_deleted_once(ask: Asker) -> None:
    ask.create_topic("long-delete")
    ask.produce("long-delete", count=9)
    rows = [{"partition_index": 0, "offset": offset} for offset in [2] * MANY + [4]]
    topics = [{"name": "long-delete", "partitions": rows}]
    (topic,) = ask(21, 1, {"topics": topics, "timeout": 10_000}).topics
    (row,) = topic.partitions
    assert (row.error_code, row.low_watermark) == (0, 4)


def test_lists_that_only_members_can_fill_are_bounded(ask: Asker) -> None:
    member = {"member_id": "m", "group_instance_id": None}
    left = ask(13, 3, {"group_id": "long-leave", "members": [member] * 10_001})
    assert left.error_code == 42
    protocols = [{"name": "p", "metadata": b""}] * 65
    joined = ask(
        11, 7,
        {
            "group_id": "long-join", "session_timeout": 10_000, "rebalance_timeout": 10_000,
            "member_id": "", "protocol_type": "consumer", "protocols": protocols,
        },
    )  # fmt: skip
    assert joined.error_code == 42


@pytest.mark.parametrize("version", range(7))
def test_a_coordinators_key_may_be_as_long_as_a_string(ask: Asker, version: int) -> None:
    key = "k" * 32_767
    for kind in (1, 2, 9) if version else (0,):
        named = {"coordinator_keys": [key]} if version >= 4 else {"key": key}
        answer = ask(10, version, {**named, "key_type": kind})
        row = answer.coordinators[0] if version >= 4 else answer
        assert row.error_code != 0 or version == 0
        assert len(row.error_message or "") < 2_000
