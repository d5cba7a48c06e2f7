"""Records become messages, whoever wrote them."""

from hashlib import md5

import pytest

from penstock.core import delivery_headers
from penstock.core.message import Header, Message
from penstock.core.message_id import message_id
from penstock.core.topic import Topic
from penstock.core.types import Offset, PartitionId, TopicId
from penstock.engine.delivery.requests import Delivery, Receipt
from penstock.sqs.answers import ReceivedMessage
from penstock.sqs.errors import InvalidAttributeName
from penstock.sqs.message_attributes import NO_ATTRIBUTES, WantedAttributes, digest_attributes
from penstock.sqs.receive import SYSTEM_ATTRIBUTES, show_message, wanted_system
from penstock.sqs.requests import MessageAttributeValue

TOPIC_ID = TopicId(b"t" * 16)
STANDARD = Topic("orders", TOPIC_ID, (PartitionId(1),), {}, 0)
FIFO = Topic("orders.fifo", TOPIC_ID, (PartitionId(1),), {"queue.order": "fifo"}, 0)
EVERYTHING = WantedAttributes(all=True)


def shown(
    value: bytes | None = b"hello",
    *headers: Header,
    key: bytes | None = None,
    topic: Topic = STANDARD,
    system: frozenset[str] = frozenset(),
    wanted: WantedAttributes = NO_ATTRIBUTES,
) -> ReceivedMessage:
    message = Message(Offset(7), 1_700_000_000_000, key, value, headers)
    receipt = Receipt(PartitionId(1), "queue", Offset(7), 1)
    delivery = Delivery(message, 3, receipt, 2, 1_700_000_001_000, 0)
    return show_message(delivery, topic, "handle", system, wanted, "eu-west-1")


def text(value: str) -> MessageAttributeValue:
    return MessageAttributeValue(data_type="String", string_value=value)


def test_what_everybody_gets() -> None:
    found = shown("höhö".encode())
    assert (found.body, found.receipt_handle) == ("höhö", "handle")
    assert found.md5_of_body == md5("höhö".encode()).hexdigest()
    assert found.message_id == message_id(TOPIC_ID, 3, Offset(7))
    assert found.attributes == {}
    assert found.message_attributes == {}
    assert found.md5_of_message_attributes is None


@pytest.mark.parametrize(
    ("value", "body", "attribute"),
    [
        (b"", "", {}),
        (None, "", {"penstock.tombstone": text("true")}),
        (b"\xff\0", "/wA=", {"penstock.encoding": text("base64")}),
        (b"a\0", "YQA=", {"penstock.encoding": text("base64")}),
    ],
)
def test_bodies_that_no_sender_of_sqs_wrote(
    value: bytes | None, body: str, attribute: dict[str, MessageAttributeValue]
) -> None:
    found = shown(value)
    assert found.body == body
    assert found.md5_of_body == md5(body.encode()).hexdigest()
    assert found.message_attributes == attribute
    assert found.md5_of_message_attributes == digest_attributes(attribute)


def test_headers_and_key_are_attributes_if_they_are_asked_for() -> None:
    headers: list[Header] = [("trace", b"1"), (delivery_headers.PRIORITY, b"9")]
    assert shown(b"x", *headers, key=b"k").message_attributes == {}
    found = shown(b"x", *headers, key=b"k", wanted=EVERYTHING)
    assert found.message_attributes == {"trace": text("1"), "penstock.key": text("k")}
    assert found.md5_of_message_attributes == digest_attributes(found.message_attributes)
    binary = shown(b"x", key=b"\xff", wanted=EVERYTHING).message_attributes["penstock.key"]
    assert (binary.data_type, binary.binary_value) == ("Binary", b"\xff")
    only_trace = WantedAttributes(names=frozenset({"trace"}))
    assert list(shown(b"x", *headers, key=b"k", wanted=only_trace).message_attributes) == ["trace"]


