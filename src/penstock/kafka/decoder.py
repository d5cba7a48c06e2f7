"""Bytes to requests, for every message and version of `kafka.schema`.

For a message in a version, a list of steps is made once: a step is a run of fields of fixed size,
which one `struct` reads, or a single field of another kind. Every length is checked against what is
left of the message before it is believed.

Long arrays are read in portions. Each reader that may meet one has a second form, a generator that
yields after every `ROWS_PER_PORTION` rows: its caller lets other requests run in between, and
counts how many rows there were.
"""

import struct
from collections.abc import Callable, Generator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import msgspec

from penstock.core.errors import MalformedRequest
from penstock.core.limits import KAFKA_REQUEST_ROWS_MAX, KAFKA_TAGS_MAX
from penstock.kafka.schema import Direction, Field, Schema, schema_of

FORMATS: Final = {
    "int8": "b", "int16": "h", "int32": "i", "int64": "q", "uint16": "H", "float64": "d",
    "bool": "?", "uuid": "16s", "error_code": "h", "timedelta_i32": "i", "timedelta_i64": "q",
    "datetime_i64": "q",
}  # fmt: skip
ROWS_PER_PORTION: Final = 64
"""How many rows of an array are read or written before other requests may run."""
_VARINT_BYTES_MAX: Final = 5
_SHORT: Final = struct.Struct(">h")
_LONG: Final = struct.Struct(">i")


class Message(msgspec.Struct, frozen=True, gc=False):
    """A request, or a part of one: see `messages.txt` for its fields."""

    if TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any: ...


Reader = Callable[[bytes, int], tuple[Any, int]]
PortionReader = Callable[[bytes, int], Generator[None, None, tuple[Any, int]]]
_ReadStep = Callable[[bytes, int, list[object]], int]
_PortionStep = Callable[[bytes, int, list[object]], Generator[None, None, int]]


class Reading(NamedTuple):
    """How something is read: at once, and in portions if it may be long."""

    read: Reader
    bytes_min: int
    """The fewest bytes that it takes."""
    in_portions: PortionReader | None = None
    """None if there is nothing long in it."""


def reader(
    key: int, direction: Direction, version: int
) -> Callable[[bytes, int], tuple[Message, int]]:
    """Reads a message from a position; gives it and the position after it."""
    return _reading(key, direction, version).read


def portion_reader(
    key: int, direction: Direction, version: int
) -> Callable[[bytes, int], Generator[None, None, tuple[Message, int]]] | None:
    """The same in portions; None for a message without arrays."""
    return _reading(key, direction, version).in_portions


@cache
def _reading(key: int, direction: Direction, version: int) -> Reading:
    schema = schema_of(key, direction)
    title = schema.name.title().replace("_", "") + direction.title()
    return _struct_reading(schema, title, schema.fields, version)


def _struct_reading(schema: Schema, title: str, fields: tuple[Field, ...], version: int) -> Reading:
    kind = _message_class(title, fields)
    defaults = [kind.__struct_defaults__[at] for at in range(len(fields))]
    flexible = schema.is_flexible_in(version)
    steps: list[tuple[_ReadStep, _PortionStep | None]] = []
    bytes_min = int(flexible)
    run: list[tuple[int, str]] = []
    tags: dict[int, tuple[int, Reader]] = {}
    for at, field in enumerate(fields):
        if not field.exists_in(version):
            continue
        if field.tag is not None and flexible:
            tags[field.tag] = (at, _field_reading(schema, title, field, version).read)
        elif field.kind in FORMATS and not field.is_array:
            run.append((at, FORMATS[field.kind]))
            bytes_min += struct.calcsize(">" + FORMATS[field.kind])
        else:
            steps += _read_run(run)
            run = []
            found = _field_reading(schema, title, field, version)
            steps.append((_read_one(at, found.read), _read_one_in_portions(at, found.in_portions)))
            bytes_min += found.bytes_min
    steps += _read_run(run)
    if flexible:
        steps.append((_read_tags(tags), None))
    at_once = [step for step, _ in steps]

    def read(data: bytes, position: int) -> tuple[Message, int]:
        values = defaults[:]
        for step in at_once:
            position = step(data, position, values)
        return kind(*values), position

    def read_in_portions(data: bytes, position: int) -> Generator[None, None, tuple[Message, int]]:
        values = defaults[:]
        for step, in_portions in steps:
            if in_portions is None:
                position = step(data, position, values)
            else:
                position = yield from in_portions(data, position, values)
        return kind(*values), position

    is_long = any(in_portions is not None for _, in_portions in steps)
    return Reading(read, bytes_min, read_in_portions if is_long else None)


