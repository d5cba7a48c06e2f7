"""Queue attributes: rules, and the topic configs they stand for."""

from collections.abc import Mapping

import pytest

from penstock.core.topic import Topic
from penstock.core.types import PartitionId, TopicId
from penstock.sqs.attributes import (
    NEW_QUEUE,
    check_queue_attributes,
    describe_queue,
    different_attribute,
    queue_configs,
)
from penstock.sqs.errors import InvalidAttributeName, InvalidAttributeValue, SqsError

REGION = "us-east-1"
CREATED_MS = 1_700_000_000_123
REDRIVE = '{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:000000000000:dead","maxReceiveCount":3}'


def made(attributes: Mapping[str, str], *, fifo: bool = False, partitions: int = 1) -> Topic:
    """A queue with these attributes."""
    checked = check_queue_attributes(attributes, fifo=fifo)
    configs = {**NEW_QUEUE, **queue_configs(checked, None, now_s=CREATED_MS // 1_000)}
    set_configs = {name: value for name, value in configs.items() if value is not None}
    return topic(set_configs, partitions)


def topic(configs: dict[str, str], partitions: int = 1) -> Topic:
    numbers = tuple(map(PartitionId, range(1, partitions + 1)))
    return Topic("orders", TopicId(b"i" * 16), numbers, configs, CREATED_MS)


def changed(before: Topic, attributes: Mapping[str, str], *, now_s: int = 1_700_000_100) -> Topic:
    """A queue after a change."""
    checked = check_queue_attributes(attributes, fifo=before.settings.queue.fifo)
    changes = queue_configs(checked, before, now_s=now_s)
    merged = {**before.configs, **changes}
    set_configs = {name: value for name, value in merged.items() if value is not None}
    return topic(set_configs, len(before.partitions))


# What there is.


def test_a_queue_of_which_nothing_is_said() -> None:
    assert describe_queue(made({}), REGION) == {
        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:orders",
        "CreatedTimestamp": "1700000000",
        "LastModifiedTimestamp": "1700000000",
        "VisibilityTimeout": "30",
        "DelaySeconds": "0",
        "ReceiveMessageWaitTimeSeconds": "0",
        "MessageRetentionPeriod": "345600",
        "MaximumMessageSize": "1048576",
        "SqsManagedSseEnabled": "false",
    }


def test_a_fifo_queue_of_which_nothing_is_said() -> None:
    described = describe_queue(made({"FifoQueue": "true"}, fifo=True), REGION)
    assert described["FifoQueue"] == "true"
    assert described["ContentBasedDeduplication"] == "false"
    assert described["DeduplicationScope"] == "queue"
    assert described["FifoThroughputLimit"] == "perQueue"


def test_a_topic_that_was_made_through_kafka() -> None:
    described = describe_queue(topic({"retention.ms": "-1", "queue.lease.ms": "5500"}), REGION)
    assert described["MessageRetentionPeriod"] == "-1"
    assert described["VisibilityTimeout"] == "5"
    assert described["LastModifiedTimestamp"] == "1700000000"
    assert "FifoQueue" not in described


EVERYTHING = {
    "VisibilityTimeout": "43200",
    "DelaySeconds": "900",
    "ReceiveMessageWaitTimeSeconds": "20",
    "MessageRetentionPeriod": "60",
    "MaximumMessageSize": "1024",
    "Policy": '{"Version":"2012-10-17"}',
    "RedrivePolicy": REDRIVE,
    "RedriveAllowPolicy": '{"redrivePermission":"denyAll"}',
    "KmsMasterKeyId": "alias/key",
    "KmsDataKeyReusePeriodSeconds": "60",
    "FifoQueue": "true",
    "ContentBasedDeduplication": "true",
    "DeduplicationScope": "messageGroup",
    "FifoThroughputLimit": "perMessageGroupId",
}


def test_everything_that_can_be_said_comes_back() -> None:
    queue = made(EVERYTHING, fifo=True)
    described = describe_queue(queue, REGION)
    assert {name: described[name] for name in EVERYTHING} == EVERYTHING
    assert different_attribute(EVERYTHING, queue, REGION) is None


def test_what_is_said_is_what_the_broker_acts_on() -> None:
    settings = made(EVERYTHING, fifo=True).settings
    queue = settings.queue
    assert queue.work_rules.lease_ms == 43_200_000
    assert queue.queue_rules.delay_ms == 900_000
    assert queue.wait_ms == 20_000
    assert settings.retention_ms == 60_000
    assert queue.work_rules.deliveries_max == 3
    assert queue.dead_letter_topic == "dead"
    assert queue.work_rules.dead.name == "MOVE"
    assert queue.fifo
    assert queue.queue_rules.deduplication.name == "CONTENT"
    assert queue.queue_rules.deduplication_by_group
    assert queue.delete_acked
    assert queue.queue_rules.delivery_headers
    assert settings.message_bytes_max > 1_048_576


# What there may be.


@pytest.mark.parametrize(
    ("name", "least", "most"),
    [
        ("VisibilityTimeout", 0, 43_200),
        ("DelaySeconds", 0, 900),
        ("ReceiveMessageWaitTimeSeconds", 0, 20),
        ("MessageRetentionPeriod", 60, 1_209_600),
        ("MaximumMessageSize", 1_024, 1_048_576),
        ("KmsDataKeyReusePeriodSeconds", 60, 86_400),
    ],
)
def test_numbers_have_bounds(name: str, least: int, most: int) -> None:
    for value in (least, most):
        assert check_queue_attributes({name: str(value)}, fifo=False) == {name: str(value)}
    for text in (str(least - 1), str(most + 1), "x", "", "1.5", "²", "9" * 40):
        with pytest.raises(InvalidAttributeValue) as caught:
            check_queue_attributes({name: text}, fifo=False)
        assert caught.value.message == f"Invalid value for the parameter {name}."


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SqsManagedSseEnabled", "yes"),
        ("ContentBasedDeduplication", "1"),
        ("FifoQueue", "maybe"),
        ("DeduplicationScope", "topic"),
        ("FifoThroughputLimit", "perMessage"),
        ("Policy", "no JSON"),
        ("Policy", "[]"),
        ("RedrivePolicy", "[]"),
        ("RedriveAllowPolicy", "[]"),
    ],
)
def test_values_that_are_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidAttributeValue, match=f"^Invalid value for the parameter {name}."):
        check_queue_attributes({name: value}, fifo=True)


