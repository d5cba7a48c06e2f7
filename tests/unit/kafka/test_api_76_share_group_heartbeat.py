"""ShareGroupHeartbeat: joining, staying, leaving; share groups in lists and descriptions."""

from base64 import urlsafe_b64encode

import pytest

from tests.unit.kafka.asking import Asker
from tests.unit.kafka.share_member import ShareMember, rows_of

SHARE_DESCRIBE = 77


def assigned(ask: Asker, one: ShareMember, *topics: str) -> dict[str, tuple[int, ...]] | None:
    """What a heartbeat says about partitions, by topic."""
    answer = one.heartbeat(*topics)
    assert answer.error_code == 0, answer.error_message
    if answer.assignment is None:
        return None
    catalog = ask.broker.node.engine.topics.catalog
    return {
        topic.name: tuple(row.partitions)
        for row in answer.assignment.topic_partitions
        if (topic := catalog.topic_by_id(row.topic_id)) is not None
    }


def test_members_share_out_the_partitions(ask: Asker) -> None:
    ask.create_topic("shared", partitions=4)
    one, two = ShareMember(ask, "sharers", "one"), ShareMember(ask, "sharers", "two")
    assert assigned(ask, one, "shared") == {"shared": (0, 1, 2, 3)}
    answer = one.heartbeat()
    assert (answer.member_id, answer.member_epoch, answer.assignment) == ("one", 1, None)
    assert answer.heartbeat_interval == 5_000
    assert assigned(ask, two, "shared") == {"shared": (1, 3)}
    assert assigned(ask, one) == {"shared": (0, 2)}
    assert two.heartbeat(epoch=-1).member_epoch == -1
    assert assigned(ask, one) == {"shared": (0, 1, 2, 3)}


def test_what_a_member_is_told_when_it_is_wrong(ask: Asker) -> None:
    one = ShareMember(ask, "wrong")
    assert one.heartbeat(epoch=3).error_code == 25
    assert one.heartbeat(epoch=-1).error_code == 25
    assert one.heartbeat(epoch=0).error_code == 42
    assert one.heartbeat("wrong").error_code == 0
    assert one.heartbeat(epoch=9).error_code == 110
    assert ShareMember(ask, "").heartbeat("x").error_code == 24
    assert ShareMember(ask, "wrong", "").heartbeat("x").error_code == 42


def test_topics_are_not_made(ask: Asker) -> None:
    one = ShareMember(ask, "makes-nothing")
    assert assigned(ask, one, "not-made") == {}
    assert ask.broker.node.engine.topics.catalog.topic("not-made") is None


def test_a_name_is_of_one_kind(ask: Asker) -> None:
    ask.create_topic("kinds")
    ask.join("classic-kind", "kinds")
    answer = ShareMember(ask, "classic-kind").heartbeat("kinds")
    assert (answer.error_code, "consumer group" in answer.error_message) == (69, True)
    ShareMember(ask, "share-kind").heartbeat("kinds")
    fields = {
        "group_id": "share-kind", "session_timeout": 30_000, "rebalance_timeout": 30_000,
        "member_id": "", "protocol_type": "consumer", "protocols": [],
    }  # fmt: skip
    assert ask(11, 9, fields).error_code == 23


def test_a_group_is_described(ask: Asker) -> None:
    topic_id = ask.create_topic("seen", partitions=2)
    one = ShareMember(ask, "seen", "someone")
    one.heartbeat("seen", "missing")
    rows = ask(
        SHARE_DESCRIBE, 1, {"group_ids": ["seen", "nobody"], "include_authorized_operations": True}
    ).groups
    assert [(row.group_id, row.error_code, row.group_state) for row in rows] == [
        ("seen", 0, "Stable"),
        ("nobody", 69, "Dead"),
    ]
    seen = rows[0]
    assert (seen.group_epoch, seen.assignment_epoch, seen.assignor_name) == (1, 1, "simple")
    assert seen.authorized_operations == 328
    (member,) = seen.members
    assert (member.member_id, member.member_epoch, member.client_id) == ("someone", 1, "test")
    assert (member.client_host, member.rack_id) == ("/127.0.0.1", None)
    assert tuple(member.subscribed_topic_names) == ("missing", "seen")
    (row,) = member.assignment.topic_partitions
    assert (row.topic_id, row.topic_name, tuple(row.partitions)) == (topic_id, "seen", (0, 1))