def test_in_a_fifo_queue_the_key_is_the_group() -> None:
    found = shown(key=b"g", topic=FIFO, system=SYSTEM_ATTRIBUTES, wanted=EVERYTHING)
    assert found.message_attributes == {}
    assert found.attributes == {
        "SenderId": "000000000000",
        "SentTimestamp": "1700000000000",
        "ApproximateReceiveCount": "2",
        "ApproximateFirstReceiveTimestamp": "1700000001000",
        "MessageGroupId": "g",
        "SequenceNumber": "00000000000000000007",
    }


def test_what_a_message_says_about_itself() -> None:
    found = shown(
        b"x",
        (delivery_headers.GROUP, b"g"),
        (delivery_headers.DEDUP_ID, b"d"),
        ("AWSTraceHeader", b"Root=1"),
        system=SYSTEM_ATTRIBUTES,
    )
    assert found.attributes["MessageGroupId"] == "g"
    assert found.attributes["MessageDeduplicationId"] == "d"
    assert found.attributes["AWSTraceHeader"] == "Root=1"
    assert "SequenceNumber" not in found.attributes


def test_an_attribute_may_be_called_like_the_trace_header() -> None:
    headers: list[Header] = [
        ("AWSTraceHeader", b"mine"),
        ("sqs-types", b'{"AWSTraceHeader":"String"}'),
    ]
    found = shown(b"x", *headers, system=SYSTEM_ATTRIBUTES, wanted=EVERYTHING)
    assert "AWSTraceHeader" not in found.attributes
    assert found.message_attributes == {"AWSTraceHeader": text("mine")}


def test_a_dead_letter_keeps_its_past() -> None:
    found = shown(
        b"x",
        (delivery_headers.MESSAGE_ID, b"the-old-id"),
        (delivery_headers.SENT_MS, b"1600000000000"),
        (delivery_headers.DEAD_TOPIC, b"orders"),
        (delivery_headers.DEAD_DELIVERIES, b"3"),
        (delivery_headers.DEAD_FIRST_MS, b"1600000000500"),
        system=SYSTEM_ATTRIBUTES,
        wanted=EVERYTHING,
    )
    assert found.message_id == "the-old-id"
    assert found.message_attributes == {}
    assert found.attributes == {
        "SenderId": "000000000000",
        "SentTimestamp": "1600000000000",
        "ApproximateReceiveCount": "5",
        "ApproximateFirstReceiveTimestamp": "1600000000500",
        "DeadLetterQueueSourceArn": "arn:aws:sqs:eu-west-1:000000000000:orders",
    }


def test_headers_that_somebody_wrote_by_hand_break_nothing() -> None:
    found = shown(
        b"x",
        (delivery_headers.SENT_MS, b"yesterday"),
        (delivery_headers.DEAD_DELIVERIES, b"-1"),
        (delivery_headers.GROUP, b"\xff"),
        (delivery_headers.MESSAGE_ID, b"\xff"),
        system=SYSTEM_ATTRIBUTES,
    )
    assert found.attributes["SentTimestamp"] == "1700000000000"
    assert found.attributes["ApproximateReceiveCount"] == "2"
    assert found.attributes["MessageGroupId"] == "/w=="
    assert found.message_id == "\ufffd"


def test_which_system_attributes_are_asked_for() -> None:
    assert wanted_system((), ()) == frozenset()
    assert wanted_system(("SenderId",), ("SentTimestamp",)) == {"SenderId", "SentTimestamp"}
    assert wanted_system((), ("All",)) == SYSTEM_ATTRIBUTES
    assert wanted_system(("All",), ()) == SYSTEM_ATTRIBUTES
    assert wanted_system(("Policy", "SenderId"), ()) == {"SenderId"}
    with pytest.raises(InvalidAttributeName, match="^Unknown Attribute Nonsense.$"):
        wanted_system(("Nonsense",), ())


def test_only_what_is_asked_for_is_shown() -> None:
    found = shown(system=frozenset({"SenderId", "SequenceNumber"}))
    assert found.attributes == {"SenderId": "000000000000"}