@cache
def _message_class(title: str, fields: tuple[Field, ...]) -> type[Message]:
    """One class for all versions of a struct; a struct inside it defaults to its own defaults."""
    rows: list[tuple[str, type, object]] = []
    for field in fields:
        default = field.neutral
        if field.kind == "struct" and not field.is_array and field.null is None:
            default = _message_class(_inner_title(title, field), field.children)()
        rows.append((field.name, object, default))
    made = msgspec.defstruct(title, rows, bases=(Message,), frozen=True, gc=False)
    assert issubclass(made, Message)
    return made


def _inner_title(title: str, field: Field) -> str:
    return title + field.name.title().replace("_", "")


def _field_reading(schema: Schema, title: str, field: Field, version: int) -> Reading:
    flexible = schema.is_flexible_in(version)
    nullable = field.may_be_null_in(version)
    if field.kind == "struct":
        found = _struct_reading(schema, _inner_title(title, field), field.children, version)
        if not field.is_array:
            return Reading(_read_maybe(found.read), 1) if nullable else found
    elif field.kind in FORMATS:
        layout = struct.Struct(">" + FORMATS[field.kind])
        if field.is_array:
            return _numbers_reading(layout.format[1:], layout.size, flexible, nullable)
        return Reading(_read_number(layout), layout.size)
    else:
        found = _text_reading(field.kind, flexible, nullable and not field.is_array)
        if not field.is_array:
            return found
    return _rows_reading(found, flexible, nullable)


def _read_one(at: int, read: Reader) -> _ReadStep:
    def step(data: bytes, position: int, values: list[object]) -> int:
        values[at], position = read(data, position)
        return position

    return step


def _read_one_in_portions(at: int, read: PortionReader | None) -> _PortionStep | None:
    if read is None:
        return None

    def step(data: bytes, position: int, values: list[object]) -> Generator[None, None, int]:
        values[at], position = yield from read(data, position)
        return position

    return step


def _read_run(run: list[tuple[int, str]]) -> list[tuple[_ReadStep, None]]:
    if not run:
        return []
    layout = struct.Struct(">" + "".join(letter for _, letter in run))
    places = [at for at, _ in run]
    first, size, unpack_from = places[0], layout.size, layout.unpack_from
    end = first + len(places)

    def step_side_by_side(data: bytes, position: int, values: list[object]) -> int:
        values[first:end] = unpack_from(data, position)
        return position + size

    def step(data: bytes, position: int, values: list[object]) -> int:
        for at, value in zip(places, unpack_from(data, position), strict=True):
            values[at] = value
        return position + size

    return [(step_side_by_side if places == list(range(first, end)) else step, None)]


def _read_number(layout: struct.Struct) -> Reader:
    def read(data: bytes, position: int) -> tuple[object, int]:
        return layout.unpack_from(data, position)[0], position + layout.size

    return read


def _read_maybe(read: Reader) -> Reader:
    """A struct that may be null has a byte before it (KIP-893): negative for null."""

    def read_maybe(data: bytes, position: int) -> tuple[object, int]:
        if data[position] >= 128:
            return None, position + 1
        return read(data, position + 1)

    return read_maybe


def _text_reading(kind: str, flexible: bool, nullable: bool) -> Reading:
    length = _LENGTHS[flexible, kind == "string"]
    is_string = kind == "string"

    def read(data: bytes, position: int) -> tuple[object, int]:
        size, position = length(data, position)
        if size < 0:
            if size < -1 or not nullable:
                raise MalformedRequest(f"a {kind} of length {size}")
            return None, position
        end = position + size
        if end > len(data):
            raise MalformedRequest(
                f"a {kind} of {size} bytes where {len(data) - position} are left"
            )
        value = data[position:end]
        return (value.decode() if is_string else value), end

    return Reading(read, 1 if flexible else (2 if is_string else 4))


