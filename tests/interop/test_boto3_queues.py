"""boto3: queues are made, described, changed, listed, purged and deleted, as on Amazon."""

import json
from collections.abc import Callable, Iterator

import pytest

from tests.sqs_broker import REGION, SqsBroker, refused, sqs_broker

pytestmark = pytest.mark.slow

NONE_SUCH = "AWS.SimpleQueueService.NonExistentQueue"


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


# Making.


def test_a_queue_is_made_and_found(sqs: SqsBroker) -> None:
    url = sqs.create("made")
    assert url == f"{sqs.url}/000000000000/made"
    assert sqs.client.get_queue_url(QueueName="made")["QueueUrl"] == url
    found = sqs.attributes(url)
    assert found["QueueArn"] == f"arn:aws:sqs:{REGION}:000000000000:made"
    assert found["VisibilityTimeout"] == "30"
    assert found["MaximumMessageSize"] == "1048576"
    assert found["MessageRetentionPeriod"] == "345600"
    assert found["ApproximateNumberOfMessages"] == "0"
    assert sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "0"}
    assert "Attributes" not in sqs.client.get_queue_attributes(QueueUrl=url)


def test_a_queue_is_made_again_if_it_is_the_same(sqs: SqsBroker) -> None:
    url = sqs.create("again", DelaySeconds="1", VisibilityTimeout="20")
    assert sqs.create("again", VisibilityTimeout="20", DelaySeconds="1") == url
    assert sqs.create("again") == url
    with refused(
        "QueueAlreadyExists",
        "A queue already exists with the same name and a different value for attribute"
        " DelaySeconds",
        shape="QueueNameExists",
    ):
        sqs.create("again", DelaySeconds="2")


@pytest.mark.parametrize("name", ["", "a b", "x" * 81, "dots.in.it", "name.fifo", None])
def test_names_that_no_queue_may_have(sqs: SqsBroker, name: str | None) -> None:
    with refused(
        "InvalidParameterValue",
        "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length",
        shape="InvalidParameterValueException",
    ):
        sqs.client.create_queue(QueueName=name)


def test_a_fifo_queue_says_so_twice(sqs: SqsBroker) -> None:
    with refused("InvalidParameterValue", "must end with .fifo suffix"):
        sqs.create("no-suffix", FifoQueue="true")
    with refused("InvalidAttributeName", "Unknown Attribute FifoQueue."):
        sqs.create("standard", FifoQueue="false")
    with refused("InvalidAttributeName", "Unknown Attribute ContentBasedDeduplication."):
        sqs.create("standard", ContentBasedDeduplication="true")
    url = sqs.create_fifo("said-twice")
    found = sqs.attributes(url)
    assert found["FifoQueue"] == "true"
    assert found["ContentBasedDeduplication"] == "false"
    assert found["DeduplicationScope"] == "queue"
    assert found["FifoThroughputLimit"] == "perQueue"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("DelaySeconds", "901"),
        ("VisibilityTimeout", "43201"),
        ("MessageRetentionPeriod", "59"),
        ("MaximumMessageSize", "1023"),
        ("ReceiveMessageWaitTimeSeconds", "21"),
        ("KmsDataKeyReusePeriodSeconds", "59"),
        ("SqsManagedSseEnabled", "yes"),
        ("Policy", "no JSON"),
    ],
)
def test_values_that_no_attribute_may_have(sqs: SqsBroker, name: str, value: str) -> None:
    words = f"Invalid value for the parameter {name}."
    with refused("InvalidAttributeValue", words, shape="InvalidAttributeValue"):
        sqs.create("never-made", **{name: value})
    with refused(NONE_SUCH):
        sqs.client.get_queue_url(QueueName="never-made")


# Changing.


