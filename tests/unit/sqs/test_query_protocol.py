"""The Query protocol: forms in, XML out."""

from urllib.parse import urlencode
from xml.etree import ElementTree as ET

import msgspec
import pytest

from penstock.sqs import requests
from penstock.sqs.answers import (
    Answer,
    BatchDone,
    BatchEntryDone,
    BatchSent,
    DeadLetterSourcesListed,
    MessageOfBatchSent,
    MessagesReceived,
    MoveListed,
    MovesListed,
    QueueAttributes,
    QueuesListed,
    QueueTags,
    ReceivedMessage,
    Refusal,
)
from penstock.sqs.errors import QueueDoesNotExist
from penstock.sqs.protocol_errors import (
    MalformedBody,
    MissingAction,
    UnknownAction,
    UnknownVersion,
)
from penstock.sqs.query_protocol import (
    NAMESPACE,
    PARAMETERS_MAX,
    QUEUE_PATH,
    read_form,
    read_query,
    write_query,
    write_query_error,
)
from penstock.sqs.requests import MessageAttributeValue, Request
from penstock.sqs.service import ACTIONS

ID = b"00000000-0000-4000-8000-000000000001"
SPACE = f"{{{NAMESPACE}}}"


def read(action: str, queue_url: str = "", **parameters: str) -> Request:
    """Parameters whose names have `__` for a dot."""
    named = {name.replace("__", "."): value for name, value in parameters.items()}
    form = urlencode({"Action": action, "Version": "2012-11-05", **named}).encode()
    name, request = read_query(read_form(form), queue_url)
    assert name == action
    return request


@pytest.mark.parametrize("name", ACTIONS)
def test_every_action_is_read(name: str) -> None:
    assert read(name) == ACTIONS[name].request()


def test_plain_parameters_have_their_types() -> None:
    assert read(
        "ReceiveMessage",
        QueueUrl="http://h/0/q",
        MaxNumberOfMessages="10",
        WaitTimeSeconds="0",
        AttributeName__1="All",
        MessageAttributeName__1="a",
        MessageAttributeName__2="b",
    ) == requests.ReceiveMessage(
        queue_url="http://h/0/q",
        max_number_of_messages=10,
        wait_time_seconds=0,
        attribute_names=["All"],
        message_attribute_names=["a", "b"],
    )


def test_maps_are_pairs_of_name_and_value() -> None:
    assert read(
        "CreateQueue",
        QueueName="q",
        Attribute__1__Name="DelaySeconds",
        Attribute__1__Value="5",
        Attribute__2__Name="Policy",
        Attribute__2__Value="",
        Tag__1__Key="k",
        Tag__1__Value="v",
    ) == requests.CreateQueue(
        queue_name="q", attributes={"DelaySeconds": "5", "Policy": ""}, tags={"k": "v"}
    )
    assert read("TagQueue", Tag__1__Key="k", Tag__1__Value="v") == requests.TagQueue(
        tags={"k": "v"}
    )
    assert read("UntagQueue", TagKey__1="a", TagKey__2="b") == requests.UntagQueue(
        tag_keys=["a", "b"]
    )


def test_an_empty_list_or_map_is_a_name_without_a_value() -> None:
    assert read("SendMessageBatch", SendMessageBatchRequestEntry="") == requests.SendMessageBatch(
        entries=[]
    )
    assert read("UntagQueue", TagKey="") == requests.UntagQueue(tag_keys=[])
    assert read("SetQueueAttributes", Attribute="") == requests.SetQueueAttributes(attributes={})