@pytest.mark.parametrize(
    "name", ["Nonsense", "All", "QueueArn", "ApproximateNumberOfMessages", "CreatedTimestamp"]
)
def test_names_that_cannot_be_set(name: str) -> None:
    for fifo in (False, True):
        with pytest.raises(InvalidAttributeName) as caught:
            check_queue_attributes({name: "1"}, fifo=fifo)
        assert caught.value.message == f"Unknown Attribute {name}."


def test_what_only_fifo_queues_have() -> None:
    for name, value in (("FifoQueue", "false"), ("ContentBasedDeduplication", "true")):
        with pytest.raises(InvalidAttributeName, match=f"^Unknown Attribute {name}.$"):
            check_queue_attributes({name: value}, fifo=False)
    for name, value in (("DeduplicationScope", "queue"), ("FifoThroughputLimit", "perQueue")):
        with pytest.raises(InvalidAttributeName) as caught:
            check_queue_attributes({name: value}, fifo=False)
        assert caught.value.message == (
            f"You can specify the {name} only when FifoQueue is set to true."
        )


def test_a_fifo_queue_stays_one() -> None:
    with pytest.raises(InvalidAttributeValue) as caught:
        check_queue_attributes({"FifoQueue": "false"}, fifo=True)
    assert caught.value.message == (
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported."
    )


def test_high_throughput_needs_ids_that_count_per_group() -> None:
    high = {"FifoQueue": "true", "FifoThroughputLimit": "perMessageGroupId"}
    with pytest.raises(InvalidAttributeValue, match="the DeduplicationScope must be messageGroup"):
        made(high, fifo=True)
    queue = made({**high, "DeduplicationScope": "messageGroup"}, fifo=True)
    with pytest.raises(InvalidAttributeValue, match="must be messageGroup"):
        changed(queue, {"DeduplicationScope": "queue"})
    slow = changed(queue, {"DeduplicationScope": "queue", "FifoThroughputLimit": "perQueue"})
    assert describe_queue(slow, REGION)["DeduplicationScope"] == "queue"