def test_a_consumer_group_is_no_share_group(ask: Asker) -> None:
    ask.create_topic("other-kind")
    ask.join("other-kind", "other-kind")
    (row,) = ask(SHARE_DESCRIBE, 1, {"group_ids": ["other-kind"]}).groups
    assert (row.error_code, row.group_state) == (69, "Dead")


def listed(ask: Asker, group: str, **filters: object) -> list[tuple[str, str, str]]:
    answer = ask(16, 5, filters)
    return [
        (row.protocol_type, row.group_state, row.group_type)
        for row in answer.groups
        if row.group_id == group
    ]


def described(ask: Asker, group: str) -> tuple[int, str, str, int]:
    (row,) = ask(15, 6, {"groups": [group]}).groups
    return row.error_code, row.group_state, row.protocol_type, len(row.members)


def test_the_life_of_a_group_in_lists(ask: Asker) -> None:
    group, here = "living", (ask.create_topic("living"), 0)
    one = ShareMember(ask, group)
    assert listed(ask, group) == []
    assert described(ask, group) == (69, "Dead", "", 0)
    one.heartbeat("living")
    assert listed(ask, group) == [("share", "Stable", "share")]
    assert listed(ask, group, types_filter=["Share"], states_filter=["stable"])
    assert listed(ask, group, types_filter=["classic"]) == []
    assert described(ask, group) == (0, "Stable", "share", 1)
    assert ask(42, 2, {"groups_names": [group]}).results[0].error_code == 68
    rows_of(one.fetch(here))
    one.heartbeat(epoch=-1)
    assert listed(ask, group) == [("share", "Empty", "share")]
    assert described(ask, group) == (0, "Empty", "share", 0)
    (row,) = ask(SHARE_DESCRIBE, 1, {"group_ids": [group]}).groups
    assert (row.error_code, row.group_state, row.members) == (0, "Empty", ())
    assert ask(42, 2, {"groups_names": [group]}).results[0].error_code == 0
    assert listed(ask, group) == []
    assert ask(42, 2, {"groups_names": [group]}).results[0].error_code == 69


def test_the_default_work_group_is_listed_only_if_joined(ask: Asker) -> None:
    ask.create_topic("sqs", configs={"queue.lease.ms": "7000"})
    assert listed(ask, "queue") == []
    one = ShareMember(ask, "queue")
    one.heartbeat("sqs")
    assert listed(ask, "queue") == [("share", "Stable", "share")]
    one.heartbeat(epoch=-1)


def test_a_share_partition_is_looked_after_by_its_leader(ask: Asker) -> None:
    topic_id = ask.create_topic("looked-after")
    name = urlsafe_b64encode(topic_id).decode().rstrip("=")
    keys = [
        f"g:{name}:0",
        f"g:with:colons:{name}:0",
        f"g:{name}:7",
        f"g:{name}",
        "g:?:0",
        f":{name}:0",
    ]
    rows = ask(10, 6, {"coordinator_keys": keys, "key_type": 2}).coordinators
    assert [(row.error_code, row.node_id) for row in rows] == [(0, 1), (0, 1), *[(42, -1)] * 4]


@pytest.mark.parametrize("version", [0, 2, 3, 4])
def test_share_groups_are_a_feature(ask: Asker, version: int) -> None:
    answer = ask(18, version, {})
    keys = {row.api_key for row in answer.api_keys}
    assert keys >= {74, 76, 77, 78, 79, 90, 91, 92}
    if version < 3:
        return
    (feature,) = answer.finalized_features
    assert (feature.name, feature.max_version_level) == ("share.version", 1)
    assert answer.finalized_features_epoch == 0
    (feature,) = answer.supported_features
    assert (feature.name, feature.min_version, feature.max_version) == ("share.version", 0, 1)
