"""Message attributes: rules, digests known from Amazon's own answers, and headers."""

from hashlib import md5

import pytest

from penstock.core.message import Header
from penstock.sqs.errors import InvalidParameterValue, SqsError, UnsupportedOperation
from penstock.sqs.message_attributes import (
    WantedAttributes,
    attribute_headers,
    check_attributes,
    check_name,
    check_trace_header,
    digest_attributes,
    header_attributes,
    wanted_attributes,
)
from penstock.sqs.requests import MessageAttributeValue

EVERYTHING = WantedAttributes(all=True)


def text(value: str, kind: str = "String") -> MessageAttributeValue:
    return MessageAttributeValue(data_type=kind, string_value=value)


def binary(value: bytes, kind: str = "Binary") -> MessageAttributeValue:
    return MessageAttributeValue(data_type=kind, binary_value=value)


# Digests.

KNOWN = [
    (
        {"General": text("Kenobi"), "Hello": text("There"), "Help.Me": text("Me")},
        "4c360f3fdafd970e05fae2f149d997f5",
    ),
    ({"General": text("Kenobi"), "Hello": text("There")}, "fca026605781cb4126a1e9044df24232"),
    ({"Hello": text("There")}, "a311262e065454b75da111d535b8dacd"),
    ({"Hello": text("There"), "Help.Me": text("Me")}, "83fee93c1bcd8b9a5a923ffacdc636c7"),
    ({"Foo": text("Bar")}, "ae7155c6026991b6d54b11589678bf9c"),
    (
        {
            "attr1": binary(
                b"traceparent\x1e00-774062d6c37081a5a0b9b5b88e30627c-2d2482211f6489da-01"
            )
        },
        "8cbe4db156db8a94db8b801b7addb984",
    ),
    (
        {"UserId": text("1234567890123456789012", "Number.bigint")},
        "797ab158d73dcb5242dedc4412c8e855",
    ),
    ({"AWSTraceHeader": text("some-trace-id")}, "fdce4f2818803f2f73becc09a54792c0"),
]


@pytest.mark.parametrize(("attributes", "digest"), KNOWN)
def test_digests_are_those_that_amazon_gives(
    attributes: dict[str, MessageAttributeValue], digest: str
) -> None:
    assert digest_attributes(attributes) == digest
    backwards = dict(reversed(attributes.items()))
    assert digest_attributes(backwards) == digest


def test_no_attributes_have_no_digest() -> None:
    assert digest_attributes({}) is None


def test_lengths_count_bytes() -> None:
    written = b"\0\0\0\2\xc3\xa4" + b"\0\0\0\6String" + b"\1" + b"\0\0\0\3\xe2\x82\xac"
    assert digest_attributes({"ä": text("€")}) == md5(written).hexdigest()


# Rules.


def test_what_attributes_weigh() -> None:
    assert check_attributes({"ab": text("€"), "n": text("12", "Number")}) == 2 + 6 + 3 + 1 + 6 + 2
    assert check_attributes({"b": binary(b"\0\1", "Binary.png")}) == 1 + 10 + 2