def _rows_reading(row: Reading, flexible: bool, nullable: bool) -> Reading:
    read, least, read_row_in_portions = row

    def read_rows(data: bytes, position: int) -> tuple[object, int]:
        count, position = _count(data, position, least, flexible, nullable)
        if count < 0:
            return None, position
        rows = []
        for _ in range(count):
            found, position = read(data, position)
            rows.append(found)
        return tuple(rows), position

    def read_in_portions(data: bytes, position: int) -> Generator[None, None, tuple[object, int]]:
        count, position = _count(data, position, least, flexible, nullable)
        if count < 0:
            return None, position
        rows = []
        for number in range(1, count + 1):
            if read_row_in_portions is None:
                found, position = read(data, position)
            else:
                found, position = yield from read_row_in_portions(data, position)
            rows.append(found)
            if number % ROWS_PER_PORTION == 0:
                yield
        return tuple(rows), position

    return Reading(read_rows, 1 if flexible else 4, read_in_portions)


def _numbers_reading(letter: str, size: int, flexible: bool, nullable: bool) -> Reading:
    def read_numbers(data: bytes, position: int) -> tuple[object, int]:
        count, position = _count(data, position, size, flexible, nullable)
        if count < 0:
            return None, position
        return struct.unpack_from(f">{letter * count}", data, position), position + count * size

    return Reading(read_numbers, 1 if flexible else 4)


def _count(
    data: bytes, position: int, least: int, flexible: bool, nullable: bool
) -> tuple[int, int]:
    """How many rows follow: as many as can be there, and -1 for null."""
    count, position = _compact_length(data, position) if flexible else _long_length(data, position)
    if count < 0 and (count < -1 or not nullable):
        raise MalformedRequest(f"an array of {count} rows")
    if count > KAFKA_REQUEST_ROWS_MAX or count * least > len(data) - position:
        raise MalformedRequest(f"an array of {count} rows in {len(data) - position} bytes")
    return count, position


def read_varint(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    """An unsigned number of seven bits a byte, the lowest first; Kafka's are at most five long."""
    value = data[position]
    if value < 128:
        return value, position + 1
    value &= 127
    for shift in range(7, 7 * _VARINT_BYTES_MAX, 7):
        position += 1
        byte = data[position]
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position + 1
    raise MalformedRequest("a length that does not end")


def _compact_length(data: bytes, position: int) -> tuple[int, int]:
    value, position = read_varint(data, position)
    return value - 1, position


def _short_length(data: bytes, position: int) -> tuple[int, int]:
    return _SHORT.unpack_from(data, position)[0], position + 2


def _long_length(data: bytes, position: int) -> tuple[int, int]:
    return _LONG.unpack_from(data, position)[0], position + 4


_LENGTHS: Final = {
    (True, True): _compact_length,
    (True, False): _compact_length,
    (False, True): _short_length,
    (False, False): _long_length,
}


def _read_tags(tags: Mapping[int, tuple[int, Reader]]) -> _ReadStep:
    def step(data: bytes, position: int, values: list[object]) -> int:
        count = data[position]
        if count == 0:
            return position + 1
        count, position = _tag_count(data, position)
        seen = -1
        for _ in range(count):
            tag, position = read_varint(data, position)
            if tag <= seen:
                raise MalformedRequest(f"tagged field {tag} after {seen}; tags are in their order")
            seen = tag
            size, position = read_varint(data, position)
            end = position + size
            if end > len(data):
                raise MalformedRequest(f"a tagged field of {size} bytes")
            if tag in tags:
                at, read = tags[tag]
                # Only the field's own bytes are copied: its reader must not look beyond them.
                values[at], _ = read(data[position:end], 0)
            position = end
        return position

    return step


def _tag_count(data: bytes | bytearray | memoryview, position: int) -> tuple[int, int]:
    count, position = read_varint(data, position)
    if count > KAFKA_TAGS_MAX:
        raise MalformedRequest(f"{count} tagged fields; {KAFKA_TAGS_MAX} at most")
    return count, position


def skip_tags(data: bytes | bytearray | memoryview, position: int) -> int:
    """The position after a list of tagged fields that are not wanted."""
    if data[position] == 0:  # As in nearly every request.
        return position + 1
    count, position = _tag_count(data, position)
    for _ in range(count):
        _, position = read_varint(data, position)
        size, position = read_varint(data, position)
        position += size
        if position > len(data):
            raise MalformedRequest(f"a tagged field of {size} bytes")
    return position
