"""boto3: messages are sent, received, hidden, shown again and deleted, as on Amazon."""

import threading
from collections.abc import Iterator
from hashlib import md5

import pytest

from tests.sqs_broker import SqsBroker, refused, sqs_broker

pytestmark = pytest.mark.slow

EVERY_KIND = {
    "text": {"DataType": "String", "StringValue": "Grüße\n"},
    "number": {"DataType": "Number", "StringValue": "-1.5e3"},
    "bytes": {"DataType": "Binary", "BinaryValue": b"\0\xff"},
    "custom": {"DataType": "String.json", "StringValue": "{}"},
    "photo": {"DataType": "Binary.png", "BinaryValue": b"text"},
}
LARGEST = 1_048_576


@pytest.fixture(scope="module")
def sqs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SqsBroker]:
    with sqs_broker(tmp_path_factory.mktemp("broker")) as running:
        yield running


# There and back.


def test_a_message_goes_there_and_back(sqs: SqsBroker) -> None:
    url = sqs.create("there-and-back")
    body = 'Ünïcode 😀 <&>"\t\r\n'
    sent = sqs.client.send_message(
        QueueUrl=url,
        MessageBody=body,
        MessageAttributes=EVERY_KIND,
        MessageSystemAttributes={
            "AWSTraceHeader": {"DataType": "String", "StringValue": "some-trace-id"}
        },
        MessageGroupId="tenant",
    )
    assert sent["MD5OfMessageBody"] == md5(body.encode()).hexdigest()
    assert sent["MD5OfMessageSystemAttributes"] == "fdce4f2818803f2f73becc09a54792c0"
    assert "SequenceNumber" not in sent
    (found,) = sqs.receive(url)
    assert found["Body"] == body
    assert found["MD5OfBody"] == sent["MD5OfMessageBody"]
    assert found["MessageId"] == sent["MessageId"]
    assert found["MessageAttributes"] == EVERY_KIND
    assert found["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]
    system = found["Attributes"]
    assert system["ApproximateReceiveCount"] == "1"
    assert system["AWSTraceHeader"] == "some-trace-id"
    assert system["MessageGroupId"] == "tenant"
    assert int(system["SentTimestamp"]) <= int(system["ApproximateFirstReceiveTimestamp"])
    assert sqs.counts(url) == (0, 1, 0)
    sqs.delete(url, [found])
    assert sqs.counts(url) == (0, 0, 0)


def test_only_what_is_asked_for_comes_along(sqs: SqsBroker) -> None:
    url = sqs.create("asked-for", VisibilityTimeout="0")
    sqs.client.send_message(
        QueueUrl=url,
        MessageBody="msg",
        MessageAttributes={
            name: {"DataType": "String", "StringValue": value}
            for name, value in (("General", "Kenobi"), ("Hello", "There"), ("Help.Me", "Me"))
        },
    )
    (bare,) = sqs.client.receive_message(QueueUrl=url, WaitTimeSeconds=5)["Messages"]
    assert not {"Attributes", "MessageAttributes", "MD5OfMessageAttributes"} & bare.keys()
    for names, digest in (
        (["All"], "4c360f3fdafd970e05fae2f149d997f5"),
        (["*"], "4c360f3fdafd970e05fae2f149d997f5"),
        ([".*"], "4c360f3fdafd970e05fae2f149d997f5"),
        (["Hello", "General"], "fca026605781cb4126a1e9044df24232"),
        (["Hello", "Missing"], "a311262e065454b75da111d535b8dacd"),
        (["Hel.*"], "83fee93c1bcd8b9a5a923ffacdc636c7"),
        (["Missing"], None),
    ):
        answer = sqs.client.receive_message(
            QueueUrl=url,
            MessageAttributeNames=names,
            AttributeNames=["SenderId"],
            MessageSystemAttributeNames=["SequenceNumber"],
            WaitTimeSeconds=5,
        )
        (found,) = answer["Messages"]
        assert found.get("MD5OfMessageAttributes") == digest, names
        assert list(found["Attributes"]) == ["SenderId"]
    with refused("InvalidAttributeName", "Unknown Attribute Nonsense."):
        sqs.client.receive_message(QueueUrl=url, AttributeNames=["Nonsense"])


def test_the_largest_message(sqs: SqsBroker) -> None:
    url = sqs.create("largest")
    body = "x" * (LARGEST - 4)
    sqs.client.send_message(QueueUrl=url, MessageBody=body + "😀")
    (found,) = sqs.receive(url)
    assert found["Body"] == body + "😀"
    with refused(
        "InvalidParameterValue",
        "One or more parameters are invalid. Reason: Message must be shorter than 1048576 bytes.",
    ):
        sqs.client.send_message(QueueUrl=url, MessageBody=body + "😀x")


@pytest.mark.parametrize(
    ("more", "code", "words"),
    [
        ({"MessageBody": ""}, "MissingParameter", "must contain the parameter MessageBody."),
        ({"MessageBody": "\x0b"}, "InvalidMessageContents", "Invalid characters found."),
        ({"DelaySeconds": 901}, "InvalidParameterValue", "DelaySeconds must be >= 0 and <= 900."),
        ({"MessageDeduplicationId": "d"}, "InvalidParameterValue", "not valid for this queue type"),
        (
            {"MessageAttributes": {"a": {"DataType": "Number", "StringValue": "one"}}},
            "InvalidParameterValue",
            "Can't cast the value of message (user) attribute 'a' to a number.",
        ),
        (
            {"MessageAttributes": {"a": {"DataType": "String", "StringValue": ""}}},
            "InvalidParameterValue",
            "Message (user) attribute 'a' must contain a non-empty value of type 'String'.",
        ),
        (
            {"MessageAttributes": {"AWS.a": {"DataType": "String", "StringValue": "x"}}},
            "InvalidParameterValue",
            "reserved for internal use",
        ),
        (
            {"MessageAttributes": {"a": {"DataType": "String", "StringListValues": ["x"]}}},
            "AWS.SimpleQueueService.UnsupportedOperation",
            "list values",
        ),
        (
            {"MessageSystemAttributes": {"a": {"DataType": "String", "StringValue": "x"}}},
            "InvalidParameterValue",
            "Message system attribute name 'a' is invalid.",
        ),
    ],
)
def test_messages_that_cannot_be_sent(
    sqs: SqsBroker, more: dict[str, object], code: str, words: str
) -> None:
    url = sqs.create("unsendable")
    with refused(code, words):
        sqs.client.send_message(QueueUrl=url, **{"MessageBody": "x", **more})
    assert sqs.counts(url) == (0, 0, 0)


@pytest.mark.parametrize(
    ("more", "words"),
    [
        (
            {"MaxNumberOfMessages": 11},
            "Value 11 for parameter MaxNumberOfMessages is invalid. Reason: Must be between 1",
        ),
        ({"MaxNumberOfMessages": 0}, "Must be between 1 and 10, if provided."),
        ({"WaitTimeSeconds": 21}, "Must be >= 0 and <= 20, if provided."),
        ({"VisibilityTimeout": 43_201}, "Must be >= 0 and <= 43200, if provided."),
        ({"ReceiveRequestAttemptId": "a"}, "not valid for this queue type."),
    ],
)
def test_receives_that_cannot_be_meant(sqs: SqsBroker, more: dict[str, object], words: str) -> None:
    url = sqs.create("unreceivable")
    with refused("InvalidParameterValue", words, shape="InvalidParameterValueException"):
        sqs.client.receive_message(QueueUrl=url, **more)


# Batches.


def test_a_batch_goes_there_and_back(sqs: SqsBroker) -> None:
    url = sqs.create("batch")
    entries = [{"Id": f"id-{number}", "MessageBody": f"{number}"} for number in range(10)]
    sent = sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    assert "Failed" not in sent
    assert [one["Id"] for one in sent["Successful"]] == [one["Id"] for one in entries]
    found = sqs.receive(url)
    assert {one["MessageId"] for one in found} == {one["MessageId"] for one in sent["Successful"]}
    assert sorted(one["Body"] for one in found) == [str(number) for number in range(10)]
    visibility = [
        {"Id": one["Body"], "ReceiptHandle": one["ReceiptHandle"], "VisibilityTimeout": 0}
        for one in found
    ]
    changed = sqs.client.change_message_visibility_batch(QueueUrl=url, Entries=visibility)
    assert len(changed["Successful"]) == 10
    again = sqs.receive(url)
    assert {one["Attributes"]["ApproximateReceiveCount"] for one in again} == {"2"}
    sqs.delete(url, again)
    assert sqs.counts(url) == (0, 0, 0)


def test_one_bad_entry_does_not_spoil_the_others(sqs: SqsBroker) -> None:
    url = sqs.create("partial", MaximumMessageSize="1024")
    sent = sqs.client.send_message_batch(
        QueueUrl=url,
        Entries=[
            {"Id": "good", "MessageBody": "good"},
            {"Id": "control", "MessageBody": "\0"},
            {"Id": "empty", "MessageBody": ""},
            {"Id": "late", "MessageBody": "x", "DelaySeconds": 1_000},
            {"Id": "large", "MessageBody": "x" * 1_025},
        ],
    )
    assert [one["Id"] for one in sent["Successful"]] == ["good"]
    failed = {one["Id"]: (one["Code"], one["SenderFault"]) for one in sent["Failed"]}
    assert failed == {
        "control": ("InvalidMessageContents", True),
        "empty": ("EmptyValue", True),
        "late": ("InvalidParameterValue", True),
        "large": ("InvalidParameterValue", True),
    }
    (words,) = [one["Message"] for one in sent["Failed"] if one["Id"] == "large"]
    assert words == (
        "One or more parameters cannot be validated. Reason: Message must be shorter than 1024"
        " bytes."
    )
    (good,) = sqs.receive(url)
    entries = [
        {"Id": "good", "ReceiptHandle": good["ReceiptHandle"]},
        {"Id": "bad", "ReceiptHandle": "bad"},
        {"Id": "none"},
    ]
    visibility = [{**entry, "VisibilityTimeout": 30} for entry in entries]
    for answer in (
        sqs.client.change_message_visibility_batch(QueueUrl=url, Entries=visibility),
        sqs.client.delete_message_batch(QueueUrl=url, Entries=entries),
    ):
        assert [one["Id"] for one in answer["Successful"]] == ["good"]
        failed = {one["Id"]: (one["Code"], one["SenderFault"]) for one in answer["Failed"]}
        assert failed == {
            "bad": ("ReceiptHandleIsInvalid", True),
            "none": ("MissingParameter", True),
        }
    assert sqs.counts(url) == (0, 0, 0)


def test_batches_that_are_refused_as_a_whole(sqs: SqsBroker) -> None:
    url = sqs.create("refused-batches")
    prefix = "AWS.SimpleQueueService."
    twenty = [{"Id": str(number), "MessageBody": "x"} for number in range(20)]
    half = "x" * (LARGEST // 2)
    for entries, code, words in (
        ([], "EmptyBatchRequest", "at least one SendMessageBatchRequestEntry in the request."),
        (
            twenty,
            "TooManyEntriesInBatchRequest",
            "Maximum number of entries per request are 10. You have sent 20.",
        ),
        ([{"Id": "a:b", "MessageBody": "x"}], "InvalidBatchEntryId", "A batch entry id can only"),
        ([{"Id": "a", "MessageBody": "x"}] * 2, "BatchEntryIdsNotDistinct", "Id a repeated."),
        (
            [{"Id": "a", "MessageBody": half}, {"Id": "b", "MessageBody": half + "x"}],
            "BatchRequestTooLong",
            "Batch requests cannot be longer than 1048576 bytes. You have sent 1048577 bytes.",
        ),
    ):
        with refused(prefix + code, words, shape=code):
            sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    for ask in (sqs.client.delete_message_batch, sqs.client.change_message_visibility_batch):
        with refused(prefix + "EmptyBatchRequest"):
            ask(QueueUrl=url, Entries=[])
    assert sqs.counts(url) == (0, 0, 0)


# Waiting.


def test_a_receive_waits_for_a_message(sqs: SqsBroker) -> None:
    url = sqs.create("waited-for", ReceiveMessageWaitTimeSeconds="20")
    found: list[list[str]] = []
    waiting = threading.Thread(target=lambda: found.append(sqs.bodies(url, WaitTimeSeconds=20)))
    waiting.start()
    sqs.client.send_message(QueueUrl=url, MessageBody="at last")
    waiting.join(10)
    assert found == [["at last"]]
    assert sqs.bodies(url, WaitTimeSeconds=0) == []


def test_a_delayed_message_comes_later(sqs: SqsBroker) -> None:
    url = sqs.create("delayed")
    sqs.client.send_message(QueueUrl=url, MessageBody="later", DelaySeconds=1)
    assert sqs.counts(url) == (0, 0, 1)
    assert sqs.bodies(url, WaitTimeSeconds=0) == []
    (found,) = sqs.receive(url)
    system = found["Attributes"]
    took = int(system["ApproximateFirstReceiveTimestamp"]) - int(system["SentTimestamp"])
    assert took >= 1_000


def test_a_queue_may_delay_and_a_message_may_not(sqs: SqsBroker) -> None:
    url = sqs.create("delaying", DelaySeconds="900")
    sqs.client.send_message(QueueUrl=url, MessageBody="later")
    sqs.client.send_message(QueueUrl=url, MessageBody="now", DelaySeconds=0)
    assert sqs.counts(url) == (1, 0, 1)
    assert sqs.bodies(url) == ["now"]


# Leases.


def test_a_message_that_is_not_deleted_comes_back(sqs: SqsBroker) -> None:
    url = sqs.create("comes-back", VisibilityTimeout="1")
    sqs.client.send_message(QueueUrl=url, MessageBody="x")
    (first,) = sqs.receive(url)
    assert sqs.receive(url, WaitTimeSeconds=0) == []
    (second,) = sqs.receive(url)
    assert second["MessageId"] == first["MessageId"]
    assert second["ReceiptHandle"] != first["ReceiptHandle"]
    assert second["Attributes"]["ApproximateReceiveCount"] == "2"
    assert (
        second["Attributes"]["ApproximateFirstReceiveTimestamp"]
        == first["Attributes"]["ApproximateFirstReceiveTimestamp"]
    )
    # The handle is not the latest any more: that is no error, and deletes nothing.
    sqs.delete(url, [first])
    sqs.client.change_message_visibility(
        QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=0
    )
    (third,) = sqs.receive(url, VisibilityTimeout=30)
    sqs.delete(url, [third])
    assert sqs.counts(url) == (0, 0, 0)


def test_who_is_late_deletes_what_nobody_else_has(sqs: SqsBroker) -> None:
    url = sqs.create("late")
    for number in range(3):
        sqs.client.send_message(QueueUrl=url, MessageBody=str(number))
    found = sqs.receive(url, VisibilityTimeout=0)
    assert len(found) == 3
    first = found[0]["ReceiptHandle"]
    sqs.client.delete_message(QueueUrl=url, ReceiptHandle=first)
    assert sqs.counts(url) == (2, 0, 0)
    (taken,) = sqs.receive(url, MaxNumberOfMessages=1)
    sqs.delete(url, found)
    assert sqs.counts(url) == (0, 1, 0)  # Somebody has it, and it stays his.
    sqs.delete(url, [taken])
    assert sqs.counts(url) == (0, 0, 0)


def test_visibility_is_changed(sqs: SqsBroker) -> None:
    url = sqs.create("visibility")
    sqs.client.send_message(QueueUrl=url, MessageBody="x")
    (first,) = sqs.receive(url, VisibilityTimeout=1)
    change = sqs.client.change_message_visibility
    change(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=300)
    assert sqs.receive(url, WaitTimeSeconds=2) == []
    change(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=0)
    (second,) = sqs.receive(url)
    change(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=43_200)
    for seconds in (-1, 43_201):
        with refused(
            "InvalidParameterValue",
            f"Value {seconds} for parameter VisibilityTimeout is invalid. Reason: VisibilityTimeout"
            " must be an integer between 0 and 43200.",
        ):
            change(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=seconds)
    with refused("MissingParameter", "VisibilityTimeout"):
        change(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"])
    with refused("MissingParameter", "ReceiptHandle"):
        change(QueueUrl=url, VisibilityTimeout=1)
    for seconds in (0, 1):  # Another receive has it: no error, and nothing changes.
        change(QueueUrl=url, ReceiptHandle=first["ReceiptHandle"], VisibilityTimeout=seconds)
    assert sqs.receive(url, WaitTimeSeconds=2) == []
    sqs.delete(url, [second])
    with refused(
        "InvalidParameterValue",
        "Reason: Message does not exist or is not available for visibility timeout change.",
    ):
        change(QueueUrl=url, ReceiptHandle=second["ReceiptHandle"], VisibilityTimeout=1)
    sqs.delete(url, [second])  # It is gone: that is what was asked for.


def test_visibility_is_changed_after_the_timeout(sqs: SqsBroker) -> None:
    url = sqs.create("late-visibility")
    sqs.client.send_message(QueueUrl=url, MessageBody="x")
    (late,) = sqs.receive(url, VisibilityTimeout=0)
    assert sqs.counts(url) == (1, 0, 0)
    change = sqs.client.change_message_visibility
    change(QueueUrl=url, ReceiptHandle=late["ReceiptHandle"], VisibilityTimeout=300)
    assert sqs.counts(url) == (0, 1, 0)
    entry = {"Id": "a", "ReceiptHandle": late["ReceiptHandle"], "VisibilityTimeout": 0}
    done = sqs.client.change_message_visibility_batch(QueueUrl=url, Entries=[entry])
    assert [one["Id"] for one in done["Successful"]] == ["a"]
    (again,) = sqs.receive(url)
    assert again["Attributes"]["ApproximateReceiveCount"] == "2"
    sqs.delete(url, [again])


def test_a_message_that_is_given_back_comes_after_those_that_wait(sqs: SqsBroker) -> None:
    url = sqs.create("poison")
    for first in (0, 10):
        entries = [{"Id": f"m{n}", "MessageBody": f"m{n}"} for n in range(first, first + 10)]
        sqs.client.send_message_batch(QueueUrl=url, Entries=entries)
    bad = {"m0", "m3"}
    received: list[str] = []
    for _ in range(40):
        (found,) = sqs.receive(url, MaxNumberOfMessages=1)
        received.append(found["Body"])
        handle = found["ReceiptHandle"]
        if found["Body"] in bad:
            sqs.client.change_message_visibility(
                QueueUrl=url, ReceiptHandle=handle, VisibilityTimeout=0
            )
        else:
            sqs.client.delete_message(QueueUrl=url, ReceiptHandle=handle)
    assert sorted(set(received)) == sorted(f"m{n}" for n in range(20))
    good = max(place for place, body in enumerate(received) if body not in bad)
    assert good <= 25, received
    assert set(received[30:]) == bad


def test_handles_that_are_none(sqs: SqsBroker) -> None:
    url, other = sqs.create("handles"), sqs.create("other-handles")
    sqs.client.send_message(QueueUrl=other, MessageBody="x")
    (foreign,) = sqs.receive(other)
    handle = foreign["ReceiptHandle"]
    forged = ("A" if handle[20] != "A" else "B").join((handle[:20], handle[21:]))
    for bad in ("garbage", handle, forged):
        for ask, more in (
            (sqs.client.delete_message, {}),
            (sqs.client.change_message_visibility, {"VisibilityTimeout": 1}),
        ):
            with refused(
                "ReceiptHandleIsInvalid",
                f'The input receipt handle "{bad}" is not a valid receipt handle.',
                status=404,
                shape="ReceiptHandleIsInvalid",
            ):
                ask(QueueUrl=url, ReceiptHandle=bad, **more)
    with refused("MissingParameter", "The request must contain the parameter ReceiptHandle."):
        sqs.client.delete_message(QueueUrl=url)