def test_message_attributes_and_entries() -> None:
    request = read(
        "SendMessageBatch",
        SendMessageBatchRequestEntry__1__Id="a",
        SendMessageBatchRequestEntry__1__MessageBody="one & two =\r\né",
        SendMessageBatchRequestEntry__1__DelaySeconds="7",
        SendMessageBatchRequestEntry__1__MessageAttribute__1__Name="n",
        SendMessageBatchRequestEntry__1__MessageAttribute__1__Value__DataType="Number",
        SendMessageBatchRequestEntry__1__MessageAttribute__1__Value__StringValue="12",
        SendMessageBatchRequestEntry__1__MessageAttribute__2__Name="b",
        SendMessageBatchRequestEntry__1__MessageAttribute__2__Value__DataType="Binary",
        SendMessageBatchRequestEntry__1__MessageAttribute__2__Value__BinaryValue="AP8=",
        SendMessageBatchRequestEntry__1__MessageSystemAttribute__1__Name="AWSTraceHeader",
        SendMessageBatchRequestEntry__1__MessageSystemAttribute__1__Value__DataType="String",
        SendMessageBatchRequestEntry__1__MessageSystemAttribute__1__Value__StringValue="Root=1",
        SendMessageBatchRequestEntry__2__Id="b",
        SendMessageBatchRequestEntry__2__MessageBody="null",
        SendMessageBatchRequestEntry__2__MessageGroupId="12",
    )
    assert request == requests.SendMessageBatch(
        entries=[
            requests.SendMessageBatchEntry(
                id="a",
                message_body="one & two =\r\né",
                delay_seconds=7,
                message_attributes={
                    "n": MessageAttributeValue(data_type="Number", string_value="12"),
                    "b": MessageAttributeValue(data_type="Binary", binary_value=b"\x00\xff"),
                },
                message_system_attributes={
                    "AWSTraceHeader": MessageAttributeValue(
                        data_type="String", string_value="Root=1"
                    )
                },
            ),
            requests.SendMessageBatchEntry(id="b", message_body="null", message_group_id="12"),
        ]
    )


def test_items_come_in_the_order_of_their_numbers() -> None:
    named = {f"DeleteMessageBatchRequestEntry__{n}__Id": str(n) for n in (10, 9, 2)}
    request = read("DeleteMessageBatch", **named)
    assert isinstance(request, requests.DeleteMessageBatch)
    assert [entry.id for entry in request.entries or ()] == ["2", "9", "10"]


@pytest.mark.parametrize(
    "parameters",
    [
        {"Attribute__Name": "DelaySeconds", "Attribute__Value": "5"},
        {"Attributes__entry__1__key": "DelaySeconds", "Attributes__entry__1__value": "5"},
        {"Attributes__member__1__Name": "DelaySeconds", "Attributes__member__1__Value": "5"},
    ],
)
def test_older_ways_to_write_a_map(parameters: dict[str, str]) -> None:
    assert read("SetQueueAttributes", **parameters) == requests.SetQueueAttributes(
        attributes={"DelaySeconds": "5"}
    )


def test_a_pair_without_a_value_is_for_its_type_to_judge() -> None:
    assert read("SendMessage", MessageAttribute__1__Name="n") == requests.SendMessage(
        message_attributes={"n": MessageAttributeValue()}
    )
    with pytest.raises(MalformedBody):
        read("SetQueueAttributes", Attribute__1__Name="DelaySeconds")


def test_a_list_of_one_needs_no_number() -> None:
    assert read("GetQueueAttributes", AttributeName="All") == requests.GetQueueAttributes(
        attribute_names=["All"]
    )


def test_the_queue_is_said_by_the_path_if_by_nothing_else() -> None:
    assert read("DeleteQueue", "http://h/0/q") == requests.DeleteQueue(queue_url="http://h/0/q")
    assert read("DeleteQueue", "http://h/0/q", QueueUrl="x") == requests.DeleteQueue(queue_url="x")
    assert read("ListQueues", "http://h/0/q") == requests.ListQueues()


@pytest.mark.parametrize(
    "parameters",
    [
        {"DelaySeconds": "soon"},
        {"DelaySeconds": ""},
        {"DelaySeconds__1": "5"},
        {"MessageBody__1": "5"},
        {"MessageAttribute__1__Name": "n", "MessageAttribute__1__Value": "no struct"},
        {"MessageAttribute__1__Name": "n", "MessageAttribute__1__Value__BinaryValue": "~"},
        {"A__B__C__D__E__F__G__H__I": "deep"},
        {"MessageBody": "b", "MessageBody__1": "c", "DelaySeconds__1__2": "5"},
    ],
)
def test_what_is_no_request_is_told_so(parameters: dict[str, str]) -> None:
    with pytest.raises(MalformedBody):
        read("SendMessage", **parameters)


