"""Codecs: what goes in comes out, headers say what it is, and what is wrong is `InvalidBody`."""

import base64
import dataclasses
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, ClassVar, TypedDict

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.client.codecs import (
    AUTO,
    JSON,
    ClassCodec,
    Codec,
    Encoded,
    codec_for,
    is_pydantic,
)
from penstock.client.schemas import schema_of
from penstock.core.errors import InvalidBody, InvalidRequest
from penstock.core.message import Header

JSON_HEADER: Header = ("content-type", b"application/json")
TEXT_HEADER: Header = ("content-type", b"text/plain")

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)  # fmt: skip


class Order(msgspec.Struct):
    """Version 3: cents were euros in version 1, and notes are new in version 2."""

    __schema_version__: ClassVar[int] = 3
    id: str
    cents: int
    notes: list[str] = []

    @classmethod
    def upgrade(cls, data: dict[str, Any], version: int) -> dict[str, Any]:
        if version < 2:
            data["cents"] = data.pop("euros") * 100
        return data


class Coordinates(msgspec.Struct, frozen=True):
    x: float
    y: float


@dataclasses.dataclass
class Invoice:
    number: int
    paid_at: datetime
    amount: Decimal


class Reading(TypedDict):
    sensor: str
    value: float


class LikePydantic:
    """Has the methods by which models of pydantic are known, for where it is not installed."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LikePydantic) and other.name == self.name

    __hash__ = None  # type: ignore[assignment]

    def model_dump_json(self) -> str:
        return msgspec.json.encode(self.model_dump()).decode()

    def model_dump(self, mode: str = "json") -> dict[str, str]:
        return {"name": self.name}

    @classmethod
    def model_validate_json(cls, data: bytes) -> "LikePydantic":
        return cls.model_validate(msgspec.json.decode(data))

    @classmethod
    def model_validate(cls, data: object) -> "LikePydantic":
        if not isinstance(data, dict) or not isinstance(data.get("name"), str):
            raise ValueError("name: a text is required")
        return cls(data["name"])


def there_and_back(codec: Codec[Any], value: object) -> Any:
    data, headers = codec.encode(value)
    assert data is not None
    return codec.decode(data, headers)


@given(json_values)
def test_json_comes_back(value: object) -> None:
    if value is not None:
        assert there_and_back(JSON, value) == value


@given(st.binary() | st.text() | json_values)
def test_without_a_codec_everything_comes_back(value: object) -> None:
    if value is not None:
        again = there_and_back(AUTO, value)
        assert again == value
        assert type(again) is type(value)


@given(st.binary())
def test_bytes_come_back_and_carry_nothing(value: bytes) -> None:
    for codec in (codec_for(bytes), AUTO):
        assert codec.encode(value) == (value, ())
        assert codec.decode(value, ()) == value


@given(st.text())
def test_text_comes_back(value: str) -> None:
    assert there_and_back(codec_for(str), value) == value
    assert codec_for(str).encode(value) == (value.encode(), (TEXT_HEADER,))


@given(st.builds(Order, id=st.text(), cents=st.integers(), notes=st.lists(st.text())))
def test_structs_come_back(order: Order) -> None:
    assert there_and_back(codec_for(Order), order) == order


@given(
    st.builds(
        Invoice,
        number=st.integers(),
        paid_at=st.datetimes(timezones=st.just(UTC)),
        amount=st.decimals(allow_nan=False, allow_infinity=False),
    )
)
def test_dataclasses_come_back(invoice: Invoice) -> None:
    assert there_and_back(codec_for(Invoice), invoice) == invoice


@given(st.binary(), st.sampled_from([Order, Invoice, str, bytes, list[int], Reading, None, JSON]))
def test_any_bytes_are_read_or_are_an_invalid_body(data: bytes, choice: Any) -> None:
    for headers in ((), (JSON_HEADER,), (TEXT_HEADER,), ((*TEXT_HEADER[:1], None),)):
        try:
            codec_for(choice).decode(data, headers)
        except InvalidBody as problem:
            told = str(problem)
        else:
            told = "fine"
        assert told


@given(st.text(), st.text())
def test_any_schema_header_is_read_or_is_an_invalid_body(name: str, version: str) -> None:
    order, _ = codec_for(Order).encode(Order("a", 1))
    assert order is not None
    with pytest.raises(InvalidBody):
        codec_for(Order).decode(order, (("schema", f"{name}/{version}x".encode()),))


def test_a_class_says_its_schema() -> None:
    data, headers = codec_for(Order).encode(Order("a", 250))
    assert data == b'{"id":"a","cents":250,"notes":[]}'
    assert headers == (JSON_HEADER, ("schema", b"Order/3"))
    assert codec_for(Invoice).encode(Invoice(1, datetime(2026, 1, 1, tzinfo=UTC), Decimal("1.5")))[
        1
    ] == (JSON_HEADER, ("schema", b"Invoice/1"))


def test_without_a_codec_a_class_says_its_schema_too_and_is_read_as_json() -> None:
    data, headers = AUTO.encode(Coordinates(1, 2))
    assert headers == (JSON_HEADER, ("schema", b"Coordinates/1"))
    assert data is not None
    assert AUTO.decode(data, headers) == {"x": 1, "y": 2}


def test_an_older_version_is_upgraded() -> None:
    data = b'{"id":"a","euros":3}'
    headers = (JSON_HEADER, ("schema", b"Order/1"))
    assert codec_for(Order).decode(data, headers) == Order("a", 300)
    assert codec_for(Order).decode(b'{"id":"a","cents":3}', (("schema", b"Order/2"),)) == Order(
        "a", 3
    )


def test_an_older_version_without_upgrade_is_read_as_it_is() -> None:
    @dataclasses.dataclass
    class Place:
        __schema_version__: ClassVar[int] = 2
        name: str
        country: str = "?"

    headers = (("schema", b"Place/1"),)
    assert codec_for(Place).decode(b'{"name":"Ulm"}', headers) == Place("Ulm")


@pytest.mark.parametrize(
    ("data", "schema", "problem"),
    [
        (b'{"id":"a","cents":3}', b"Order/4", "newer than the Order/3 .* update this program"),
        (b'{"id":"a","cents":3}', b"Invoice/1", "is Invoice/1 and was read as Order/3"),
        (b'{"id":"a","cents":3}', b"Order", "not like Order/3"),
        (b'{"id":"a","cents":3}', b"Order/-1", "not like Order/3"),
        (b'{"id":"a","cents":3}', b"Order/99999999", "not like Order/3"),
        (b'{"id":"a"}', b"Order/1", "Order.upgrade failed .* version 1: KeyError: 'euros'"),
        (b'{"id":"a","euros":"x"}', b"Order/1", "is no Order/3: Expected `int`, got `str`"),
        (b"[]", b"Order/1", "is no Order/3: Expected `object`"),
        (b'{"id":"a","cents":"x"}', b"Order/3", "is no Order/3: Expected `int`, got `str`"),
        (b'{"id":"a"}', b"Order/3", "missing required field `cents`"),
        (b"", b"Order/3", "is no Order/3"),
    ],
)
def test_a_body_of_another_schema_is_refused(data: bytes, schema: bytes, problem: str) -> None:
    with pytest.raises(InvalidBody, match=problem):
        codec_for(Order).decode(data, (("schema", schema),))


def test_a_body_without_headers_counts_as_of_the_readers_version() -> None:
    assert codec_for(Order).decode(b'{"id":"a","cents":1}', ()) == Order("a", 1)


def test_a_body_of_another_kind_is_refused() -> None:
    for codec in (codec_for(Order), JSON, codec_for(list[int])):
        with pytest.raises(InvalidBody, match=r"is text/plain and was read as"):
            codec.decode(b"hello", (TEXT_HEADER,))


@pytest.mark.parametrize(
    "content",
    [b"application/json; charset=utf-8", b"Application/JSON", b"application/cloudevents+json"],
)
def test_json_goes_by_several_names(content: bytes) -> None:
    assert AUTO.decode(b"[1]", (("content-type", content),)) == [1]
    assert JSON.decode(b"[1]", (("content-type", content),)) == [1]


def test_a_content_type_nobody_knows_leaves_bytes() -> None:
    assert AUTO.decode(b"\x89PNG", (("content-type", b"image/png"),)) == b"\x89PNG"
    assert AUTO.decode(b"[1]", (("content-type", None),)) == b"[1]"


def test_types_that_are_no_classes_are_checked_too() -> None:
    assert there_and_back(codec_for(list[int]), [1, 2]) == [1, 2]
    assert codec_for(list[int]).encode([1])[1] == (JSON_HEADER,)
    reading: Reading = {"sensor": "a", "value": 1.5}
    assert there_and_back(codec_for(Reading), reading) == reading
    with pytest.raises(InvalidBody, match="Expected `int`, got `str`"):
        codec_for(list[int]).decode(b'["x"]', ())


def test_none_is_no_body_whatever_the_codec() -> None:
    for choice in (None, bytes, str, JSON, Order, list[int]):
        codec: Codec[Any] = codec_for(choice)
        assert codec.encode(None) == (None, ())


@pytest.mark.parametrize(
    ("choice", "value", "problem"),
    [
        (bytes, "text", "takes bytes, and the body is of type str"),
        (str, b"bytes", "takes str, and the body is of type bytes"),
        (str, "\ud800", "cannot be written as UTF-8"),
        (None, "\ud800", "cannot be written as UTF-8"),
        (Order, {"id": "a"}, "takes Order, and the body is of type dict"),
        (Order, Coordinates(1, 2), "takes Order, and the body is of type Coordinates"),
        (None, object(), "type object cannot be written as JSON"),
        (None, {"a": object()}, "type dict cannot be written as JSON"),
        (JSON, {(1, 2): 3}, "type dict cannot be written as JSON"),
        (JSON, "\ud800", "type str cannot be written as JSON"),
    ],
)
def test_what_a_codec_cannot_write_is_refused(choice: Any, value: object, problem: str) -> None:
    with pytest.raises(InvalidBody, match=problem):
        codec_for(choice).encode(value)


def test_a_circle_and_a_tower_are_refused() -> None:
    circle: list[object] = []
    circle.append(circle)
    with pytest.raises(InvalidBody, match="cannot be written"):
        JSON.encode(circle)
    with pytest.raises(InvalidBody, match="is no JSON"):
        AUTO.decode(b"[" * 100_000, (JSON_HEADER,))


def test_bytes_like_values_are_copied() -> None:
    buffer = bytearray(b"abc")
    codecs: tuple[Codec[Any], ...] = (AUTO, codec_for(bytes))
    for codec in codecs:
        data, _ = codec.encode(memoryview(buffer))
        buffer[0:1] = b"x"
        assert data == b"abc"
        buffer[0:1] = b"a"


def test_values_that_json_lacks_are_written_as_texts() -> None:
    data, _ = JSON.encode({"at": datetime(2026, 1, 1, tzinfo=UTC), "raw": b"x"})
    assert data == b'{"at":"2026-01-01T00:00:00Z","raw":"%s"}' % base64.b64encode(b"x")


def test_models_of_pydantics_shape_are_known_by_their_methods() -> None:
    codec = codec_for(LikePydantic)
    assert isinstance(codec, ClassCodec)
    assert there_and_back(codec, LikePydantic("a")) == LikePydantic("a")
    data, headers = AUTO.encode([LikePydantic("a")])
    assert (data, headers) == (b'[{"name":"a"}]', (JSON_HEADER,))
    with pytest.raises(InvalidBody, match="is no LikePydantic/1: name: a text is required"):
        codec.decode(b"{}", ())
    with pytest.raises(InvalidBody, match="is no LikePydantic/1"):
        codec.decode(b"\xff", ())


def test_models_of_pydantic_come_back() -> None:
    pydantic = pytest.importorskip("pydantic")
    kind: type[Any] = pydantic.create_model("Person", name=(str, ...), age=(int, ...))
    assert is_pydantic(kind)
    person = kind(name="Ada", age=36)
    assert there_and_back(codec_for(kind), person) == person
    assert codec_for(kind).encode(person)[1][1] == ("schema", b"Person/1")
    with pytest.raises(InvalidBody, match="is no Person/1"):
        codec_for(kind).decode(b'{"name": "Ada"}', ())


class Reversing:
    """A codec of one's own."""

    def encode(self, value: str) -> Encoded:
        return value[::-1].encode(), ()

    def decode(self, data: bytes, headers: Sequence[Header]) -> str:
        return data.decode()[::-1]


def test_a_codec_of_ones_own_is_itself() -> None:
    own = Reversing()
    assert codec_for(own) is own
    assert there_and_back(codec_for(own), "abc") == "abc"
    with pytest.raises(InvalidRequest, match=r"make one, Reversing\(…\)"):
        codec_for(Reversing)


@pytest.mark.parametrize("choice", [7, "json", lambda value: value, complex])
def test_what_is_no_codec_is_refused(choice: Any) -> None:
    with pytest.raises(InvalidRequest, match="is no codec"):
        codec_for(choice)


@pytest.mark.parametrize("version", [0, -1, "2", 1.5, True, None])
def test_a_version_that_is_none_is_refused(version: object) -> None:
    kind = type("Thing", (), {"__schema_version__": version})
    with pytest.raises(InvalidRequest, match="a version is an integer"):
        schema_of(kind)


def test_one_class_has_one_codec() -> None:
    assert codec_for(Order) is codec_for(Order)
