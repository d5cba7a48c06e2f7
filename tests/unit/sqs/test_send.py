"""Messages become records; what is refused, and in which words."""

from hashlib import md5, sha256

import pytest

from penstock.core.message import Header
from penstock.core.queue_settings import QueueSettings
from penstock.core.topic_configs import parse_topic_configs
from penstock.sqs.errors import (
    InvalidMessageContents,
    InvalidParameterValue,
    MissingParameter,
    SqsError,
)
from penstock.sqs.queue_document import QueueDocument
from penstock.sqs.requests import MessageAttributeValue, OutgoingMessage
from penstock.sqs.send import build_message, check_id, sequence_number


def queue(**configs: str) -> QueueSettings:
    """Settings of a queue; `queue__order` is `queue.order`."""
    named = {name.replace("__", "."): value for name, value in configs.items()}
    return parse_topic_configs({"queue.message.headers": "true", **named}).queue


STANDARD = queue()
FIFO = queue(queue__order="fifo", queue__deduplication="id")
CONTENT = queue(queue__order="fifo", queue__deduplication="content")


def message(body: str | None = "hello", **more: object) -> OutgoingMessage:
    return OutgoingMessage(message_body=body, **more)  # type: ignore[arg-type]


def headers(outgoing: OutgoingMessage, settings: QueueSettings) -> list[Header]:
    return list(build_message(outgoing, settings).message.headers)


# Records.


def test_a_plain_message_is_a_value_and_nothing_else() -> None:
    built = build_message(message("héllo"), STANDARD)
    assert (built.message.value, built.message.key) == ("héllo".encode(), None)
    assert built.message.headers == ()
    assert built.message.timestamp_ms == -1
    assert built.size == 6
    assert built.body_digest == md5("héllo".encode()).hexdigest()
    assert built.attributes_digest is None
    assert built.system_attributes_digest is None


def test_everything_that_a_message_can_say() -> None:
    outgoing = message(
        message_attributes={"n": MessageAttributeValue(data_type="Number", string_value="1")},
        message_system_attributes={
            "AWSTraceHeader": MessageAttributeValue(data_type="String", string_value="Root=1")
        },
        message_group_id="g",
        delay_seconds=5,
    )
    built = build_message(outgoing, STANDARD)
    assert list(built.message.headers) == [
        ("n", b"1"),
        ("sqs-types", b'{"n":"Number"}'),
        ("AWSTraceHeader", b"Root=1"),
        ("penstock-group", b"g"),
        ("penstock-delay-ms", b"5000"),
    ]
    assert built.size == len("hello") + len("n") + len("Number") + len("1")
    assert built.attributes_digest
    assert built.system_attributes_digest


def test_in_a_fifo_queue_the_group_is_the_key() -> None:
    outgoing = message(message_group_id="g", message_deduplication_id="d")
    built = build_message(outgoing, FIFO)
    assert built.message.key == b"g"
    assert list(built.message.headers) == [("penstock-dedup-id", b"d")]


def test_contents_are_compared_by_their_hash_unless_there_is_an_id() -> None:
    digest = sha256(b"hello").hexdigest().encode()
    assert headers(message(message_group_id="g"), CONTENT) == [("penstock-dedup-id", digest)]
    given = message(message_group_id="g", message_deduplication_id="mine")
    assert headers(given, CONTENT) == [("penstock-dedup-id", b"mine")]


def test_a_delay_that_is_the_queues_own_is_not_said() -> None:
    delayed = queue(queue__delay__ms="5000")
    assert headers(message(delay_seconds=5), delayed) == []
    assert headers(message(delay_seconds=0), delayed) == [("penstock-delay-ms", b"0")]
    assert headers(message(delay_seconds=0), STANDARD) == []
    assert headers(message(), delayed) == []


def test_a_fifo_queue_has_the_delay_of_the_queue() -> None:
    delayed = queue(queue__order="fifo", queue__deduplication="content", queue__delay__ms="3000")
    for seconds in (0, 3, None):
        outgoing = message(message_group_id="g", delay_seconds=seconds)
        assert [name for name, _ in headers(outgoing, delayed)] == ["penstock-dedup-id"]