def test_a_form_is_text_and_has_a_bound() -> None:
    assert read_form(b"a=1&b=&a=2") == {"a": "2", "b": ""}
    with pytest.raises(MalformedBody):
        read_form(b"a=%FF")
    with pytest.raises(MalformedBody):
        read_form(b"\xff=1")
    with pytest.raises(MalformedBody):
        read_form(b"&".join(b"a%d=1" % number for number in range(PARAMETERS_MAX + 1)))


def test_actions_and_versions_that_there_are_not() -> None:
    with pytest.raises(MissingAction):
        read_query({}, "")
    with pytest.raises(UnknownAction, match="SendMail"):
        read_query({"Action": "SendMail"}, "")
    with pytest.raises(UnknownVersion, match="2008-01-01"):
        read_query({"Action": "ListQueues", "Version": "2008-01-01"}, "")


@pytest.mark.parametrize("path", ["/q", "/q.fifo", "/0000/q", "/queue/q", "/queue/eu-1/0/q"])
def test_paths_that_name_a_queue(path: str) -> None:
    assert QUEUE_PATH.fullmatch(path.encode())


@pytest.mark.parametrize("path", ["/", "/v1/cluster", "/a/b", "/0/a%20b", "//q", "/0/q/"])
def test_paths_that_do_not(path: str) -> None:
    assert not QUEUE_PATH.fullmatch(path.encode())


# Writing.


def result(action: str, answer: Answer) -> ET.Element:
    reply = write_query(action, answer, ID)
    assert reply.status == 200
    assert b"Content-Type: text/xml\r\n" in reply.headers
    root = ET.fromstring(reply.body)
    assert root.tag == f"{SPACE}{action}Response"
    assert root.findtext(f"{SPACE}ResponseMetadata/{SPACE}RequestId") == ID.decode()
    found = root.find(f"{SPACE}{action}Result")
    assert found is not None
    return found


def plain(element: ET.Element) -> object:
    """Text, or a list of (name, content)."""
    if not len(element):
        return element.text or ""
    return [(child.tag.removeprefix(SPACE), plain(child)) for child in element]


def test_nothing_has_no_result() -> None:
    assert write_query("DeleteQueue", None, ID).body.decode() == (
        f'<?xml version="1.0"?><DeleteQueueResponse xmlns="{NAMESPACE}"><ResponseMetadata>'
        f"<RequestId>{ID.decode()}</RequestId></ResponseMetadata></DeleteQueueResponse>"
    )


def test_a_received_message() -> None:
    value = MessageAttributeValue(data_type="Binary", binary_value=b"\x00\xff")
    message = ReceivedMessage(
        message_id="m",
        receipt_handle="r",
        md5_of_body="5d",
        body='<a href="x">&amp;\r\n\t é\U0001f600</a>',
        attributes={"SentTimestamp": "1"},
        message_attributes={"n": value},
    )
    assert plain(result("ReceiveMessage", MessagesReceived(messages=[message]))) == [
        (
            "Message",
            [
                ("MessageId", "m"),
                ("ReceiptHandle", "r"),
                ("MD5OfBody", "5d"),
                ("Body", '<a href="x">&amp;\r\n\t é\U0001f600</a>'),
                ("Attribute", [("Name", "SentTimestamp"), ("Value", "1")]),
                (
                    "MessageAttribute",
                    [("Name", "n"), ("Value", [("DataType", "Binary"), ("BinaryValue", "AP8=")])],
                ),
            ],
        )
    ]


def test_text_is_escaped_as_amazon_does_and_what_xml_cannot_say_is_replaced() -> None:
    reply = write_query("ListQueueTags", QueueTags(tags={'"': "\r<\x00\uffff"}), ID)
    assert b"<Key>&quot;</Key>" in reply.body
    assert "<Value>&#xD;&lt;\ufffd\ufffd</Value>".encode() in reply.body


