"""Consumer groups as clients see them: find, join, sync, beat, commit, fetch, leave."""

import asyncio

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker
from tests.unit.kafka.wire import Connect, Run


def joining(group: str, member: str = "", **more: object) -> dict[str, object]:
    return {
        "group_id": group, "session_timeout": 30_000, "rebalance_timeout": 30_000,
        "member_id": member, "protocol_type": "consumer",
        "protocols": [{"name": "range", "metadata": b"about me"}], **more,
    }  # fmt: skip


def join(ask: Asker, group: str, version: int) -> Message:
    first = ask(11, version, joining(group))
    if version < 4:
        assert first.error_code == 0
        return first
    assert first.error_code == 79
    assert first.member_id
    joined = ask(11, version, joining(group, first.member_id))
    assert (joined.error_code, joined.member_id) == (0, first.member_id)
    return joined


@pytest.mark.parametrize("version", range(7))
def test_the_coordinator_is_found(ask: Asker, version: int) -> None:
    if version >= 4:
        answer = ask(10, version, {"coordinator_keys": ["a", "b"], "key_type": 0})
        rows = answer.coordinators
        assert [row.key for row in rows] == ["a", "b"]
    else:
        rows = [ask(10, version, {"key": "a", "key_type": 0})]
    for row in rows:
        assert (row.error_code, row.node_id, row.host) == (0, 1, "127.0.0.1")
        assert row.port == ask.broker.port
    if version >= 1:
        code = {1: 53, 2: 42}
        for kind, wanted in code.items():
            fields = {"key": "t", "coordinator_keys": ["t"], "key_type": kind}
            if version < 4:
                del fields["coordinator_keys"]
                assert ask(10, version, fields).error_code == wanted
            else:
                del fields["key"]
                assert ask(10, version, fields).coordinators[0].error_code == wanted


@pytest.mark.parametrize("version", range(10))
def test_a_member_joins(ask: Asker, version: int) -> None:
    joined = join(ask, f"join-{version}", version)
    assert joined.generation_id == 1
    assert joined.protocol_name == "range"
    assert joined.leader == joined.member_id
    (member,) = joined.members
    assert (member.member_id, member.metadata) == (joined.member_id, b"about me")
    assert joined.protocol_type == ("consumer" if version >= 7 else None)


@pytest.mark.parametrize("version", range(10))
def test_a_join_is_refused(ask: Asker, version: int) -> None:
    for group, member, code in (("", "m", 24), ("join-no", "m", 25)):
        answer = ask(11, version, joining(group, member))
        assert (answer.error_code, answer.member_id) == (code, member)
        assert (answer.generation_id, answer.members) == (-1, ())
        assert answer.protocol_name == (None if version >= 7 else "")
    answer = ask(11, version, joining("join-no", "", session_timeout=1))
    assert answer.error_code == 26


@pytest.mark.parametrize("version", range(6))
def test_work_is_handed_out(ask: Asker, version: int) -> None:
    group = f"sync-{version}"
    joined = join(ask, group, 5)
    fields = {
        "group_id": group, "generation_id": joined.generation_id, "member_id": joined.member_id,
        "assignments": [{"member_id": joined.member_id, "assignment": b"all of it"}],
    }  # fmt: skip
    synced = ask(14, version, fields)
    assert (synced.error_code, synced.assignment) == (0, b"all of it")
    assert synced.protocol_name == ("range" if version >= 5 else None)
    assert ask(14, version, {**fields, "generation_id": 7}).error_code == 22
    assert ask(14, version, {**fields, "member_id": "nobody"}).error_code == 25


@pytest.mark.parametrize("version", range(5))
def test_a_member_is_still_there(ask: Asker, version: int) -> None:
    group = f"beat-{version}"
    member, generation = ask.join(group, "t")
    fields = {"group_id": group, "generation_id": generation, "member_id": member}
    assert ask(12, version, fields).error_code == 0
    assert ask(12, version, {**fields, "generation_id": 9}).error_code == 22
    assert ask(12, version, {**fields, "member_id": "nobody"}).error_code == 25
    assert ask(12, version, {**fields, "group_id": "beat-nobody"}).error_code == 25


@pytest.mark.parametrize("version", range(6))
def test_members_leave(ask: Asker, version: int) -> None:
    group = f"leave-{version}"
    member, generation = ask.join(group, "t")
    if version < 3:
        assert ask(13, version, {"group_id": group, "member_id": member}).error_code == 0
        assert ask(13, version, {"group_id": group, "member_id": member}).error_code == 25
    else:
        rows = [{"member_id": member}, {"member_id": "nobody"}]
        answer = ask(13, version, {"group_id": group, "members": rows})
        assert answer.error_code == 0
        assert [row.error_code for row in answer.members] == [0, 25]
    fields = {"group_id": group, "generation_id": generation, "member_id": member}
    assert ask(12, 0, fields).error_code == 25