def test_ids_in_a_standard_queue_that_was_configured_for_them() -> None:
    by_id = queue(queue__deduplication="id")
    assert headers(message(message_deduplication_id="d"), by_id) == [("penstock-dedup-id", b"d")]
    assert headers(message(), by_id) == []


def test_a_fifo_queue_without_deduplication_needs_no_ids() -> None:
    plain = queue(queue__order="fifo")
    assert headers(message(message_group_id="g"), plain) == []


def test_sequence_numbers_grow_as_texts_too() -> None:
    assert sequence_number(7) == "00000000000000000007"
    assert sequence_number(9) < sequence_number(10)


# Refusals.


@pytest.mark.parametrize("body", [None, ""])
def test_a_message_without_a_body(body: str | None) -> None:
    with pytest.raises(MissingParameter) as caught:
        build_message(message(body), STANDARD)
    assert caught.value.message == "The request must contain the parameter MessageBody."


def test_characters_that_cannot_be_sent() -> None:
    with pytest.raises(InvalidMessageContents) as caught:
        build_message(message("a\0b"), STANDARD)
    assert caught.value.message == (
        "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF |"
        " #xE000 to #xFFFD | #x10000 to #x10FFFF"
    )


def test_a_message_may_weigh_as_much_as_the_queue_says() -> None:
    small = queue(queue__sqs=QueueDocument({"MaximumMessageSize": "1024"}).write())
    build_message(message("é" * 512), small)
    attributes = {"a": MessageAttributeValue(data_type="String", string_value="b")}
    for outgoing in (
        message("x" * 1_025),
        message("é" * 512 + "x"),
        message("x" * 1_020, message_attributes=attributes),
    ):
        with pytest.raises(InvalidParameterValue) as caught:
            build_message(outgoing, small)
        assert caught.value.message == (
            "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."
        )


NOT_HERE = "Reason: The request include parameter that is not valid for this queue type."


@pytest.mark.parametrize(
    ("outgoing", "settings", "words"),
    [
        (
            message(message_group_id="g"),
            FIFO,
            (
                "The queue should either have ContentBasedDeduplication enabled or"
                " MessageDeduplicationId provided explicitly"
            ),
        ),
        (
            message(message_group_id="g", message_deduplication_id="d", delay_seconds=2),
            FIFO,
            f"Value 2 for parameter DelaySeconds is invalid. {NOT_HERE}",
        ),
        (
            message(message_deduplication_id="d"),
            STANDARD,
            f"Value d for parameter MessageDeduplicationId is invalid. {NOT_HERE}",
        ),
        (
            message(delay_seconds=901),
            STANDARD,
            (
                "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be"
                " >= 0 and <= 900."
            ),
        ),
        (
            message(delay_seconds=-1),
            STANDARD,
            (
                "Value -1 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be"
                " >= 0 and <= 900."
            ),
        ),
        (
            message(message_group_id="a b"),
            STANDARD,
            (
                "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only"
                " include alphanumeric and punctuation characters. 1 to 128 in length."
            ),
        ),
    ],
)
def test_what_a_queue_cannot_have(
    outgoing: OutgoingMessage, settings: QueueSettings, words: str
) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        build_message(outgoing, settings)
    assert caught.value.message == words


def test_a_delay_needs_a_topic_that_reads_what_messages_say() -> None:
    unread = queue(queue__message__headers="false")
    build_message(message(delay_seconds=0), unread)
    with pytest.raises(InvalidParameterValue, match="queue.message.headers"):
        build_message(message(delay_seconds=1), unread)


def test_ids() -> None:
    for good in ("a", "x" * 128, "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~09AZaz"):
        check_id(good, "MessageGroupId")
    for bad in ("", "x" * 129, "a b", "ä", "a\n"):
        with pytest.raises(SqsError):
            check_id(bad, "MessageGroupId")