def test_ids_of_several_partitions_count_per_group() -> None:
    queue = made(
        {"FifoQueue": "true", "DeduplicationScope": "messageGroup"}, fifo=True, partitions=3
    )
    with pytest.raises(InvalidAttributeValue, match="several partitions"):
        changed(queue, {"DeduplicationScope": "queue"})


# Changes.


def test_a_change_leaves_the_rest() -> None:
    before = made({"VisibilityTimeout": "7", "Policy": "{}", "MaximumMessageSize": "2048"})
    after = describe_queue(changed(before, {"DelaySeconds": "4"}), REGION)
    expected = describe_queue(before, REGION)
    assert after == {**expected, "DelaySeconds": "4", "LastModifiedTimestamp": "1700000100"}


def test_what_is_empty_is_taken_away() -> None:
    before = made({"Policy": "{}", "RedrivePolicy": REDRIVE, "KmsMasterKeyId": "k"})
    after = changed(before, {"Policy": "", "RedrivePolicy": "", "KmsMasterKeyId": ""})
    described = describe_queue(after, REGION)
    assert not {"Policy", "RedrivePolicy", "KmsMasterKeyId"} & described.keys()
    assert after.settings.queue.work_rules.deliveries_max == 0


def test_one_kind_of_encryption_at_a_time() -> None:
    with_key = made({"KmsMasterKeyId": "k", "KmsDataKeyReusePeriodSeconds": "300"})
    described = describe_queue(with_key, REGION)
    assert described["SqsManagedSseEnabled"] == "false"
    assert "KmsDataKeyReusePeriodSeconds" not in described
    with pytest.raises(InvalidAttributeName, match="one type of server-side encryption"):
        changed(with_key, {"SqsManagedSseEnabled": "true"})
    switched = changed(with_key, {"KmsMasterKeyId": "", "SqsManagedSseEnabled": "true"})
    assert describe_queue(switched, REGION)["SqsManagedSseEnabled"] == "true"


# Comparing.


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"VisibilityTimeout": "030"},
        {"MessageRetentionPeriod": "345600", "DelaySeconds": "0"},
        {"Policy": ""},
        {"RedrivePolicy": ""},
        {"SqsManagedSseEnabled": "False"},
        {"KmsDataKeyReusePeriodSeconds": "300"},
    ],
)
def test_the_same_queue_again(attributes: dict[str, str]) -> None:
    checked = check_queue_attributes(attributes, fifo=False)
    assert different_attribute(checked, made({}), REGION) is None


def test_json_may_be_written_otherwise() -> None:
    queue = made({"RedrivePolicy": REDRIVE, "Policy": '{"a":1,"b":2}'})
    same = {
        "RedrivePolicy": '{ "maxReceiveCount": "3",'
        ' "deadLetterTargetArn": "arn:aws:sqs:eu-west-1:000000000000:dead" }',
        "Policy": '{"b": 2, "a": 1}',
    }
    assert different_attribute(check_queue_attributes(same, fifo=False), queue, REGION) is None


@pytest.mark.parametrize(
    ("attributes", "name"),
    [
        ({"DelaySeconds": "2"}, "DelaySeconds"),
        ({"DelaySeconds": "0", "VisibilityTimeout": "31"}, "VisibilityTimeout"),
        ({"Policy": '{"a":1}'}, "Policy"),
        ({"RedrivePolicy": REDRIVE}, "RedrivePolicy"),
        ({"MaximumMessageSize": "262144"}, "MaximumMessageSize"),
    ],
)
def test_another_queue(attributes: dict[str, str], name: str) -> None:
    checked = check_queue_attributes(attributes, fifo=False)
    assert different_attribute(checked, made({}), REGION) == name


def test_a_fifo_queue_where_there_is_a_standard_one() -> None:
    checked = check_queue_attributes({"FifoQueue": "true"}, fifo=True)
    assert different_attribute(checked, made({}), REGION) == "FifoQueue"


def test_every_refusal_is_an_answer() -> None:
    with pytest.raises(SqsError):
        check_queue_attributes({"Policy": "\ud800"}, fifo=False)