def test_attributes_are_changed(sqs: SqsBroker) -> None:
    url = sqs.create("changed", VisibilityTimeout="20")
    wanted = {
        "VisibilityTimeout": "69",
        "MaximumMessageSize": "2048",
        "DelaySeconds": "420",
        "ReceiveMessageWaitTimeSeconds": "10",
        "MessageRetentionPeriod": "604800",
        "Policy": '{"Version":"2012-10-17","Statement":[]}',
        "KmsMasterKeyId": "key",
        "KmsDataKeyReusePeriodSeconds": "6000",
    }
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes=wanted)
    found = sqs.attributes(url)
    assert {name: found[name] for name in wanted} == wanted
    assert int(found["LastModifiedTimestamp"]) >= int(found["CreatedTimestamp"])
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"Policy": ""})
    assert "Policy" not in sqs.attributes(url)
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={})
    with refused("MissingParameter", shape="MissingRequiredParameterException"):
        sqs.client.set_queue_attributes(QueueUrl=url)


def test_what_cannot_be_changed(sqs: SqsBroker) -> None:
    standard, fifo = sqs.create("fixed"), sqs.create_fifo("fixed")
    with refused("InvalidAttributeName", "Unknown Attribute FifoQueue."):
        sqs.client.set_queue_attributes(QueueUrl=standard, Attributes={"FifoQueue": "true"})
    with refused("InvalidAttributeValue", "Modifying queue type is not supported."):
        sqs.client.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoQueue": "false"})
    for name in ("QueueArn", "ApproximateNumberOfMessages", "Nonsense"):
        with refused("InvalidAttributeName", f"Unknown Attribute {name}."):
            sqs.client.set_queue_attributes(QueueUrl=standard, Attributes={name: "1"})
    with refused("InvalidAttributeName", "Unknown Attribute Nonsense."):
        sqs.attributes(standard, "Nonsense")
    with refused("InvalidAttributeName", "one type of server-side encryption"):
        sqs.client.set_queue_attributes(
            QueueUrl=standard, Attributes={"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}
        )


def test_contents_are_compared_and_then_not(sqs: SqsBroker) -> None:
    url = sqs.create_fifo("content", ContentBasedDeduplication="true")
    assert sqs.attributes(url)["ContentBasedDeduplication"] == "true"
    sqs.client.set_queue_attributes(QueueUrl=url, Attributes={"ContentBasedDeduplication": "false"})
    assert sqs.attributes(url)["ContentBasedDeduplication"] == "false"
    with refused("QueueAlreadyExists", "ContentBasedDeduplication"):
        sqs.create_fifo("content", ContentBasedDeduplication="true")


# Finding.


def test_any_host_and_any_account_lead_to_the_queue(sqs: SqsBroker) -> None:
    sqs.create("anywhere")
    for url in (
        "https://sqs.us-east-1.amazonaws.com/123456789012/anywhere",
        "http://127.0.0.1:1/queue/anywhere",
        "anywhere",
    ):
        assert sqs.attributes(url, "DelaySeconds") == {"DelaySeconds": "0"}


def test_a_queue_that_is_not_there(sqs: SqsBroker) -> None:
    missing = f"{sqs.url}/000000000000/missing"
    client = sqs.client
    questions: list[Callable[[], object]] = [
        lambda: client.get_queue_url(QueueName="missing"),
        lambda: client.get_queue_attributes(QueueUrl=missing),
        lambda: client.send_message(QueueUrl=missing, MessageBody="x"),
        lambda: client.receive_message(QueueUrl=missing),
        lambda: client.purge_queue(QueueUrl=missing),
        lambda: client.delete_queue(QueueUrl=missing),
        lambda: client.list_queue_tags(QueueUrl=missing),
        lambda: client.list_dead_letter_source_queues(QueueUrl=missing),
        lambda: client.send_message(MessageBody="x"),
    ]
    for ask in questions:
        with refused(NONE_SUCH, "The specified queue does not exist.", shape="QueueDoesNotExist"):
            ask()
    with pytest.raises(client.exceptions.QueueDoesNotExist):
        client.get_queue_url(QueueName="missing")
    with refused("InvalidParameterValue", "Must specify a queue name."):
        client.get_queue_url()


def test_queues_are_listed_by_name_and_in_pages(sqs: SqsBroker) -> None:
    urls = [sqs.create(f"listed-{number}") for number in range(5)]
    listed = sqs.client.list_queues(QueueNamePrefix="listed-")
    assert listed["QueueUrls"] == urls
    assert "NextToken" not in listed
    first = sqs.client.list_queues(QueueNamePrefix="listed-", MaxResults=2)
    assert first["QueueUrls"] == urls[:2]
    rest = sqs.client.list_queues(
        QueueNamePrefix="listed-", MaxResults=3, NextToken=first["NextToken"]
    )
    assert rest["QueueUrls"] == urls[2:]
    assert "NextToken" not in rest
    assert "QueueUrls" not in sqs.client.list_queues(QueueNamePrefix="no such")
    pages = sqs.client.get_paginator("list_queues").paginate(
        QueueNamePrefix="listed-", PaginationConfig={"PageSize": 2}
    )
    assert [url for page in pages for url in page["QueueUrls"]] == urls
    for most in (0, 1_001):
        with refused("InvalidParameterValue", "MaxResults must be an integer between 1 and 1000."):
            sqs.client.list_queues(MaxResults=most)
    with refused("InvalidParameterValue", "Invalid or expired next token."):
        sqs.client.list_queues(MaxResults=1, NextToken="ä")


# Tags and permissions.


def test_tags(sqs: SqsBroker) -> None:
    made = sqs.client.create_queue(QueueName="tagged", tags={"tag1": "value1", "tag2": "value2"})
    url = made["QueueUrl"]
    sqs.client.tag_queue(QueueUrl=url, Tags={"tag2": "new", "tag3": ""})
    tags = {"tag1": "value1", "tag2": "new", "tag3": ""}
    assert sqs.client.list_queue_tags(QueueUrl=url)["Tags"] == tags
    sqs.client.untag_queue(QueueUrl=url, TagKeys=["tag1", "tag3", "never there"])
    assert sqs.client.list_queue_tags(QueueUrl=url)["Tags"] == {"tag2": "new"}
    sqs.client.untag_queue(QueueUrl=url, TagKeys=["tag2"])
    assert "Tags" not in sqs.client.list_queue_tags(QueueUrl=url)
    many = {f"tag{number}": "x" for number in range(51)}
    with refused("InvalidParameterValue", "Too many tags added for queue tagged."):
        sqs.client.tag_queue(QueueUrl=url, Tags=many)
    with refused("MissingParameter", "The request must contain the parameter Tags."):
        sqs.client.tag_queue(QueueUrl=url, Tags={})
    with refused("InvalidParameterValue", "between 1 and 128 characters"):
        sqs.client.tag_queue(QueueUrl=url, Tags={"": "x"})
    with refused("InvalidParameterValue", "between 1 and 128 characters"):
        sqs.client.untag_queue(QueueUrl=url, TagKeys=[])


def test_permissions_are_statements_of_the_policy(sqs: SqsBroker) -> None:
    url = sqs.create("permitted")
    arn = sqs.attributes(url)["QueueArn"]
    add, remove = sqs.client.add_permission, sqs.client.remove_permission
    accounts = ["668614515564", "111111111111"]
    add(QueueUrl=url, Label="first", AWSAccountIds=accounts, Actions=["ReceiveMessage"])
    assert json.loads(sqs.attributes(url)["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "first",
                "Effect": "Allow",
                "Principal": {"AWS": [f"arn:aws:iam::{one}:root" for one in accounts]},
                "Action": "SQS:ReceiveMessage",
                "Resource": arn,
            }
        ],
    }
    with refused(
        "InvalidParameterValue",
        "Value first for parameter Label is invalid. Reason: Already exists.",
    ):
        add(QueueUrl=url, Label="first", AWSAccountIds=accounts[:1], Actions=["*"])
    add(QueueUrl=url, Label="second", AWSAccountIds=accounts[:1], Actions=["SendMessage", "*"])
    remove(QueueUrl=url, Label="first")
    (left,) = json.loads(sqs.attributes(url)["Policy"])["Statement"]
    assert left["Sid"] == "second"
    assert left["Principal"] == {"AWS": f"arn:aws:iam::{accounts[0]}:root"}
    assert left["Action"] == ["SQS:SendMessage", "SQS:*"]
    remove(QueueUrl=url, Label="second")
    assert "Policy" not in sqs.attributes(url)
    with refused(
        "InvalidParameterValue",
        "Value second for parameter Label is invalid. Reason: can't find label.",
    ):
        remove(QueueUrl=url, Label="second")


