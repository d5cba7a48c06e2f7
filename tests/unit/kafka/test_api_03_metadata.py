"""Metadata: who is there, who leads, and topics that are made on the way."""

import pytest

from penstock.kafka.codec import Message
from tests.unit.kafka.asking import Asker

ALL = range(14)


def names(answer: Message) -> dict[str, int]:
    return {row.name: row.error_code for row in answer.topics}


@pytest.mark.parametrize("version", ALL)
def test_a_topic_and_its_broker(ask: Asker, version: int) -> None:
    name = f"meta-{version}"
    topic_id = ask.create_topic(name, 3)
    answer = ask(3, version, {"topics": [{"name": name, "topic_id": bytes(16)}]})
    (broker,) = answer.brokers
    assert (broker.node_id, broker.host, broker.port) == (1, ask.broker.host, ask.broker.port)
    engine = ask.broker.node.engine
    assert answer.cluster_id == (engine.topics.cluster_id if version >= 2 else None)
    assert answer.controller_id == (1 if version >= 1 else -1)
    (topic,) = answer.topics
    assert (topic.error_code, topic.name) == (0, name)
    assert topic.topic_id == (topic_id if version >= 10 else bytes(16))
    assert [row.partition_index for row in topic.partitions] == [0, 1, 2]
    for row in topic.partitions:
        assert (row.error_code, row.leader_id) == (0, 1)
        assert (row.replica_nodes, row.isr_nodes, row.offline_replicas) == ((1,), (1,), ())
        assert (row.leader_epoch >= 1) == (version >= 7)


@pytest.mark.parametrize("version", ALL)
def test_all_topics(ask: Asker, version: int) -> None:
    ask.create_topic(f"meta-all-{version}")
    answer = ask(3, version, {"topics": [] if version == 0 else None})
    assert names(answer).keys() == ask.broker.node.engine.topics.catalog.topics.keys()
    assert set(names(answer).values()) == {0}
    if version > 0:
        assert ask(3, version, {"topics": []}).topics == ()


@pytest.mark.parametrize("version", ALL)
def test_topics_of_the_cluster_itself_are_internal(ask: Asker, version: int) -> None:
    for name in ("__consumer_offsets", "__debezium-heartbeat", "_meta", "meta"):
        if ask.broker.node.engine.topics.catalog.topic(name) is None:
            ask.create_topic(name)
    answer = ask(3, version, {"topics": [] if version == 0 else None})
    internal = {row.name for row in answer.topics if row.is_internal}
    assert internal == ({"__consumer_offsets"} if version >= 1 else set())


@pytest.mark.parametrize("version", ALL)
def test_an_unknown_topic_is_made_if_the_client_wants_it(ask: Asker, version: int) -> None:
    name = f"meta-new-{version}"
    wanted = [{"name": name, "topic_id": bytes(16)}]
    if version >= 4:
        refused = ask(3, version, {"topics": wanted, "allow_auto_topic_creation": False})
        assert names(refused) == {name: 3}
        assert ask.broker.node.engine.topics.catalog.topic(name) is None
    (topic,) = ask(3, version, {"topics": wanted, "allow_auto_topic_creation": True}).topics
    assert topic.error_code == 0
    assert len(topic.partitions) == ask.broker.node.engine.topics.settings.default_partitions
    ask.produce(name, 3)


@pytest.mark.parametrize("version", [0, 1, 5, 9, 12, 13])
def test_a_name_no_topic_may_have(ask: Asker, version: int) -> None:
    for allowed in (True, False):
        wanted = [{"name": bad, "topic_id": bytes(16)} for bad in ("", "a b", ".", "x" * 250)]
        answer = ask(3, version, {"topics": wanted, "allow_auto_topic_creation": allowed})
        assert {row.error_code for row in answer.topics} == {17}


@pytest.mark.parametrize("version", [12, 13])
def test_topics_by_id(ask: Asker, version: int) -> None:
    topic_id = ask.create_topic(f"meta-id-{version}")
    wanted = [{"name": None, "topic_id": topic_id}, {"name": None, "topic_id": b"\x01" * 16}]
    known, unknown = ask(3, version, {"topics": wanted}).topics
    assert (known.error_code, known.name, known.topic_id) == (0, f"meta-id-{version}", topic_id)
    assert (unknown.error_code, unknown.name, unknown.topic_id) == (100, None, b"\x01" * 16)
    # The Java client leaves its default there, an empty name.
    by_both = ask(3, version, {"topics": [{**one, "name": ""} for one in wanted]})
    assert by_both.topics == (known, unknown)


def test_operations_are_told_when_asked_for(ask: Asker) -> None:
    ask.create_topic("meta-rights")
    wanted = {"topics": [{"name": "meta-rights"}]}
    answer = ask(3, 8, wanted)
    assert answer.cluster_authorized_operations == -(1 << 31)
    assert answer.topics[0].topic_authorized_operations == -(1 << 31)
    both = {
        "include_cluster_authorized_operations": True,
        "include_topic_authorized_operations": True,
    }
    answer = ask(3, 8, {**wanted, **both})
    assert answer.cluster_authorized_operations > 0
    assert answer.topics[0].topic_authorized_operations > 0


def test_answers_are_kept_until_something_changes(ask: Asker) -> None:
    ask.create_topic("meta-kept")
    wanted = {"topics": [{"name": "meta-kept"}]}
    cache = ask.broker.listener._port_state.metadata_cache
    first = ask(3, 7, wanted)
    held = cache._held_bytes
    assert held > 0
    assert ask(3, 7, wanted) == first
    assert cache._held_bytes == held
    ask(37, 0, {"topics": [{"name": "meta-kept", "count": 7, "assignments": None}]})
    assert len(ask(3, 7, wanted).topics[0].partitions) == 7
    ask(20, 1, {"topic_names": ["meta-kept"]})
    answer = ask(3, 7, {**wanted, "allow_auto_topic_creation": False})
    assert names(answer) == {"meta-kept": 3}
