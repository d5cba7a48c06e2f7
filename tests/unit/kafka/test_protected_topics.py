"""Topics that the cluster keeps for itself are read, and never changed, by clients."""

import pytest

from penstock.core.errors import TopicProtected
from penstock.core.internal_topics import AUDIT_TOPIC, PROTECTED_TOPICS, STAGING_TOPIC
from penstock.core.message import NewMessage
from penstock.core.types import EARLIEST
from tests.batches import build_batch
from tests.kafka_broker import ThreadedBroker
from tests.unit.kafka.asking import Asker, new_topic

TOPIC_AUTHORIZATION_FAILED = 29
INVALID_TOPIC_EXCEPTION = 17


@pytest.fixture(params=[AUDIT_TOPIC, STAGING_TOPIC])
def name(request: pytest.FixtureRequest, broker: ThreadedBroker) -> str:
    assert broker.broker is not None
    topics = broker.broker.node.engine.topics
    if topics.catalog.topic(request.param) is None:
        broker.call(topics.create_topic(request.param, 1, {}, internal=True))
    return str(request.param)


@pytest.mark.parametrize("name_made", sorted(PROTECTED_TOPICS))
def test_only_the_cluster_makes_them(ask: Asker, name_made: str) -> None:
    (row,) = ask(19, 7, {"topics": [new_topic(name_made)]}).topics
    assert row.error_code == INVALID_TOPIC_EXCEPTION
    assert "makes itself" in row.error_message


@pytest.mark.parametrize("version", [3, 9, 13])
def test_nothing_is_produced_to_them(ask: Asker, name: str, version: int) -> None:
    topic = ask.broker.node.engine.topics.topic(name)
    rows = [{"index": 0, "records": bytes(build_batch(1))}]
    data = [{"name": name, "topic_id": topic.topic_id, "partition_data": rows}]
    (answer,) = ask(0, version, {"acks": -1, "timeout": 1, "topic_data": data}).responses
    assert answer.partition_responses[0].error_code == TOPIC_AUTHORIZATION_FAILED


def test_they_are_not_deleted_grown_configured_or_trimmed(ask: Asker, name: str) -> None:
    (row,) = ask(20, 6, {"topics": [{"name": name, "topic_id": bytes(16)}], "timeout": 1}).responses
    assert row.error_code == TOPIC_AUTHORIZATION_FAILED
    grown = [{"name": name, "count": 9, "assignments": None}]
    (row,) = ask(37, 3, {"topics": grown, "timeout": 1, "validate_only": False}).results
    assert row.error_code == TOPIC_AUTHORIZATION_FAILED
    change = [{"name": "retention.ms", "config_operation": 0, "value": "1"}]
    resource = {"resource_type": 2, "resource_name": name, "configs": change}
    (row,) = ask(44, 1, {"resources": [resource], "validate_only": False}).responses
    assert row.error_code == TOPIC_AUTHORIZATION_FAILED
    trimmed = {"name": name, "partitions": [{"partition_index": 0, "offset": -1}]}
    (topic,) = ask(21, 1, {"topics": [trimmed], "timeout": 1}).topics
    assert topic.partitions[0].error_code == TOPIC_AUTHORIZATION_FAILED


def test_they_are_read(ask: Asker, name: str) -> None:
    part = {"partition": 0, "fetch_offset": 0, "partition_max_bytes": 100}
    fields = {
        "max_wait": 0, "min_bytes": 1, "topics": [{"topic": name, "partitions": [part]}],
        "forgotten_topics_data": [],
    }  # fmt: skip
    assert ask(1, 12, fields).responses[0].partitions[0].error_code == 0


def test_they_are_no_queues(broker: ThreadedBroker, name: str) -> None:
    assert broker.broker is not None
    node = broker.broker.node
    topic = node.engine.topics.topic(name)
    delivery = node.engine.delivery
    for work in (
        delivery.open(topic, "group", start=EARLIEST),
        delivery.purge(topic),
        delivery.receive(topic),
        delivery.send(topic, [NewMessage(b"forged")], index=0, protocol="sqs"),
    ):
        with pytest.raises(TopicProtected):
            broker.call(work)


def test_the_cluster_itself_writes_them(broker: ThreadedBroker, name: str) -> None:
    assert broker.broker is not None
    node = broker.broker.node
    topic = node.engine.topics.topic(name)
    (sent,) = broker.call(node.engine.delivery.send(topic, [NewMessage(b"line")], index=0))
    assert sent.offset >= 0
