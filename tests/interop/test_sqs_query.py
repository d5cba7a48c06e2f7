"""The Query protocol, as it was spoken before JSON: forms, URLs and XML, by hand."""

import base64
from collections.abc import Iterator
from hashlib import md5
from http.client import HTTPConnection

import pytest

from tests.interop.query import SIGNED, Document, get, post, read
from tests.interop.served import Served, counts, path_of, serving

pytestmark = pytest.mark.slow

ANY_TEXT = "ä€😀 <tag attribute='1'>&amp; \"quoted\" ]]> \t tab\r\nnew line\n%41+&Action=Bad"


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    with serving(tmp_path_factory.mktemp("query"), "--sqs.cooldown=0s") as broker:
        yield broker


def create(served: Served, name: str, **parameters: object) -> str:
    made = post(served, "CreateQueue", QueueName=name, **parameters)
    assert made.kind == "CreateQueueResponse", made
    return path_of(made.text("QueueUrl"))


def refused(document: Document) -> tuple[int, str]:
    assert document.kind == "ErrorResponse"
    assert document.text("Type") in {"Sender", "Receiver"}
    assert document.text("Message")
    return document.status, document.text("Code")


def test_a_queue_is_made_described_changed_and_deleted(served: Served) -> None:
    path = create(
        served,
        "described",
        Attribute__1__Name="VisibilityTimeout",
        Attribute__1__Value=11,
        Attribute__2__Name="DelaySeconds",
        Attribute__2__Value=0,
        Tag__1__Key="team",
        Tag__1__Value="blue & green",
    )
    assert get(served, "GetQueueUrl", QueueName="described").text("QueueUrl").endswith(path)
    listed = get(served, "ListQueues", QueueNamePrefix="descr").texts("QueueUrl")
    assert [path_of(one) for one in listed] == [path]
    some = get(
        served,
        "GetQueueAttributes",
        path,
        AttributeName__1="VisibilityTimeout",
        AttributeName__2="QueueArn",
    ).pairs("Attribute")
    assert some == {
        "VisibilityTimeout": "11",
        "QueueArn": "arn:aws:sqs:us-east-1:000000000000:described",
    }
    changed = post(
        served,
        "SetQueueAttributes",
        path,
        Attribute__Name="VisibilityTimeout",  # Without a number, as there is but one.
        Attribute__Value="12",
    )
    assert changed.kind == "SetQueueAttributesResponse"
    every = post(served, "GetQueueAttributes", path, AttributeName__1="All").pairs("Attribute")
    assert every["VisibilityTimeout"] == "12"
    post(served, "TagQueue", path, Tag__1__Key="a", Tag__1__Value="b")
    post(served, "UntagQueue", path, TagKey__1="team")
    assert get(served, "ListQueueTags", path).pairs("Tag", "Key") == {"a": "b"}
    assert post(served, "DeleteQueue", path).status == 200
    gone = get(served, "GetQueueUrl", QueueName="described")
    assert refused(gone) == (400, "AWS.SimpleQueueService.NonExistentQueue")


@pytest.mark.parametrize("ask", [get, post])
def test_any_text_goes_there_and_back(served: Served, ask: object) -> None:
    router = get if ask is get else post
    path = create(served, f"any-text-{router.__name__}")
    sent = router(
        served,
        "SendMessage",
        path,
        MessageBody=ANY_TEXT,
        MessageAttribute__1__Name="text",
        MessageAttribute__1__Value__DataType="String",
        MessageAttribute__1__Value__StringValue=ANY_TEXT,
        MessageAttribute__2__Name="bytes",
        MessageAttribute__2__Value__DataType="Binary.raw",
        MessageAttribute__2__Value__BinaryValue=base64.b64encode(bytes(range(256))).decode(),
    )
    assert sent.text("MD5OfMessageBody") == md5(ANY_TEXT.encode()).hexdigest()
    found = router(
        served,
        "ReceiveMessage",
        path,
        MessageAttributeName__1="All",
        AttributeName__1="All",
    )
    assert found.text("Body") == ANY_TEXT
    assert found.text("MessageId") == sent.text("MessageId")
    assert found.text("MD5OfMessageAttributes") == sent.text("MD5OfMessageAttributes")
    assert found.pairs("Attribute")["ApproximateReceiveCount"] == "1"
    attributes = {one.text("Name"): one for one in found.parts("MessageAttribute")}
    assert attributes["text"].text("StringValue") == ANY_TEXT
    assert attributes["bytes"].text("DataType") == "Binary.raw"
    assert base64.b64decode(attributes["bytes"].text("BinaryValue")) == bytes(range(256))
    handle = found.text("ReceiptHandle")
    assert router(served, "DeleteMessage", path, ReceiptHandle=handle).status == 200
    assert counts(served.client(), served.url + path) == (0, 0, 0)