def test_permissions_that_cannot_be_given(sqs: SqsBroker) -> None:
    url = sqs.create("not-permitted")
    for more, code, words, status in (
        ({"Actions": ["Nonsense"]}, "InvalidParameterValue", "Value SQS:Nonsense for", 400),
        ({"Actions": ["DeleteQueue"]}, "InvalidParameterValue", "Only the queue owner", 400),
        ({"Actions": ["*"] * 8}, "OverLimit", "8 Actions were found", 403),
        ({"Actions": []}, "MissingParameter", "Actions", 400),
        ({"AWSAccountIds": []}, "InvalidParameterValue", "Value [] for parameter PrincipalId", 400),
        ({"AWSAccountIds": ["abc"]}, "InvalidParameterValue", "Value [abc] for parameter", 400),
        ({"Label": "a b"}, "InvalidParameterValue", "Value a b for parameter Label", 400),
    ):
        asked = {"Label": "a", "AWSAccountIds": ["1" * 12], "Actions": ["SendMessage"], **more}
        with refused(code, words, status=status):
            sqs.client.add_permission(QueueUrl=url, **asked)


# Ending.


def test_a_purged_queue_is_empty_and_not_purged_again_at_once(sqs: SqsBroker) -> None:
    url = sqs.create("purged")
    for number in range(3):
        sqs.client.send_message(QueueUrl=url, MessageBody=str(number))
    sqs.client.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=900)
    (leased,) = sqs.receive(url, MaxNumberOfMessages=1)
    assert sqs.counts(url) == (2, 1, 1)
    sqs.client.purge_queue(QueueUrl=url)
    assert sqs.counts(url) == (0, 0, 0)
    with refused(
        "AWS.SimpleQueueService.PurgeQueueInProgress",
        "Only one PurgeQueue operation on purged is allowed every 1 seconds.",
        status=403,
        shape="PurgeQueueInProgress",
    ):
        sqs.client.purge_queue(QueueUrl=url)
    sqs.delete(url, [leased])
    sqs.client.send_message(QueueUrl=url, MessageBody="new")
    assert sqs.bodies(url) == ["new"]


def test_a_deleted_queue_is_gone_and_not_made_again_at_once(sqs: SqsBroker) -> None:
    url = sqs.create("deleted", DelaySeconds="3")
    other = sqs.create("waits")
    sqs.client.send_message(QueueUrl=url, MessageBody="lost", DelaySeconds=0)
    sqs.client.delete_queue(QueueUrl=url)
    with refused(NONE_SUCH):
        sqs.client.get_queue_url(QueueName="deleted")
    with refused(
        "AWS.SimpleQueueService.QueueDeletedRecently",
        "You must wait 1 seconds after deleting a queue before you can create another with the"
        " same name.",
        shape="QueueDeletedRecently",
    ):
        sqs.create("deleted")
    assert sqs.receive(other, WaitTimeSeconds=2) == []  # Time passes.
    url = sqs.create("deleted")
    assert sqs.attributes(url)["DelaySeconds"] == "0"
    assert sqs.receive(url, WaitTimeSeconds=0) == []