def test_json_has_lists_for_maps_and_null_for_nothing() -> None:
    refused = Refusal(id="b", sender_fault=True, code="InvalidParameterValue")
    for action, answer, expected in (
        ("ReceiveMessage", MessagesReceived(), {"messages": None}),
        ("ListQueueTags", QueueTags(tags={"k": "v"}), {"Tags": [{"Key": "k", "Value": "v"}]}),
        (
            "DeleteMessageBatch",
            BatchDone(successful=[BatchEntryDone(id="a")], failed=[refused]),
            {
                "Successful": [{"Id": "a"}],
                "Failed": [
                    {
                        "Id": "b",
                        "SenderFault": True,
                        "Code": "InvalidParameterValue",
                        "Message": None,
                    }
                ],
            },
        ),
    ):
        reply = write_query(action, answer, ID, json=True)
        assert b"Content-Type: application/json\r\n" in reply.headers
        assert msgspec.json.decode(reply.body) == {
            f"{action}Response": {
                f"{action}Result": expected,
                "ResponseMetadata": {"RequestId": ID.decode()},
            }
        }


def test_batches() -> None:
    sent = MessageOfBatchSent(id="a", message_id="m", md5_of_message_body="5d")
    refused = Refusal(id="b", sender_fault=True, code="InvalidParameterValue", message="no")
    answer = BatchSent(successful=[sent], failed=[refused])
    assert plain(result("SendMessageBatch", answer)) == [
        (
            "SendMessageBatchResultEntry",
            [("MD5OfMessageBody", "5d"), ("MessageId", "m"), ("Id", "a")],
        ),
        (
            "BatchResultErrorEntry",
            [
                ("Id", "b"),
                ("SenderFault", "true"),
                ("Code", "InvalidParameterValue"),
                ("Message", "no"),
            ],
        ),
    ]
    done = BatchDone(successful=[BatchEntryDone(id="a")])
    assert plain(result("DeleteMessageBatch", done)) == [
        ("DeleteMessageBatchResultEntry", [("Id", "a")])
    ]
    assert plain(result("ChangeMessageVisibilityBatch", done)) == [
        ("ChangeMessageVisibilityBatchResultEntry", [("Id", "a")])
    ]


def test_lists_and_maps_lie_flat() -> None:
    urls = ["http://h/0/a", "http://h/0/b"]
    flat = [("QueueUrl", url) for url in urls]
    assert plain(result("ListQueues", QueuesListed(queue_urls=urls, next_token="t"))) == [
        *flat,
        ("NextToken", "t"),
    ]
    sources = DeadLetterSourcesListed(queue_urls=urls)
    assert plain(result("ListDeadLetterSourceQueues", sources)) == flat
    assert plain(result("GetQueueAttributes", QueueAttributes(attributes={"a": "1"}))) == [
        ("Attribute", [("Name", "a"), ("Value", "1")])
    ]
    assert plain(result("ListQueueTags", QueueTags(tags={"k": "v"}))) == [
        ("Tag", [("Key", "k"), ("Value", "v")])
    ]
    move = MoveListed(
        status="RUNNING",
        source_arn="arn",
        approximate_number_of_messages_moved=3,
        started_timestamp=1,
    )
    assert plain(result("ListMessageMoveTasks", MovesListed(results=[move]))) == [
        (
            "ListMessageMoveTasksResultEntry",
            [
                ("Status", "RUNNING"),
                ("SourceArn", "arn"),
                ("ApproximateNumberOfMessagesMoved", "3"),
                ("StartedTimestamp", "1"),
            ],
        )
    ]


def test_an_error() -> None:
    reply = write_query_error(QueueDoesNotExist(), ID)
    assert reply.status == 400
    assert plain(ET.fromstring(reply.body)) == [
        (
            "Error",
            [
                ("Type", "Sender"),
                ("Code", "AWS.SimpleQueueService.NonExistentQueue"),
                ("Message", "The specified queue does not exist for this wsdl version."),
                ("Detail", ""),
            ],
        ),
        ("RequestId", ID.decode()),
    ]