def test_batches_have_an_answer_for_each_entry(served: Served) -> None:
    path = create(served, "batches")
    sent = post(
        served,
        "SendMessageBatch",
        path,
        SendMessageBatchRequestEntry__1__Id="good",
        SendMessageBatchRequestEntry__1__MessageBody="one",
        SendMessageBatchRequestEntry__2__Id="bad",
        SendMessageBatchRequestEntry__2__MessageBody="two",
        SendMessageBatchRequestEntry__2__DelaySeconds=901,
        SendMessageBatchRequestEntry__10__Id="last",
        SendMessageBatchRequestEntry__10__MessageBody="three",
        SendMessageBatchRequestEntry__10__MessageAttribute__1__Name="n",
        SendMessageBatchRequestEntry__10__MessageAttribute__1__Value__DataType="Number",
        SendMessageBatchRequestEntry__10__MessageAttribute__1__Value__StringValue="3",
    )
    accepted = sent.parts("SendMessageBatchResultEntry")
    assert [one.text("Id") for one in accepted] == ["good", "last"]
    (failed,) = sent.parts("BatchResultErrorEntry")
    assert (failed.text("Id"), failed.text("SenderFault")) == ("bad", "true")
    found = get(served, "ReceiveMessage", path, MaxNumberOfMessages=10)
    assert found.texts("Body") == ["one", "three"]
    first, second = found.texts("ReceiptHandle")
    changed = post(
        served,
        "ChangeMessageVisibilityBatch",
        path,
        ChangeMessageVisibilityBatchRequestEntry__1__Id="x",
        ChangeMessageVisibilityBatchRequestEntry__1__ReceiptHandle=first,
        ChangeMessageVisibilityBatchRequestEntry__1__VisibilityTimeout=0,
    )
    assert changed.parts("ChangeMessageVisibilityBatchResultEntry")[0].text("Id") == "x"
    deleted = post(
        served,
        "DeleteMessageBatch",
        path,
        DeleteMessageBatchRequestEntry__1__Id="stale",
        DeleteMessageBatchRequestEntry__1__ReceiptHandle="nothing of yours",
        DeleteMessageBatchRequestEntry__2__Id="done",
        DeleteMessageBatchRequestEntry__2__ReceiptHandle=second,
    )
    assert [one.text("Id") for one in deleted.parts("DeleteMessageBatchResultEntry")] == ["done"]
    (failed,) = deleted.parts("BatchResultErrorEntry")
    assert (failed.text("Id"), failed.text("Code")) == ("stale", "ReceiptHandleIsInvalid")
    assert counts(served.client(), served.url + path) == (1, 0, 0)


def test_a_queue_is_told_by_path_or_by_parameter(served: Served) -> None:
    path = create(served, "addressed")
    for number, (at, more) in enumerate(
        (
            (path, {}),
            ("/", {"QueueUrl": served.url + path}),
            ("/", {"QueueUrl": f"http://sqs.us-east-1.amazonaws.com{path}"}),
            (path.replace("000000000000", "123456789012"), {}),
            ("/queue/us-east-1/000000000000/addressed", {}),
            (path + "-is-not-there", {"QueueUrl": served.url + path}),
        )
    ):
        sent = post(served, "SendMessage", at, MessageBody=number, **more)
        assert sent.kind == "SendMessageResponse", (at, more)
    found = get(served, "ReceiveMessage", path, MaxNumberOfMessages=10)
    assert found.texts("Body") == list("012345")


def test_a_fifo_queue(served: Served) -> None:
    path = create(
        served, "ordered.fifo", Attribute__1__Name="FifoQueue", Attribute__1__Value="true"
    )
    missing = post(served, "SendMessage", path, MessageBody="x", MessageGroupId="g")
    assert refused(missing) == (400, "InvalidParameterValue")
    numbers = []
    for number in (1, 2, 1):  # The third is the first once more.
        sent = post(
            served,
            "SendMessage",
            path,
            MessageBody=number,
            MessageGroupId="g",
            MessageDeduplicationId=number,
        )
        numbers.append(int(sent.text("SequenceNumber")))
    assert numbers[0] < numbers[1]
    assert numbers[2] == numbers[0]
    found = get(
        served, "ReceiveMessage", path, MaxNumberOfMessages=10, AttributeName__1="SequenceNumber"
    )
    assert found.texts("Body") == ["1", "2"]


@pytest.mark.parametrize(
    ("action", "parameters", "code"),
    [
        ("Fly", {}, "InvalidAction"),
        ("", {}, "MissingAction"),
        ("ListQueues", {"Version": "2008-01-01"}, "NoSuchVersion"),
        ("SendMessage", {"MessageBody": "x"}, "AWS.SimpleQueueService.NonExistentQueue"),
        ("CreateQueue", {}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "a.b"}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "x" * 81}, "InvalidParameterValue"),
        ("CreateQueue", {"QueueName": "é"}, "InvalidParameterValue"),
        (
            "CreateQueue",
            {"QueueName": "q", "Attribute__1__Name": "Colour", "Attribute__1__Value": "red"},
            "InvalidAttributeName",
        ),
    ],
)
def test_what_cannot_be_done_is_refused(
    served: Served, action: str, parameters: dict[str, object], code: str
) -> None:
    for ask in (get, post):
        assert refused(ask(served, action, **parameters)) == (400, code)


def test_a_url_alone_changes_nothing(served: Served) -> None:
    path = create(served, "linked")
    for headers in ({}, {"Authorization": "Basic AWS4-HMAC-SHA256 Credential="}):
        answer = served.ask("GET", f"{path}?Action=SendMessage&MessageBody=x", headers=headers)
        assert refused(read(answer.status, answer.body)) == (405, "InvalidMethod")
    assert counts(served.client(), served.url + path) == (0, 0, 0)


def test_one_connection_carries_what_uvicorn_answers_and_what_sqs_answers(served: Served) -> None:
    path = create(served, "one-connection")
    connection = HTTPConnection(served.http, timeout=30)
    try:
        for number in range(3):
            connection.request(
                "GET", f"{path}?Action=SendMessage&MessageBody={number}", headers=SIGNED
            )
            answer = connection.getresponse()
            assert read(answer.status, answer.read()).kind == "SendMessageResponse"
            connection.request("GET", "/v1/queues/one-connection")
            answer = connection.getresponse()
            assert answer.status == 200
            assert b'"ready":%d' % (number + 1) in answer.read().replace(b" ", b"")
    finally:
        connection.close()