def test_two_members_wait_for_each_other(ask: Asker, connect: Connect, run: Run) -> None:
    member, generation = ask.join("pair", "t")

    async def scenario() -> None:
        async with connect() as other, connect() as beating:
            given = await other.call(11, 5, joining("pair"))
            other.send(11, 5, joining("pair", given.member_id))
            beat = {"group_id": "pair", "generation_id": generation, "member_id": member}
            while (await beating.call(12, 4, beat)).error_code == 0:  # noqa: ASYNC110
                await asyncio.sleep(0)
            assert (await beating.call(12, 4, beat)).error_code == 27
            again = await beating.call(11, 5, joining("pair", member))
            joined = await other.receive()
            assert again.generation_id == joined.generation_id == generation + 1
            leader, follower = (
                (again, joined) if again.leader == again.member_id else (joined, again)
            )
            assert len(leader.members) == 2
            assert follower.members == ()

    run(scenario())


def commit_fields(group: str, topic: str | bytes, *offsets: int) -> dict[str, object]:
    rows = [
        {"partition_index": index, "committed_offset": offset, "committed_metadata": f"m{offset}"}
        for index, offset in enumerate(offsets)
    ]
    named = {"topic_id": topic} if isinstance(topic, bytes) else {"name": topic}
    return {"group_id": group, "topics": [{**named, "partitions": rows}]}


@pytest.mark.parametrize("version", range(2, 11))
def test_offsets_are_remembered(ask: Asker, version: int) -> None:
    name, group = f"commit-{version}", f"committers-{version}"
    topic_id = ask.create_topic(name, 2)
    key = topic_id if version >= 10 else name
    (topic,) = ask(8, version, commit_fields(group, key, 5, 6, 7)).topics
    assert [row.error_code for row in topic.partitions] == [0, 0, 3]
    assert ask.committed(group, name, [0, 1, 2]) == {0: 5, 1: 6, 2: -1}
    unknown: str | bytes = b"\x05" * 16 if version >= 10 else "commit-nowhere"
    (topic,) = ask(8, version, commit_fields(group, unknown, 5)).topics
    assert topic.partitions[0].error_code == (100 if version >= 10 else 3)
    fields = {**commit_fields(group, key, 9), "member_id": "nobody"}
    fields["generation_id_or_member_epoch"] = 4
    (topic,) = ask(8, version, fields).topics
    assert topic.partitions[0].error_code in (22, 25)
    assert ask.committed(group, name, [0]) == {0: 5}


def test_metadata_that_is_too_long_is_refused_alone(ask: Asker) -> None:
    ask.create_topic("commit-long", 2)
    rows = [
        {"partition_index": 0, "committed_offset": 1, "committed_metadata": "x" * 5_000},
        {"partition_index": 1, "committed_offset": 1, "committed_metadata": None},
    ]
    fields = {"group_id": "long", "topics": [{"name": "commit-long", "partitions": rows}]}
    (topic,) = ask(8, 9, fields).topics
    assert [row.error_code for row in topic.partitions] == [12, 0]


@pytest.mark.parametrize("version", range(1, 11))
def test_offsets_are_given_back(ask: Asker, version: int) -> None:
    name, group = f"fetched-{version}", f"fetchers-{version}"
    topic_id = ask.create_topic(name, 3)
    ask(8, 9, commit_fields(group, name, 5, 6))
    named = {"topic_id": topic_id} if version >= 10 else {"name": name}
    asked = {**named, "partition_indexes": [0, 1, 2]}
    found = offsets_of(ask, version, group, [asked])
    (topic,) = found.topics
    assert [row.committed_offset for row in topic.partitions] == [5, 6, -1]
    assert [row.metadata for row in topic.partitions] == ["m5", "m6", ""]
    assert [row.error_code for row in topic.partitions] == [0, 0, 0]
    unknown = {"topic_id": b"\x09" * 16} if version >= 10 else {"name": "fetched-nowhere"}
    found = offsets_of(ask, version, group, [{**unknown, "partition_indexes": [0]}])
    (row,) = found.topics[0].partitions
    assert (row.committed_offset, row.error_code) == (-1, 100 if version >= 10 else 0)
    if version >= 2:
        (topic,) = offsets_of(ask, version, group, None).topics
        assert [row.committed_offset for row in topic.partitions] == [5, 6]
        assert offsets_of(ask, version, "fetchers-nobody", None).topics == ()


def offsets_of(ask: Asker, version: int, group: str, topics: object) -> Message:
    if version < 8:
        return ask(9, version, {"group_id": group, "topics": topics})
    answer = ask(9, version, {"groups": [{"group_id": group, "topics": topics}]})
    (found,) = answer.groups
    assert isinstance(found, Message)
    assert (found.group_id, found.error_code) == (group, 0)
    return found


@pytest.mark.parametrize("version", range(7))
def test_producers_get_an_id_of_their_own(ask: Asker, version: int) -> None:
    ids = {ask(22, version, {"transactional_id": None}).producer_id for _ in range(3)}
    assert len(ids) == 3
    answer = ask(22, version, {"transactional_id": "t", "transaction_timeout": 1_000})
    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (53, -1, -1)