@pytest.mark.parametrize(
    ("name", "complaint"),
    [
        ("", "must contain non-empty message (user) attribute names"),
        ("a" * 257, "must be shorter than 256 Bytes"),
        ("a b", "upper and lower score characters"),
        ("ä", "upper and lower score characters"),
        ("AWS.x", "beginning with 'AWS.' or 'Amazon.'"),
        ("aws.x", "beginning with 'AWS.' or 'Amazon.'"),
        ("AmAzOn.x", "beginning with 'AWS.' or 'Amazon.'"),
        (".x", "cannot start or end with '.'"),
        ("x.", "cannot start or end with '.'"),
        ("a..b", "successive"),
        ("sqs-types", "reserved"),
        ("penstock-message-id", "reserved"),
        ("penstock-dedup-id", "reserved"),
        ("Penstock-Origin", "reserved"),
    ],
)
def test_names_that_are_refused(name: str, complaint: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        check_attributes({name: text("x")})
    assert complaint in caught.value.message


@pytest.mark.parametrize(
    "name", ["a", "a" * 256, "A-b_c.9", "AWSx", "amazon-x", "penstock-priority", "penstock.key"]
)
def test_names_that_are_not(name: str) -> None:
    check_name(name)


NAME = "The type of message (user) attribute 'a' is invalid. You must use only the following"
VALUES = [
    (text("x", ""), "must contain a non-empty message attribute type"),
    (text("x", "Strin"), NAME),
    (text("x", "string"), NAME),
    (text("x", "StringList"), NAME),
    (text("x", "String."), NAME),
    (text("x", "String." + "l" * 250), "types must be shorter than 256 Bytes"),
    (text(""), "Message (user) attribute 'a' must contain a non-empty value of type 'String'."),
    (binary(b"x", "String"), "must contain a non-empty value of type 'String'."),
    (binary(b""), "must contain a non-empty value of type 'Binary'."),
    (text("x", "Binary"), "must contain a non-empty value of type 'Binary'."),
    (text("", "Number"), "must contain a non-empty value of type 'Number'."),
    (text("x\0"), "Invalid characters found."),
    (text("one", "Number"), "Can't cast the value of message (user) attribute 'a' to a number."),
    (text("1,5", "Number"), "Can't cast"),
    (text("NaN", "Number"), "Can't cast"),
    (text("0x1f", "Number.int"), "Can't cast"),
    (text("1e127", "Number"), "should be in range (-10**128..10**126)"),
    (text("1e999999", "Number"), "should be in range"),
]


@pytest.mark.parametrize(("attribute", "complaint"), VALUES)
def test_values_that_are_refused(attribute: MessageAttributeValue, complaint: str) -> None:
    with pytest.raises(InvalidParameterValue) as caught:
        check_attributes({"a": attribute})
    assert complaint in caught.value.message


@pytest.mark.parametrize("number", ["0", "-1.5", "+7", ".5", "5.", "1e5", "1E-10", "9" * 38])
def test_numbers_that_are_not(number: str) -> None:
    check_attributes({"a": text(number, "Number")})


def test_more_than_ten() -> None:
    ten = {f"a{number}": text("x") for number in range(10)}
    check_attributes(ten)
    with pytest.raises(InvalidParameterValue) as caught:
        check_attributes({**ten, "one-more": text("x")})
    assert caught.value.message == (
        "Number of message attributes [11] exceeds the allowed maximum [10]."
    )


def test_lists_are_not_supported() -> None:
    listed = MessageAttributeValue(data_type="String", string_list_values=["a"])
    with pytest.raises(UnsupportedOperation):
        check_attributes({"a": listed})
    check_attributes({"a": MessageAttributeValue(data_type="String", string_value="x",
                                                 string_list_values=[])})  # fmt: skip


def test_the_trace_header() -> None:
    assert check_trace_header({"AWSTraceHeader": text("Root=1")}) == b"Root=1"
    refused: list[dict[str, MessageAttributeValue]] = [
        {"Other": text("x")},
        {"AWSTraceHeader": text("1", "Number")},
        {"AWSTraceHeader": text("")},
        {"AWSTraceHeader": text("\0")},
    ]
    for attributes in refused:
        with pytest.raises(SqsError):
            check_trace_header(attributes)


# Headers.


@pytest.mark.parametrize(
    "attributes",
    [
        {},
        {"a": text("b")},
        {"n": text("1", "Number"), "s": text("x", "String.json"), "p": text("y")},
        {"b": binary(b"\0\xff"), "c": binary(b"text", "Binary.txt")},
        {"AWSTraceHeader": text("mine")},
    ],
)
def test_attributes_come_back_out_of_headers(
    attributes: dict[str, MessageAttributeValue],
) -> None:
    assert header_attributes(attribute_headers(attributes), EVERYTHING) == attributes


def test_plain_strings_need_no_types() -> None:
    assert attribute_headers({"a": text("b")}) == [("a", b"b")]


def test_headers_of_kafka_are_attributes() -> None:
    headers: list[Header] = [
        ("text", b"abc"),
        ("bytes", b"\xff"),
        ("none", None),
        ("twice", b"1"),
        ("twice", b"2"),
        ("penstock-priority", b"9"),
        ("AWSTraceHeader", b"Root=1"),
    ]
    assert header_attributes(headers, EVERYTHING) == {
        "text": text("abc"),
        "bytes": binary(b"\xff"),
        "none": text(""),
        "twice": text("2"),
    }


def test_types_that_do_not_fit_are_not_believed() -> None:
    assert header_attributes([("a", b"\xff"), ("sqs-types", b'{"a":"Number"}')], EVERYTHING) == {
        "a": binary(b"\xff")
    }
    assert header_attributes([("a", b"x"), ("sqs-types", b"{broken")], EVERYTHING) == {
        "a": text("x")
    }


@pytest.mark.parametrize(
    ("names", "shown"),
    [
        (("All",), "General Hello Help.Me"),
        ((".*",), "General Hello Help.Me"),
        (("Hel.*",), "Hello Help.Me"),
        (("Help.*",), "Help.Me"),
        (("Hello", "General"), "General Hello"),
        (("Hello", "Missing"), "Hello"),
        (("hello",), ""),
        (("Foo", "Help"), ""),
        (("*",), "General Hello Help.Me"),
        ((), ""),
    ],
)
def test_which_ones_are_asked_for(names: tuple[str, ...], shown: str) -> None:
    headers: list[Header] = [("General", b"Kenobi"), ("Hello", b"There"), ("Help.Me", b"Me")]
    wanted = wanted_attributes(names)
    assert " ".join(header_attributes(headers, wanted)) == shown
    assert wanted.any is bool(names)
